package embed_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"daybook/embed"
)

// The ledger of a closed Daybook verifies, also after a second start. A changed byte on the disk
// is found.
func TestVerifyADataDirectory(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	var key string
	for round := range 2 {
		book := start(t, opts)
		_, heap := completes(t, book, embed.Script{Code: "globalThis.n = 1; console.log('written', n); n", Session: "audit", Tags: map[string]string{"a": "b"}})
		completes(t, book, embed.Script{Code: "n + 1", Heap: heap, Session: "audit"})
		if e := run(t, book, embed.Script{Code: "throw new Error('fails')", Session: "audit"}); deref(e.Error) == "" {
			t.Error("a script that throws has no error")
		}
		completes(t, book, embed.Script{Code: "/*" + strings.Repeat("long ", 20_000) + "*/ 1"}) // its source is a blob
		key = book.AuditKey()
		if _, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir}); !errors.Is(err, embed.ErrLocked) {
			t.Errorf("while the Daybook runs: %v, want ErrLocked", err)
		}
		closeBook(t, book)
		r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}})
		if err != nil {
			t.Fatal(err)
		}
		runs := 4 * (round + 1)
		if !r.OK || !r.Complete || r.Executions != runs || r.Ended != runs || r.Entries != runs-runs/4 || r.Blobs < 3 || r.Unsigned > 1 || r.Key != key {
			t.Errorf("round %d: %s", round, r)
		}
	}
	blocks, err := filepath.Glob(filepath.Join(opts.DataDir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0001", "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("blocks %v, %v", blocks, err)
	}
	raw, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(raw), "written 1")
	if at < 0 {
		t.Fatal("the output is not in the block")
	}
	raw[at] ^= 1
	if err := os.WriteFile(blocks[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK || !strings.Contains(r.String(), "NOT INTACT") {
		t.Errorf("with a byte changed on the disk: %s", r)
	}
}

// A directory without a ledger is reported as such and not changed.
func TestVerifyWithoutALedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir}); err == nil || !strings.Contains(err.Error(), "no ledger") {
		t.Errorf("an empty directory: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("the directory has %v, %v", list, err)
	}
}

// The ledger of a closed Daybook is exported from its directory. The export verifies without the
// directory.
func TestExportADataDirectory(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := start(t, opts)
	completes(t, book, embed.Script{Code: "console.log('one'); 1", Session: "mine"})
	completes(t, book, embed.Script{Code: "2", Session: "theirs"})
	key := book.AuditKey()
	closeBook(t, book)
	for session, runs := range map[string]int{"": 2, "mine": 1} {
		dir := filepath.Join(t.TempDir(), "export")
		done, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Session: session, Blobs: true})
		if err != nil || done.Blobs != runs || done.Complete != (session == "") {
			t.Fatalf("%+v, %v", done, err)
		}
		r, err := embed.Verify(within(t), embed.VerifyOptions{Export: dir, Keys: []string{key}})
		if err != nil || !r.OK || r.Executions != runs {
			t.Errorf("%v\n%s", err, r)
		}
	}
}

// BenchmarkAudit measures runs per second and processor time per run, with and without proofs.
func BenchmarkAudit(b *testing.B) {
	for _, without := range []bool{true, false} {
		name := "on"
		if without {
			name = "off"
		}
		b.Run(name, func(b *testing.B) {
			book := start(b, embed.Options{Proof: embed.ProofOptions{Off: without}, Runs: embed.RunOptions{Stateless: true}})
			completes(b, book, embed.Script{Code: "1"})
			var before, after unix.Rusage
			if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
				b.Fatal(err)
			}
			b.SetParallelism(4)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := book.Run(b.Context(), embed.Script{Code: "console.log('x'); 1"}); err != nil {
						b.Error(err)
					}
				}
			})
			if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
				b.Fatal(err)
			}
			spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			b.ReportMetric(float64(spent)/1000/float64(b.N), "cpu-us/run")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// Without the proofs beside it, a ledger is verified with its events and the checkpoints among them.
func TestVerifyWithoutTheProofsBesideTheLedger(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), Proof: embed.ProofOptions{KeyFile: filepath.Join(t.TempDir(), "key")}}
	book := start(t, opts)
	run(t, book, embed.Script{Code: "1"})
	key := book.AuditKey()
	closeBook(t, book)
	for _, path := range []string{filepath.Join(opts.DataDir, "audit", "ledger.json"), filepath.Join(opts.DataDir, "audit")} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}})
		if err != nil || r.Found > 0 || r.Signed == 0 || r.Key != key || r.Verdict != embed.IntactUpTo && !r.OK {
			t.Errorf("without %s: %v\n%s", path, err, r)
		}
		if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir}); err != nil || r.Verdict != embed.Unauthenticated {
			t.Errorf("without %s and a key: %v\n%s", path, err, r)
		}
	}
}
