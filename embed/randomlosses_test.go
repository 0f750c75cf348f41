package embed_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"daybook/embed"
	"daybook/internal/dev/tier"
)

// A ledger that lost random events verifies after the loss was accepted, also with a second loss,
// and so do its exports. Clients send requests again, and continue their sessions.
func TestRandomAcceptedLossesVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir})
	fillBook(t, book, 0)
	closeBook(t, book)
	if err := os.Remove(filepath.Join(dir, "owner.sock")); err != nil { // cannot be copied
		t.Fatal(err)
	}
	for seed := range tier.Choose[uint64](4, 60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 14))
			copied := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(copied, "audit", "key"), 0o600); err != nil {
				t.Fatal(err)
			}
			for round := range 2 {
				loseEvents(t, copied, random)
				book := start(t, embed.Options{DataDir: copied, Storage: embed.StorageOptions{AcceptDamage: true}})
				fillBook(t, book, round)
				r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here"})
				if err != nil || r.Found > 0 || len(r.Lost) == 0 {
					t.Errorf("round %d, the server: %v\n%s", round, err, r)
				}
				for name, opts := range map[string]embed.ExportOptions{"all": {}, "a session": {Session: "s"}, "the end": {From: r.Last / 2}} {
					opts.Server, opts.Dir, opts.Blobs = getFrom(book), filepath.Join(t.TempDir(), "export"), true
					if _, err := embed.Export(within(t), opts); err != nil {
						t.Fatalf("round %d, export %s: %v", round, name, err)
					}
					if r, err := embed.Verify(within(t), embed.VerifyOptions{Export: opts.Dir}); err != nil || r.Found > 0 {
						t.Errorf("round %d, the export of %s: %v\n%s", round, name, err, r)
					}
				}
				closeBook(t, book)
				if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: copied}); err != nil || r.Found > 0 {
					t.Errorf("round %d, the directory: %v\n%s", round, err, r)
				}
			}
		})
	}
}

// fillBook runs scripts. Those with an idempotency key are the same in each round, and it does not
// wait for them: a run whose end is lost may not end again.
func fillBook(t *testing.T, book *embed.Daybook, round int) {
	t.Helper()
	for i := range 4 {
		key := fmt.Sprintf("key-%d", i)
		submit(t, book, embed.Script{Code: "console.log('one'); console.log('two'); 1", IdempotencyKey: key})
		run(t, book, embed.Script{Code: "for (let i = 0; i < 300; i++) console.log('line', i); throw new Error('three')", Session: "s"})
		run(t, book, embed.Script{Code: "globalThis.a = " + strconv.Itoa(10*round+i) + "; console.log('x'.repeat(2000)); 'y'.repeat(70_000)", Session: "s", Tags: map[string]string{"n": "1"}})
	}
}

// loseEvents changes random bytes of the volumes, or ends one of their files early.
func loseEvents(t *testing.T, dir string, random *rand.Rand) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "LEDGER-*", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	path := blocks[random.IntN(len(blocks))]
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch from := random.IntN(len(raw)); random.IntN(3) {
	case 0:
		raw = raw[:max(from, 1)]
	case 1:
		clear(raw[from:min(len(raw), from+random.IntN(30_000)+1)])
	default:
		for range random.IntN(8) + 1 {
			raw[random.IntN(len(raw))] ^= 0x10
		}
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}
