package contextstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/contextstore"
)

// lostAnswers records events and returns an error for the first ones, as if the answers were lost.
type lostAnswers struct {
	contextstore.Log
	lost int
}

func (l *lostAnswers) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	seq, err := l.Log.Append(ctx, e, after)
	if err == nil && l.lost > 0 {
		l.lost--
		return 0, fmt.Errorf("append %s: outcome unknown: %w", e.Type, context.DeadlineExceeded)
	}
	return seq, err
}

// Notes whose event may or may not be recorded are recorded once, with later notes.
func TestNotesAreRecordedOnce(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	log := &lostAnswers{Log: b.log, lost: 2}
	s := b.store(func(o *contextstore.Options) { o.Log = log })
	note(t, s, named(1), began, 1)
	s.Flush(t.Context())
	note(t, s, named(1), began, 1)
	note(t, s, named(1), began, 2)
	s.Flush(t.Context())
	note(t, s, named(1), began, 3)
	s.Flush(t.Context())
	c := get(t, s, named(1))
	var times []int
	for _, call := range c.RecentToolCalls {
		times = append(times, call.Times)
	}
	if got := fmt.Sprint(times); log.lost != 0 || got != "[2 1 1]" && got != "[2 0 0]" {
		t.Errorf("%d answers remain to be lost, the calls are counted %s times: %+v", log.lost, got, c.RecentToolCalls)
	}
	if n := b.count(events.TypeContextNoted); n != 2 {
		t.Errorf("%d events hold the notes", n)
	}
	before := s.Stats().Bytes
	b.settle()
	if get(t, s, named(1)); s.Stats().Bytes != before {
		t.Errorf("%d bytes are held, then %d", before, s.Stats().Bytes)
	}
}

// If the projections are behind, a reader waits for the recorded notes only for a part of
// its time, and then gets the older context.
func TestNotesThatCannotBeReadYet(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t)
	set(t, b.store(), named(1), "a", "1")
	var waited time.Duration
	s := b.store(func(o *contextstore.Options) { o.Views = lagging{b.views, &waited} })
	note(t, s, named(1), began, 1)
	s.Flush(t.Context())
	const patience = time.Minute // the test does not wait
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if ref, err := s.Ref(ctx, named(1)); err != nil || ref.Key == "" {
		t.Errorf("the context is %+v: %v", ref, err)
	}
	if waited <= 0 || waited > patience*2/3 {
		t.Errorf("the reader waits for %v", waited)
	}
}

// lagging is a read side that applies no more events. Its Wait stores the time that the
// caller would wait, and returns at once.
type lagging struct {
	contextstore.Views
	waited *time.Duration
}

func (l lagging) Wait(ctx context.Context, _ uint64) error {
	until, _ := ctx.Deadline()
	*l.waited = time.Until(until)
	return context.DeadlineExceeded
}
