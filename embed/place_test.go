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
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

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

// wantRefused requires an error of an option, and that the directory does not change.
func wantRefused(t *testing.T, dir string, start func() error, words ...string) {
	t.Helper()
	before := filesOf(t, dir)
	err := start()
	wantError(t, err, words...)
	if _, ok := errors.AsType[*embed.OptionError](err); !ok {
		t.Errorf("the error is not an OptionError: %v", err)
	}
	if after := filesOf(t, dir); !maps.Equal(before, after) {
		t.Errorf("the directory had %d files and has %d, or one was changed", len(before), len(after))
	}
}

// startIn returns a start that must fail.
func startIn(t *testing.T, opts embed.Options) func() error {
	return func() error {
		opts.Runs.Elsewhere, opts.NATS.NoSync = true, true
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
	opts.Runs.Elsewhere = true
	book := start(t, opts)
	submit(t, book, embed.Script{Code: "1"})
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
	closeBook(t, book)
}

// A directory whose ledger is on an outside NATS server cannot be started without that server.
// Its ledger is not damaged: accepting damage would ruin the directory.
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
	opts.NATS.URL = strings.Replace(url, "//", "//ada:secret@", 1)
	recordRequest(t, opts)
	recorded(url)

	own := embed.Options{DataDir: dir}
	accepting := embed.Options{DataDir: dir, Storage: embed.StorageOptions{AcceptDamage: true}}
	at := "the NATS server at " + strings.TrimPrefix(url, "nats://")
	wantRefused(t, dir, startIn(t, own), dir, at, "--nats-url")
	wantRefused(t, dir, startIn(t, accepting), dir, at, "--nats-url")
	rebuild := func(opts embed.Options) (embed.Rebuilt, error) { return embed.Rebuild(within(t), opts) }
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
	if r, err := rebuild(opts); err != nil || r.Events == 0 {
		t.Errorf("a rebuild with the server reads %d events: %v", r.Events, err)
	}

	// An earlier version did not write this file.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, startIn(t, own), "an outside NATS server", "not recorded", "--nats-url", "restore")
	wantRefused(t, dir, startIn(t, accepting), "--nats-url")

	stop() // the server moves
	moved, _ := outsideNATSOn(t, streams, 0)
	recordRequest(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: moved}})
	recorded(moved)
	if err := os.WriteFile(file, []byte("old.example:4222\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	recordRequest(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: moved}})
	recorded(moved)

	// While a process owns the directory, the error names that process.
	book := start(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: moved}, Runs: embed.RunOptions{Elsewhere: true}})
	if _, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: dir}); !errors.Is(err, embed.ErrLocked) {
		t.Errorf("the owner is not named: %v", err)
	}
	closeBook(t, book)

	if err := os.MkdirAll(filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "LEDGER-0001"), 0o700); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, dir, startIn(t, own), "a ledger of its own", "outside-server", "moved into the directory")
}

// A directory with a ledger of its own cannot be started with another ledger: its projections,
// proofs and marks would belong to both.
func TestStartWithTheServerOfAnotherLedger(t *testing.T) {
	t.Parallel()
	url := outsideNATS(t)
	recordRequest(t, embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}}) // a new directory is accepted
	opts := embed.Options{DataDir: t.TempDir()}
	dir := opts.DataDir
	recordRequest(t, opts)
	other := embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: url}}
	wantRefused(t, dir, startIn(t, other), dir, "a ledger of its own", "without --nats-url", "another --data-dir")
	accepting := other
	accepting.Storage.AcceptDamage = true
	wantRefused(t, dir, startIn(t, accepting), "a ledger of its own")
	wantRefused(t, dir, func() error { _, err := embed.Rebuild(within(t), other); return err }, `"daybook rebuild" without --nats-url`)
	recordRequest(t, opts) // nothing was mixed

	// The owner that serves the ledger is not asked to end.
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}, Owner: embed.OwnerOptions{Background: true}})
	taking := other
	taking.Owner.TakeOver = true
	if err := startIn(t, taking)(); err == nil || !strings.Contains(err.Error(), "a ledger of its own") {
		t.Errorf("beside its owner the start returns: %v", err)
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

// An acceptance of damage that was interrupted while it moved the streams is completed, also if
// their configurations are lost: the directory still counts as one with a ledger of its own.
func TestStartWhileStreamsAreMoved(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), Runs: embed.RunOptions{Elsewhere: true}, Proof: embed.ProofOptions{Off: true}}
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
	wantRefused(t, dir, startIn(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: "nats://127.0.0.1:1"}}), "a ledger of its own")
	book = start(t, opts)
	defer closeBook(t, book)
	if got := allEvents(t, book); len(got) != len(list)+1 || got[len(list)].Type != events.TypeLedgerVolumeOpened {
		t.Errorf("%d events before, now %+v", len(list), got)
	}
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
}

