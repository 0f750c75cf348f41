package translog_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/internal/translog"
	"daybook/proof"
)

// A checkpoint is recorded, signed with the ledger's key and covers the requested position. Proofs
// under it hold for the leaves of the stored events.
func TestCheckpointAndProofs(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 300)
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	first := mustCheckpoint(t, log, 300)
	if first.Size != 300 && first.Size != 301 { // the second one covers the event of the first one
		t.Fatalf("the checkpoint covers %d events, want 300", first.Size)
	}
	if c, err := proof.OpenCheckpoint(first.Note, log.VKey()); err != nil || c.Size != first.Size || c.Root != first.Root || c.Origin != log.Origin() {
		t.Fatalf("opened: %+v, %v", c, err)
	}
	// It is event 301; more follow.
	last := fill(t, store, 500)
	second := mustCheckpoint(t, log, last)
	if second.Size != last && second.Size != last+1 {
		t.Fatalf("the checkpoint covers %d events, want %d", second.Size, last)
	}
	stored, err := store.ReadRaw(t.Context(), 0, int(last))
	if err != nil {
		t.Fatal(err)
	}
	prover := log.Prover(second)
	for _, seq := range []uint64{1, 2, 256, 257, 300, 301, 302, 512, last} {
		for _, size := range []uint64{first.Size, 513, last} {
			made, err := prover.Inclusion(seq, size)
			if seq > size {
				if !errors.Is(err, proof.ErrBeyond) {
					t.Errorf("event %d in %d: %v, want proof.ErrBeyond", seq, size, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("event %d in %d: %v", seq, size, err)
			}
			leaf, err := proof.LeafHash(eventproof.RecordOf(stored[seq-1]))
			if err != nil || leaf != made.Leaf {
				t.Errorf("event %d has another leaf, %v", seq, err)
			}
			if err := made.Check(); err != nil {
				t.Errorf("event %d in %d: %v", seq, size, err)
			}
			if size == first.Size && made.Root != first.Root {
				t.Error("the hash at 300 is not that of its checkpoint")
			}
			made.Leaf[3] ^= 1
			if made.Check() == nil {
				t.Errorf("event %d in %d: another leaf passes", seq, size)
			}
		}
	}
	for _, sizes := range [][2]uint64{{1, 2}, {300, last}, {300, 300}, {256, 512}} {
		made, err := prover.Consistency(sizes[0], sizes[1])
		if err != nil || made.Check() != nil {
			t.Errorf("from %d to %d: %v, %v", sizes[0], sizes[1], err, made.Check())
		}
	}
	if _, err := prover.Consistency(1, second.Size+1); !errors.Is(err, proof.ErrBeyond) {
		t.Errorf("beyond the checkpoint: %v", err)
	}
}

// A reopened log continues with the stored tree. It computes missing or wrong files again, with
// the same hashes.
func TestReopenedLogContinues(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir := t.TempDir()
	last := fill(t, store, 600)
	log := start(t, store, translog.Options{Dir: dir})
	c := mustCheckpoint(t, log, last)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		harm func(t *testing.T)
	}{
		{"untouched", func(*testing.T) {}},
		{"no durable mark", func(t *testing.T) { remove(t, dir, "durable") }},
		{"no tiles", func(t *testing.T) { remove(t, dir, "tile") }},
		{"a changed partial tile", func(t *testing.T) {
			paths, err := filepath.Glob(filepath.Join(dir, "tile", "0", "002.p", "*"))
			if err != nil || len(paths) != 1 {
				t.Fatalf("partial tiles %v, %v", paths, err)
			}
			flip(t, paths[0], 5)
		}},
		{"a cut durable mark", func(t *testing.T) {
			if err := os.Truncate(filepath.Join(dir, "durable"), 20); err != nil {
				t.Fatal(err)
			}
		}},
		{"half a checkpoint at the end of the file", func(t *testing.T) {
			f, err := os.OpenFile(filepath.Join(dir, "checkpoints"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString("daybook/half\n12"); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.harm(t)
			again := start(t, store, translog.Options{Dir: dir})
			if again.Origin() != log.Origin() || again.VKey() != log.VKey() {
				t.Error("the reopened log has another name or key")
			}
			if latest, ok := again.Latest(); !ok || latest.Size < c.Size {
				t.Errorf("the newest checkpoint after reopening: %+v", latest)
			}
			last = fill(t, store, 3)
			newer := mustCheckpoint(t, again, last)
			proof, err := again.Prover(newer).Consistency(c.Size, newer.Size)
			if err != nil || proof.Check() != nil || proof.FromRoot != c.Root {
				t.Errorf("the tree after reopening differs: %v", err)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[at] ^= 0x10
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A log of a longer ledger, or of other events, reports damage and signs nothing.
func TestLogOfAnotherLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := newStore(t)
	log := start(t, store, translog.Options{Dir: dir})
	mustCheckpoint(t, log, fill(t, store, 40))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		n     int
		harm  func()
		wants string
	}{
		{"shorter", 10, func() {}, "ends at event 10"},
		{"other events", 50, func() {}, "does not match the hash"},
		{"shorter, without tiles", 12, func() { remove(t, dir, "durable") }, "events was signed"},
		{"other events, without tiles", 60, func() { remove(t, dir, "durable") }, "have the tree hash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.harm()
			other := newStore(t)
			fill(t, other, tt.n)
			wrong := start(t, other, translog.Options{Dir: dir})
			err := <-wrong.Ended
			if !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), tt.wants) {
				t.Fatalf("Run: %v; want damage, %q", err, tt.wants)
			}
			if _, err := wrong.Checkpoint(t.Context(), 60); !errors.Is(err, events.ErrDamaged) {
				t.Errorf("Checkpoint: %v, want the damage", err)
			}
			if wrong.Damage() == nil {
				t.Error("Damage returns nil")
			}
		})
	}
}

// If an event was changed after it was signed, the log reports damage when it computes the tree
// again, because a recorded checkpoint differs.
func TestLogFindsAForgedCheckpoint(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 5)
	forged := events.New(events.LedgerTenant, time.Now(), &events.LedgerCheckpointed{
		LedgerID: events.NewID(time.Now()), Origin: "daybook/other", Size: 4, RootHash: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
		Note: "daybook/other\n4\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/other AAAAAAAA\n",
	})
	if _, err := store.Append(t.Context(), forged, -1); err != nil {
		t.Fatal(err)
	}
	log := start(t, store, translog.Options{Dir: t.TempDir()})
	if err := <-log.Ended; !errors.Is(err, events.ErrDamaged) || !strings.Contains(err.Error(), "first 4 events") {
		t.Errorf("Run: %v; want damage naming the checkpoint", err)
	}
}

// An idle ledger gets no checkpoints. After new events it gets one checkpoint, and one more when
// it is closed.
func TestIdleLedgerGetsNoCheckpoints(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	dir := t.TempDir()
	log := start(t, store, translog.Options{Dir: dir, Every: time.Millisecond})
	last := fill(t, store, 1)
	waitFor(t, log, last)
	quiet(t, store)
	fill(t, store, 4)
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	end, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// Another start and close adds no checkpoint.
	for range 2 {
		again := start(t, store, translog.Options{Dir: dir, Every: time.Millisecond})
		if err := again.FinalCheckpoint(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if now, err := store.LastSeq(t.Context()); err != nil || now != end {
		t.Errorf("the idle ledger grew from %d to %d events, %v", end, now, err)
	}
}

// waitFor returns once an unrequested checkpoint covers a position.
func waitFor(t *testing.T, log *running, covers uint64) {
	t.Helper()
	for {
		if c, ok := log.Latest(); ok && c.Size >= covers {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("no checkpoint was signed")
		case <-time.After(time.Millisecond):
		}
	}
}

// quiet checks that the ledger has one checkpoint, at its end.
func quiet(t *testing.T, store *jetstream.Store) {
	t.Helper()
	end, err := store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := store.Read(t.Context(), 0, int(end))
	if err != nil {
		t.Fatal(err)
	}
	checkpoints := 0
	for _, e := range list {
		if e.Type == events.TypeLedgerCheckpointed {
			checkpoints++
		}
	}
	if list[end-1].Type != events.TypeLedgerCheckpointed || checkpoints != 1 {
		t.Errorf("%d checkpoints in %d events, the last is %s; want one, at the end", checkpoints, end, list[end-1].Type)
	}
}

// A failing append of a checkpoint is retried.
func TestCheckpointsOutlastAFailingLedger(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 3)
	failing := &failingLedger{Store: store, left: 2}
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), Every: time.Millisecond, NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx, store, failing) }()
	if c, err := log.Checkpoint(t.Context(), 3); err != nil || c.Size < 3 || failing.left != 0 {
		t.Errorf("Checkpoint: %+v, %v", c, err)
	}
	stop()
	<-ended
}

