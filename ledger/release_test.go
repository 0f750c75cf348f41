package ledger_test

import (
	"context"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/internal/jetstream"
	"daybook/internal/jetstream/jetstreamtest"
	"daybook/ledger"
)

// countingTurns counts how often the turns of a session are read.
type countingTurns struct {
	*jetstream.Store
	reads atomic.Int64
}

func (s *countingTurns) NextLogical(ctx context.Context, tenant, session string, after uint64) (events.Event, error) {
	s.reads.Add(1)
	return s.Store.NextLogical(ctx, tenant, session, after)
}

// Many cancelled turns behind each other are passed over once, and not again for each
// of them, and the turn behind them is released.
func TestCancelledTurnsArePassedOnce(t *testing.T) {
	t.Parallel()
	const cancelled = 40
	store := &countingTurns{Store: jetstreamtest.Start(t)}
	b := bookOn(t, store.Store, ledger.Options{})
	s := b.open("crowd")
	first := b.turn(s)
	var crowd []ledger.Request
	for range cancelled {
		crowd = append(crowd, b.turn(s))
	}
	last := b.turn(s)
	for _, req := range crowd {
		b.cancel(req)
	}
	b.end(first, events.StatusCompleted, heapA)

	l := ledger.New(store, ledger.Options{Logger: jetstreamtest.Logger(t)})
	for _, req := range crowd {
		p, err := l.Plan(t.Context(), req, true)
		if err != nil || p.Ended == nil {
			t.Fatalf("the cancelled run is not over: %+v, %v", p, err)
		}
		if err := l.Settle(t.Context(), req, *p.Ended); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.reads.Load(); n > 4*cancelled {
		t.Errorf("%d cancelled turns were settled with %d reads of turns", cancelled, n)
	}
	b.plan(last, "", heapA)
}
