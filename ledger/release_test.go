package ledger_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// countingTurns counts the reads of turns.
type countingTurns struct {
	*jetstream.Store
	reads atomic.Int64
}

func (s *countingTurns) Next(ctx context.Context, subject string, after uint64) (events.Event, error) {
	s.reads.Add(1)
	return s.Store.Next(ctx, subject, after)
}

// Consecutive cancelled turns are skipped once, and not again for each of them. The turn
// after them is released.
func TestCancelledTurnsAreSkippedOnce(t *testing.T) {
	t.Parallel()
	const cancelled = 40
	store := &countingTurns{Store: storetest.Start(t)}
	b := openTestLedgerOn(t, store.Store, ledger.Options{})
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

	l := ledger.New(store, ledger.Options{Logger: storetest.Logger(t)})
	for _, req := range crowd {
		p, err := l.Plan(t.Context(), req, true)
		if err != nil || p.Ended == nil {
			t.Fatalf("the cancelled run has not ended: %+v, %v", p, err)
		}
		if err := l.Finalize(t.Context(), req, *p.Ended); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.reads.Load(); n > 4*cancelled {
		t.Errorf("%d cancelled turns were finalized with %d reads of turns", cancelled, n)
	}
	b.plan(last, "", heapA)
}

// releases stores the released requests.
type releases struct {
	*jetstream.Store
	positions []uint64
}

func (s *releases) Release(ctx context.Context, tenant, pool string, position uint64) error {
	s.positions = append(s.positions, position)
	return s.Store.Release(ctx, tenant, pool, position)
}

// A turn whose request is recorded after the earlier turns have ended is released like any
// other. It does not count as ended because its request was missing before.
func TestLateRequestIsReleased(t *testing.T) {
	t.Parallel()
	store := &releases{Store: storetest.Start(t)}
	b := openTestLedgerOn(t, store.Store, ledger.Options{})
	s := b.open("late")
	l := ledger.New(store, ledger.Options{Logger: storetest.Logger(t)})
	settle := func(req ledger.Request) {
		t.Helper()
		p, err := l.Plan(t.Context(), req, true)
		if err != nil || p.Ended == nil {
			t.Fatalf("the run has not ended: %+v, %v", p, err)
		}
		if err := l.Finalize(t.Context(), req, *p.Ended); err != nil {
			t.Fatal(err)
		}
	}
	// submit submits a run and calls then after its turn is queued and before its request
	// is recorded.
	submit := func(then func()) ledger.Request {
		t.Helper()
		slow := ledger.New(&interposed{b.store, func(_ context.Context, e events.Event) error {
			if e.Type == events.TypeExecutionRequested {
				then()
			}
			return nil
		}}, ledger.Options{})
		r, err := slow.Submit(t.Context(), ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: s})
		if err != nil {
			t.Fatal(err)
		}
		return b.request(r.ExecutionID)
	}
	one := b.turn(s)
	b.end(one, events.StatusCompleted, heapA)
	var three ledger.Request
	two := submit(func() {
		three = submit(func() { settle(one) })
	})
	b.end(two, events.StatusCompleted, heapA)
	settle(two)
	if !slices.Contains(store.positions, three.Seq) {
		t.Errorf("the requests at %v are released, want the one at %d", store.positions, three.Seq)
	}
}