// statesOf returns the streams of a NATS server, with their last position.
func statesOf(t *testing.T, url string) map[string]uint64 {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]uint64{}
	list := js.ListStreams(within(t))
	for info := range list.Info() {
		states[info.Config.Name] = info.State.LastSeq
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return states
}

// A directory whose ledger is on an outside NATS server cannot be started with a server that has
// another ledger. Neither the directory nor the server changes.
func TestStartAtAnotherOutsideServer(t *testing.T) {
	t.Parallel()
	streams := t.TempDir()
	url, stop := outsideNATSOn(t, streams, 0)
	opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: url}}
	dir, file := opts.DataDir, filepath.Join(opts.DataDir, "outside-server")
	book := start(t, opts)
	completes(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	recorded := "the NATS server at " + strings.TrimPrefix(url, "nats://")
	refused := func(other string, words ...string) {
		t.Helper()
		before := statesOf(t, other)
		at := embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: other}}
		wantRefused(t, dir, startIn(t, at), words...)
		at.Proof.Off = true
		wantRefused(t, dir, startIn(t, at), words...)
		wantRefused(t, dir, func() error { _, err := embed.Rebuild(within(t), at); return err }, words...)
		at.Storage.AcceptDamage = true
		wantRefused(t, dir, startIn(t, at), words...)
		if after := statesOf(t, other); !maps.Equal(before, after) {
			t.Errorf("the streams of the server were %v and are %v", before, after)
		}
	}

	longer, shorter, empty := outsideNATS(t), outsideNATS(t), outsideNATS(t)
	elsewhere := start(t, embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: longer}})
	for range 4 {
		completes(t, elsewhere, embed.Script{Code: "2"})
	}
	closeBook(t, elsewhere)
	recordRequest(t, embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: shorter}, Proof: embed.ProofOptions{Off: true}})
	refused(longer, dir, recorded, "holds another ledger", "--nats-url", "another --data-dir")
	refused(shorter, dir, recorded, "holds another ledger", "--nats-url")
	refused(empty, dir, recorded, "holds no ledger", "--nats-url", file)

	// The owner that serves the ledger is not asked to end.
	background := opts
	background.Runs.Elsewhere, background.Owner.Background = true, true
	book = start(t, background)
	taking := embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: longer}, Owner: embed.OwnerOptions{TakeOver: true}}
	wantError(t, startIn(t, taking)(), recorded, "holds another ledger")
	taking.Owner.TakeOver = false
	if err := startIn(t, taking)(); !errors.Is(err, embed.ErrLocked) {
		t.Errorf("the owner is not named: %v", err)
	}
	select {
	case <-book.Released():
		t.Error("the owner is asked to end")
	default:
	}
	closeBook(t, book)

	recordRequest(t, opts) // nothing was mixed
	stop()
	moved, _ := outsideNATSOn(t, streams, 0)
	recordRequest(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: moved}})

	// Without the address only the proofs identify the ledger. Missing events are damage then.
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused(longer, filepath.Join(dir, "audit"), "another ledger", "another --data-dir")
	err := startIn(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: empty}, Storage: embed.StorageOptions{AcceptDamage: true}})()
	wantError(t, err, strings.TrimPrefix(empty, "nats://"), "holds no ledger", "restore the streams")
	if !errors.Is(err, events.ErrDamaged) {
		t.Errorf("a ledger that was lost is not damaged: %v", err)
	}
	book = start(t, embed.Options{DataDir: dir, NATS: embed.NATSOptions{URL: empty}})
	if err := book.Ready(within(t)); !errors.Is(err, events.ErrDamaged) {
		t.Errorf("a ledger that was lost is not damaged: %v", err)
	}
	closeBook(t, book)
}

