package translog_test

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/translog"
	"daybook/internal/translog/translogtest"
)

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
	kept := translogtest.Checkpoints(t, dir)
	if len(kept) != 2 || kept[0].Size != 4 || kept[1].Size != 5 || latest.Size != 5 {
		t.Errorf("the file holds %d checkpoints; the newest one has %d events; want the recorded one and one over its event", len(kept), latest.Size)
	}
	if last, err := store.LastSeq(t.Context()); err != nil || last != 5 {
		t.Errorf("the ledger ends at %d, %v; want the start of the origin and one checkpoint after 3 events", last, err)
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
	<-ledger.tried // the next attempt of Run is a minute later

	trying, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- log.FinalCheckpoint(trying, ledger) }()
	soon := time.After(20 * time.Second) // before the next attempt of Run
	for range 2 {
		select {
		case <-ledger.tried:
		case <-soon:
			t.Fatal("FinalCheckpoint does not try again")
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