// A final checkpoint is in the file of checkpoints even if the log reads its event before Append
// reports that it is recorded, or if Append reports that it failed.
func TestFinalCheckpointIsStored(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 3)
	dir := t.TempDir()
	log, err := translog.Open(translog.Options{Dir: dir, Every: time.Millisecond, NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx, store, &unansweredLedger{Store: store, log: log}) }()
	if err := log.FinalCheckpoint(t.Context(), store); err != nil {
		t.Errorf("FinalCheckpoint: %v", err)
	}
	stop()
	<-ended
	latest, _ := log.Latest()
	kept, err := translog.Dir(dir).Checkpoints()
	if err != nil || len(kept) != 2 || kept[0].Size != 3 || kept[1].Size != 4 || latest.Size != 4 {
		t.Errorf("the file holds %d checkpoints, %v; the newest one has %d events; want the recorded one and one over its event", len(kept), err, latest.Size)
	}
	if last, err := store.LastSeq(t.Context()); err != nil || last != 4 {
		t.Errorf("the ledger ends at %d, %v; want one checkpoint after 3 events", last, err)
	}
}

// unansweredLedger records events and reports an error, after the log has read the event.
type unansweredLedger struct {
	*jetstream.Store
	log *translog.Log
}

func (u *unansweredLedger) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	seq, err := u.Store.Append(ctx, e, after)
	for err == nil && u.log.Size() < seq {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return 0, cmp.Or(err, errors.New("the answer of the store is lost"))
}