// A directory without proofs knows only the highest position of its ledger.
func TestStartWithoutProofsAtAnotherOutsideServer(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: outsideNATS(t)}, Proof: embed.ProofOptions{Off: true}}
	book := start(t, opts)
	completes(t, book, embed.Script{Code: "1"})
	closeBook(t, book)
	shorter := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: outsideNATS(t)}, Proof: embed.ProofOptions{Off: true}}
	recordRequest(t, shorter)
	other := opts
	other.NATS.URL = shorter.NATS.URL
	wantRefused(t, opts.DataDir, startIn(t, other), opts.DataDir, strings.TrimPrefix(opts.NATS.URL, "nats://"), "ends at event 1 of", "outside-server")
	book = start(t, opts)
	if err := book.Ready(within(t)); err != nil {
		t.Error(err)
	}
	closeBook(t, book)
}

// A ledger with a changed first event is the same ledger, with damage, at the recorded address
// and at a new one.
func TestStartWithAChangedFirstEventOutside(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string]bool{"recorded": false, "moved": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir(), NATS: embed.NATSOptions{URL: outsideNATS(t)}}
			for range 3 {
				recordRequest(t, opts)
			}
			to := outsideNATS(t)
			copyChanged(t, opts.NATS.URL, to)
			if !moved {
				if err := os.WriteFile(filepath.Join(opts.DataDir, "outside-server"), []byte(strings.TrimPrefix(to, "nats://")+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			opts.NATS.URL, opts.Storage.AcceptDamage, opts.Runs.Elsewhere = to, true, true
			book := start(t, opts)
			if err := book.Ready(within(t)); err != nil {
				t.Error(err)
			}
			var lost events.Lost
			for _, e := range allEvents(t, book) {
				if d, ok := e.Data.(*events.LedgerVolumeOpened); ok {
					lost = append(lost, d.Lost...)
				}
			}
			if len(lost) != 1 || lost[0].From != 1 || lost[0].To != 1 {
				t.Errorf("the loss is recorded as %+v", lost)
			}
			closeBook(t, book)
		})
	}
}

// copyChanged copies the events of a ledger to another server and changes the time of the first
// one.
func copyChanged(t *testing.T, from, to string) {
	t.Helper()
	var servers [2]natsjs.JetStream
	for i, url := range []string{from, to} {
		nc, err := nats.Connect(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		if servers[i], err = natsjs.New(nc); err != nil {
			t.Fatal(err)
		}
	}
	var stream natsjs.Stream
	for _, name := range []string{"OBJ_BLOBS", "LEDGER-0001"} { // there are no blobs
		var err error
		if stream, err = servers[0].Stream(within(t), name); err != nil {
			t.Fatal(err)
		}
		if _, err := servers[1].CreateStream(within(t), stream.CachedInfo().Config); err != nil {
			t.Fatal(err)
		}
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(within(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		for _, added := range []string{"Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence", "Nats-Num-Pending"} {
			m.Header.Del(added)
		}
		if seq == 1 {
			m.Header["ce-time"] = []string{events.FormatTime(time.Now())}
		}
		if _, err := servers[1].PublishMsg(within(t), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
	}
}
