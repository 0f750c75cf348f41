package embed_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// filesOf returns the files of a directory with their hashes.
func filesOf(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	files := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			files[path] = [sha256.Size]byte{}
			return err
		}
		raw, err := os.ReadFile(path)
		files[path] = sha256.Sum256(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// wantRefused requires an error of an option, in a directory that stays as it is.
func wantRefused(t *testing.T, dir string, start func() error, words ...string) {
	t.Helper()
	before := filesOf(t, dir)
	err := start()
	wantError(t, err, words...)
	if _, ok := errors.AsType[*embed.OptionError](err); !ok {
		t.Errorf("the error is none of an option: %v", err)
	}
	if after := filesOf(t, dir); !maps.Equal(before, after) {
		t.Errorf("the directory had %d files and has %d, or one was changed", len(before), len(after))
	}
}

// startIn returns a start that must fail.
func startIn(t *testing.T, opts embed.Options) func() error {
	return func() error {
		opts.NoRunner, opts.NoSync = true, true
		book, err := embed.Start(within(t), opts)
		if err == nil {
			closeBook(t, book)
		}
		return err
	}
}

// recordRequest records the request of a run, in a Daybook without a runner.
func recordRequest(t *testing.T, opts embed.Options) {
	t.Helper()
	opts.NoRunner = true
	book := start(t, opts)
	submit(t, book, embed.Script{Code: "1"})
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
	closeBook(t, book)
}

// A directory whose ledger is on an outside NATS server is not started without that server:
// the ledger is not damaged, and to accept the damage would ruin the directory.
func TestStartWithoutTheServerOfTheLedger(t *testing.T) {
	t.Parallel()
	streams := t.TempDir()
	url, stop := outsideNATSOn(t, streams, 0)
	opts := embed.Options{DataDir: t.TempDir()}
	dir, file := opts.DataDir, filepath.Join(opts.DataDir, "outside-server")
	recorded := func(url string) {
		t.Helper()
		if raw, err := os.ReadFile(file); err != nil || string(raw) != strings.TrimPrefix(url, "nats://")+"\n" {
			t.Errorf("the recorded address is %q, %v; want %s", raw, err, url)
		}
	}
	opts.NATSURL = strings.Replace(url, "//", "//ada:secret@", 1)
	recordRequest(t, opts)
	recorded(url)

	own := embed.Options{DataDir: dir}
	accepting := embed.Options{DataDir: dir, AcceptDamage: true}
	at := "the NATS server at " + strings.TrimPrefix(url, "nats://")
	wantRefused(t, dir, startIn(t, own), dir, at, "--nats-url")
	wantRefused(t, dir, startIn(t, accepting), dir, at, "--nats-url")
	rebuild := func(opts embed.Options) (uint64, error) { return embed.Rebuild(within(t), opts) }
	wantRefused(t, dir, func() error { _, err := rebuild(own); return err }, at, "--nats-url")
	for name, read := range map[string]func(context.Context) error{
		"verify": func(ctx context.Context) error {
			_, err := embed.Verify(ctx, embed.VerifyOptions{DataDir: dir})
			return err
		},
		"export": func(ctx context.Context) error {
			_, err := embed.Export(ctx, embed.ExportOptions{DataDir: dir, Dir: filepath.Join(t.TempDir(), "export")})
			return err
		},
	} {
		t.Log(name)
		wantRefused(t, dir, func() error { return read(within(t)) }, at, "--server")
	}
	if n, err := rebuild(opts); err != nil || n == 0 {
		t.Errorf("a rebuild with the server reads %d events: %v", n, err)
	}

	// As an earlier version leaves it.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, startIn(t, own), "an outside NATS server", "not recorded", "--nats-url", "restore")
	wantRefused(t, dir, startIn(t, accepting), "--nats-url")

	stop() // the server moves
	moved, _ := outsideNATSOn(t, streams, 0)
	recordRequest(t, embed.Options{DataDir: dir, NATSURL: moved})
	recorded(moved)
	if err := os.WriteFile(file, []byte("old.example:4222\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	recordRequest(t, embed.Options{DataDir: dir, NATSURL: moved})
	recorded(moved)

	// While a process owns the directory, that process is asked.
	book := start(t, embed.Options{DataDir: dir, NATSURL: moved, NoRunner: true})
	if _, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir}); !errors.Is(err, embed.ErrLocked) {
		t.Errorf("the owner is not named: %v", err)
	}
	closeBook(t, book)

	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0001"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, startIn(t, own), "a ledger of its own", "outside-server", "moved into the directory")
}

// A directory with a ledger of its own is not started on another ledger: its projections,
// proofs and marks would be of both.
func TestStartWithTheServerOfAnotherLedger(t *testing.T) {
	t.Parallel()
	url := outsideNATS(t)
	recordRequest(t, embed.Options{DataDir: t.TempDir(), NATSURL: url}) // a new directory is fine
	opts := embed.Options{DataDir: t.TempDir()}
	dir := opts.DataDir
	recordRequest(t, opts)
	other := embed.Options{DataDir: dir, NATSURL: url}
	wantRefused(t, dir, startIn(t, other), dir, "a ledger of its own", "without --nats-url", "another --data-dir")
	accepting := other
	accepting.AcceptDamage = true
	wantRefused(t, dir, startIn(t, accepting), "a ledger of its own")
	wantRefused(t, dir, func() error { _, err := embed.Rebuild(within(t), other); return err }, `"daybook rebuild" without --nats-url`)
	recordRequest(t, opts) // nothing was mixed

	// The owner that serves the ledger is not asked to end.
	book := start(t, embed.Options{DataDir: dir, NoRunner: true, Background: true})
	taking := other
	taking.TakeOver = true
	if err := startIn(t, taking)(); err == nil || !strings.Contains(err.Error(), "a ledger of its own") {
		t.Errorf("beside its owner the start is met with: %v", err)
	}
	select {
	case <-book.Released():
		t.Error("the owner is asked to end")
	default:
	}
	closeBook(t, book)

	if err := os.Rename(filepath.Join(dir, "jetstream"), filepath.Join(dir, "lost")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, startIn(t, other), "a ledger of its own")
	if err := startIn(t, opts)(); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("without its streams the ledger is not damaged: %v", err)
	}
}