type failingLedger struct {
	*jetstream.Store
	left int
}

func (f *failingLedger) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	if f.left > 0 {
		f.left--
		return 0, &events.UnwritableError{Reason: "the disk is full"}
	}
	return f.Store.Append(ctx, e, after)
}

// At shutdown, unsigned events are signed as soon as the ledger accepts writes, regardless of the
// retry interval.
func TestFinalCheckpointIsRetried(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 3)
	ledger := &blockedLedger{Store: store, tried: make(chan struct{}, 1000)}
	ledger.blocked.Store(true)
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), Every: 30 * time.Second, NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx, store, ledger) }()
	<-ledger.tried // the next attempt of Run is in a minute

	trying, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- log.FinalCheckpoint(trying, ledger) }()
	for late := time.After(20 * time.Second); len(ledger.tried) < 2; {
		select {
		case <-late:
			t.Fatalf("FinalCheckpoint tried %d times", len(ledger.tried))
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	err = <-gaveUp
	var unsigned *translog.UnsignedError
	if !errors.As(err, &unsigned) || unsigned.Events != 3 || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("FinalCheckpoint of a ledger that cannot be written: %v", err)
	}
	sealed := make(chan error, 1)
	go func() { sealed <- log.FinalCheckpoint(t.Context(), ledger) }()
	ledger.blocked.Store(false)
	if err := <-sealed; err != nil {
		t.Errorf("FinalCheckpoint: %v", err)
	}
	if c, _ := log.Latest(); c.Size < 3 {
		t.Errorf("the newest checkpoint covers %d events", c.Size)
	}
	stop()
	<-ended
}

// A ledger is signed at once when it accepts writes again: rejected attempts do not extend the
// retry interval.
func TestSignWhenWritesResume(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 3)
	ledger := &blockedLedger{Store: store, passes: true, tried: make(chan struct{}, 1000)}
	ledger.blocked.Store(true)
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), Every: 30 * time.Second, NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx, store, ledger) }()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		select {
		case <-ledger.tried:
		case <-soon.Done():
			t.Fatal("the signer waits")
		}
	}
	if _, err := log.CheckpointThrough(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("CheckpointThrough of a ledger that rejects writes: %v", err)
	}
	ledger.blocked.Store(false)
	if c, err := log.Checkpoint(soon, 3); err != nil || c.Size < 3 {
		t.Errorf("the checkpoint when the ledger accepts writes: %+v, %v", c, err)
	}
	stop()
	<-ended
}

type blockedLedger struct {
	*jetstream.Store
	blocked atomic.Bool
	passes  bool
	tried   chan struct{}
}

func (b *blockedLedger) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	b.tried <- struct{}{}
	if b.blocked.Load() {
		return 0, &events.UnwritableError{What: "the ledger", Reason: "the disk is full", Passes: b.passes}
	}
	return b.Store.Append(ctx, e, after)
}

