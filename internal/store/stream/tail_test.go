package stream_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// Every follower of a tail receives every event once, in order, whether it starts far
// behind, keeps up, or is so slow that the tail drops pages before it has read them.
func TestTailFeedsEveryFollower(t *testing.T) {
	const before, total = 300, 900
	s := storetest.Start(t)
	id := newID()
	mustAppend(t, s, requested(id), 0)
	for range before - 1 {
		mustAppend(t, s, started(id, 1), -1)
	}
	tail := s.NewTail()
	tail.SetLimit(4 << 10) // a few events
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- tail.Run(ctx, before) }()

	errDone := errors.New("done")
	count := func(after uint64, pause <-chan struct{}) func(first, n, last uint64) error {
		next := after + 1
		return func(first, n, last uint64) error {
			if first != next || n == 0 || last < first+n-1 {
				t.Errorf("a batch of %d from %d, newest %d; want one from %d", n, first, last, next)
			}
			if next += n; next > total {
				return errDone
			}
			if pause != nil {
				<-pause
			}
			return nil
		}
	}
	resume := make(chan struct{})
	ended := make(chan error, 4)
	for _, f := range []struct {
		after uint64
		pause <-chan struct{}
	}{{0, nil}, {before, nil}, {before - 7, resume}} {
		take := count(f.after, f.pause)
		go func() {
			ended <- tail.Follow(ctx, f.after, func(batch []events.Event, last uint64) error {
				return take(batch[0].Seq, uint64(len(batch)), last)
			})
		}()
	}
	take := count(before, nil)
	go func() {
		ended <- tail.FollowRaw(ctx, before, func(batch []events.Stored, last uint64) error {
			if batch[0].Subject == "" || len(batch[0].Header["ce-id"]) != 1 || len(batch[0].Body) == 0 {
				t.Errorf("a raw message without its parts: %+v", batch[0])
			}
			return take(batch[0].Seq, uint64(len(batch)), last)
		})
	}()
	for range total - before {
		mustAppend(t, s, started(id, 1), -1)
	}
	for range 3 { // the slow one delays no other follower
		if err := <-ended; !errors.Is(err, errDone) {
			t.Fatalf("a follower ended with %v", err)
		}
	}
	close(resume)
	if err := <-ended; !errors.Is(err, errDone) {
		t.Fatalf("the slow follower ended with %v", err)
	}
	if n := tail.Kept(); n != 0 {
		t.Errorf("%d pages are kept without a follower", n)
	}
	stop()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	err := tail.Follow(t.Context(), total, func([]events.Event, uint64) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("following after the end: %v, want the error that ended the tail", err)
	}
}

// A follower at a position after the end of the ledger receives an error, as without a
// tail.
func TestTailNamesAPositionBeyondTheEnd(t *testing.T) {
	s := storetest.Start(t)
	mustAppend(t, s, requested(newID()), 0)
	tail := s.NewTail()
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- tail.Run(ctx, 1) }()
	err := tail.Follow(t.Context(), 6, func([]events.Event, uint64) error { return nil })
	if !errors.Is(err, events.ErrDamaged) {
		t.Errorf("Follow from beyond the end: %v, want damage", err)
	}
	stop()
	<-ran
}

// ReadRaw returns the messages of the events that Read decodes.
func TestReadRaw(t *testing.T) {
	s := storetest.Start(t)
	id := newID()
	mustAppend(t, s, requested(id), 0)
	mustAppend(t, s, started(id, 1), 0)
	stored, err := s.ReadRaw(t.Context(), 1, 10)
	if err != nil || len(stored) != 1 || stored[0].Seq != 2 {
		t.Fatalf("ReadRaw: %v, %v; want the second event", stored, err)
	}
	e, err := events.Decode(2, stored[0].Message())
	if err != nil || e.About() != id {
		t.Errorf("it decodes to %v, %v", e, err)
	}
}

// A tail outlasts a server that cannot open its files: it reads on when it can, and its followers
// receive no error.
func TestTailOutlastsExhaustion(t *testing.T) {
	s := storetest.Start(t)
	id := newID()
	mustAppend(t, s, requested(id), 0)
	var asked atomic.Int64
	var fed atomic.Bool
	stream.SetStarved(s.Ledger, func() error {
		asked.Add(1)
		if fed.Load() {
			return nil
		}
		return &os.PathError{Op: "open", Path: "1.blk", Err: syscall.EMFILE}
	})
	tail := s.NewTail()
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- tail.Run(ctx, 3) }() // the ledger ends before that position, which is damage unless the server is starved
	for asked.Load() < 3 {
		select {
		case err := <-ran:
			t.Fatalf("Run ended with %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	for range 4 {
		mustAppend(t, s, started(id, 1), -1)
	}
	fed.Store(true)
	errDone := errors.New("done")
	err := tail.FollowRaw(ctx, 3, func(batch []events.Stored, _ uint64) error {
		if batch[0].Seq != 4 {
			t.Errorf("the first event is %d", batch[0].Seq)
		}
		return errDone
	})
	if !errors.Is(err, errDone) {
		t.Errorf("FollowRaw: %v", err)
	}
	stop()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
}
