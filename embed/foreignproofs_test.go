package embed_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	natsd "github.com/nats-io/nats-server/v2/server"

	"daybook/embed"
	"daybook/events"
)

// Proofs of another ledger in the directory contradict each event. Accepting damage must not
// treat that as the loss of all events.
func TestAcceptDamageWithProofsOfAnotherLedger(t *testing.T) {
	t.Parallel()
	other := embed.Options{DataDir: t.TempDir()}
	book := start(t, other)
	run(t, book, embed.Script{Code: "2"})
	closeBook(t, book)
	for name, outside := range map[string]bool{"embedded": false, "outside": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir()}
			if outside {
				opts.NATS.URL = outsideNATS(t)
			}
			book := start(t, opts)
			for range 3 {
				run(t, book, embed.Script{Code: "1"})
			}
			before := len(allEvents(t, book))
			closeBook(t, book)

			proofs := filepath.Join(opts.DataDir, "audit")
			own := proofs + "-own"
			if err := os.Rename(proofs, own); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(proofs, os.DirFS(filepath.Join(other.DataDir, "audit"))); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(proofs, "key"), 0o600); err != nil {
				t.Fatal(err)
			}
			accepting := opts
			accepting.Storage.AcceptDamage = true
			if book, err := embed.Start(within(t), accepting); err == nil {
				t.Errorf("the start is not refused; %d of %d events are left", len(allEvents(t, book)), before)
				closeBook(t, book)
				return
			} else {
				wantError(t, err, proofs, "another ledger", "restore")
			}
			// A start after the restoration must not end the origin because of the refused permission.
			if _, err := os.Stat(filepath.Join(proofs, "key.signed.accepted")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the permission to end the origin is left: %v", err)
			}

			if err := os.RemoveAll(proofs); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(own, proofs); err != nil {
				t.Fatal(err)
			}
			book = start(t, accepting)
			if err := book.Ready(within(t)); err != nil {
				t.Error(err)
			}
			for _, e := range allEvents(t, book) {
				if _, ok := e.Data.(*events.LedgerVolumeOpened); ok {
					t.Errorf("a loss was recorded: %+v", e.Data)
				}
			}
		})
	}
}

// The streams of an outside server were restored from an older copy, and another process
// continued there. Its events differ from the hashes of the first one, but they are not
// damage that can be accepted as lost.
func TestAcceptDamageOfAnotherHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func() (url string, stop func()) {
		ns, err := natsd.NewServer(&natsd.Options{Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: dir, NoSigs: true, NoLog: true})
		if err != nil {
			t.Fatal(err)
		}
		ns.Start()
		if !ns.ReadyForConnections(patience) {
			t.Fatal("the NATS server does not start")
		}
		return "nats://" + ns.Addr().String(), func() { ns.Shutdown(); ns.WaitForShutdown() }
	}
	// runs returns how many events there are after n runs, or more until there are enough events: how many
	// checkpoints come between them depends on the time that they take.
	runs := func(opts embed.Options, n, enough int) (events int) {
		t.Helper()
		book := start(t, opts)
		for i := 0; i < n || events < enough; i++ {
			run(t, book, embed.Script{Code: "1"})
			events = len(allEvents(t, book))
		}
		closeBook(t, book)
		return events
	}
	first, second := embed.Options{DataDir: t.TempDir()}, embed.Options{DataDir: t.TempDir()}
	var stop func()
	first.NATS.URL, stop = serve()
	runs(first, 12, 0) // most events are the same in both histories
	stop()
	kept := t.TempDir()
	if err := os.CopyFS(kept, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	first.NATS.URL, stop = serve()
	length := runs(first, 6, 0)
	stop()
	dir = kept
	second.NATS.URL, stop = serve()
	defer stop()
	runs(second, 8, length+5) // the longer history, also with the events of the first one's end
	first.NATS.URL, first.Storage.AcceptDamage = second.NATS.URL, true
	_, err := embed.Start(within(t), first)
	wantError(t, err, "intact events do not match the hashes", "restore the streams")
	runs(second, 1, 0)
}