// A lack of resources delays the log and does not end it.
func TestLogOutlastsExhaustion(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	fill(t, store, 300)
	feed := &exhaustedFeed{Store: store}
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), NoSync: true, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	log.SetExhaustedPause(time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- log.Run(ctx, feed, store) }()
	if c, err := log.Checkpoint(t.Context(), 300); err != nil || c.Size < 300 {
		t.Errorf("Checkpoint: %+v, %v", c, err)
	}
	if log.Damage() != nil || feed.calls < 2 {
		t.Errorf("%d calls, damage: %v", feed.calls, log.Damage())
	}
	stop()
	<-ended
}

// exhaustedFeed fails once, in the middle of the ledger.
type exhaustedFeed struct {
	*jetstream.Store
	calls int
}

func (f *exhaustedFeed) FollowRaw(ctx context.Context, after uint64, fn func([]events.Stored, uint64) error) error {
	f.calls++
	if f.calls > 1 {
		return f.Store.FollowRaw(ctx, after, fn)
	}
	batch, err := f.ReadRaw(ctx, after, 100)
	if err != nil {
		return err
	}
	if err := fn(batch, 300); err != nil {
		return err
	}
	return &os.PathError{Op: "open", Path: "tile/0/000", Err: syscall.EMFILE}
}

// The witness receives checkpoints, and a failing witness blocks nothing.
func TestWitness(t *testing.T) {
	t.Parallel()
	got := make(chan []byte, 10)
	refuse := make(chan struct{}, 1)
	refuse <- struct{}{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-refuse:
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		default:
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- raw
	}))
	defer server.Close()
	store := newStore(t)
	log := start(t, store, translog.Options{Dir: t.TempDir(), WitnessURL: server.URL})
	for range 2 {
		c := mustCheckpoint(t, log, fill(t, store, 2))
		seen, err := proof.OpenCheckpoint(<-got, log.VKey())
		for err == nil && seen.Size < c.Size { // the witness may have waited with an older one
			seen, err = proof.OpenCheckpoint(<-got, log.VKey())
		}
		if err != nil || seen.Origin != c.Origin || seen.Size == c.Size && string(seen.Note) != string(c.Note) {
			t.Errorf("the witness received\n%s\n%v, want\n%s", seen.Note, err, c.Note)
		}
	}
	if _, err := translog.Open(translog.Options{Dir: t.TempDir(), WitnessURL: "witness.example.com"}); err == nil || !strings.Contains(err.Error(), "https://") {
		t.Errorf("a witness without a scheme: %v", err)
	}
}

// The key is created once, with mode 0600. A key file is used only if its key has the origin of this ledger.
func TestKeys(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "secret", "key")
	open := func(dir, key string) (*translog.Log, error) {
		return translog.Open(translog.Options{Dir: dir, KeyFile: key})
	}
	log, err := open(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's file: %v, %v", info.Mode(), err)
	}
	again, err := open(dir, "")
	if err != nil || again.VKey() != log.VKey() || again.Origin() != log.Origin() {
		t.Errorf("the reopened log has another key: %v", err)
	}
	moved, err := open(dir, elsewhere)
	if err != nil || moved.Origin() != log.Origin() || moved.VKey() == log.VKey() || len(moved.VKeys()) != 2 {
		t.Errorf("a new key elsewhere: %v, keys %v", err, moved.VKeys())
	}
	if _, err := open(t.TempDir(), elsewhere); err != nil {
		t.Errorf("a new ledger takes its name from the key: %v", err)
	}
	foreign := t.TempDir()
	if _, err := open(foreign, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := open(foreign, elsewhere); err == nil || !strings.Contains(err.Error(), log.Origin()) {
		t.Errorf("another ledger's key: %v, want an error that names it", err)
	}
	if err := os.Chmod(elsewhere, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, elsewhere); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others can read: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, ""); err == nil || !strings.Contains(err.Error(), "holds no signing key") {
		t.Errorf("a file without a key: %v", err)
	}
}

// A volume whose closing checkpoint cannot be signed is not sealed.
func TestSealingWaitsForTheSignature(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	last := fill(t, store, 2)
	log, err := translog.Open(translog.Options{Dir: t.TempDir(), NoSync: true}) // Run is not called
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	_, err = store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Close: func(_ context.Context, last uint64) (*events.ClosingCheckpoint, error) {
		return log.SignClosing(ctx, last)
	}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sealed without a signature: %v", err)
	}
	if next := fill(t, store, 1); next != last+1 {
		t.Errorf("the next event is at %d, want %d", next, last+1)
	}
}