// An acceptance that was cut short while the streams were moved is finished, also where
// their descriptions were lost: the ledger is in this directory.
func TestStartWhileStreamsAreMoved(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), NoRunner: true, NoAudit: true}
	dir := opts.DataDir
	book := start(t, opts)
	submit(t, book, embed.Script{Code: "1"})
	list := allEvents(t, book)
	closeBook(t, book)
	lost := list[len(list)-1].Seq + 1
	plan := fmt.Sprintf(`{"volume":2,"first":%d,"kept":"damaged-then","lost":[{"from":%d,"to":%d,"named_at":%d}]}`, lost+1, lost, lost, lost+1)
	for _, err := range []error{
		os.Rename(filepath.Join(dir, "jetstream"), filepath.Join(dir, "accepted")),
		os.Mkdir(filepath.Join(dir, "damaged-then"), 0o700),
		os.RemoveAll(filepath.Join(dir, "descriptions")),
		os.WriteFile(filepath.Join(dir, "accepting.json"), []byte(plan), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wantRefused(t, dir, startIn(t, embed.Options{DataDir: dir, NATSURL: "nats://127.0.0.1:1"}), "a ledger of its own")
	book = start(t, opts)
	defer closeBook(t, book)
	if got := allEvents(t, book); len(got) != len(list)+1 || got[len(list)].Type != events.TypeLedgerVolumeOpened {
		t.Errorf("%d events before, and now %+v", len(list), got)
	}
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
}
