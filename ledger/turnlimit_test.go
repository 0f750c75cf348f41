package ledger_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// full requests a turn and requires the error that too many turns wait for the given run.
func (b *testLedger) full(session string, running ledger.Request) {
	b.t.Helper()
	before := b.lastSeq()
	_, err := b.Submit(b.t.Context(), ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: session, Actor: alice})
	if ledger.CodeOf(err) != ledger.CodeExhausted || !strings.Contains(err.Error(), running.ExecutionID) || !strings.Contains(err.Error(), "limit-session-turns") {
		b.t.Errorf("a turn above the limit: %v", err)
	}
	if after := b.lastSeq(); after != before {
		b.t.Errorf("a refused turn left %d events", after-before)
	}
}

// A session accepts as many turns as may wait, from any process, and more after some
// have ended. Other sessions are not affected.
func TestLimitOfTurns(t *testing.T) {
	t.Parallel()
	opts := ledger.Options{SessionTurns: 3}
	b := openTestLedger(t, opts)
	s, other := b.open("full"), b.open("other")
	var runs []ledger.Request
	for range 4 { // one to run, and three to wait
		runs = append(runs, b.turn(s))
	}
	b.full(s, runs[0])
	openTestLedgerOn(t, b.store, opts).full(s, runs[0])
	b.turn(other)

	// A cancelled turn counts until the earlier turns have ended.
	b.cancel(runs[1])
	b.full(s, runs[0])
	b.end(runs[0], events.StatusCompleted, heapA)
	cold := openTestLedgerOn(t, b.store, opts)
	runs = append(runs, cold.turn(s), b.turn(s))
	cold.full(s, runs[2])
	b.full(s, runs[2])

	// A repeated request queues no turn.
	keyed := ledger.Submission{Tenant: tenant, Code: "1", LogicalSession: other, IdempotencyKey: "again", Actor: alice}
	for range 5 {
		if _, err := b.Submit(t.Context(), keyed); err != nil {
			t.Fatal(err)
		}
	}

	for _, r := range runs[2:] {
		b.end(r, events.StatusCompleted, heapA)
	}
	for range 4 {
		cold.turn(s)
	}
	unlimited := openTestLedgerOn(t, b.store, ledger.Options{SessionTurns: -1})
	for range 4 {
		unlimited.turn(s)
	}
}

// reads counts the reads of executions.
type reads struct {
	*jetstream.Store
	n, released atomic.Int64
}

func (r *reads) Execution(ctx context.Context, tenant, execution string) ([]events.Event, error) {
	r.n.Add(1)
	return r.Store.Execution(ctx, tenant, execution)
}

func (r *reads) Release(ctx context.Context, tenant, pool string, position uint64) error {
	r.released.Add(1)
	return r.Store.Release(ctx, tenant, pool, position)
}

// The cost of cancelling a waiting turn does not depend on how many wait, in either order.
// The turn that ends last releases the first one that is left.
func TestCancellingManyTurns(t *testing.T) {
	t.Parallel()
	store := &reads{Store: storetest.Start(t)}
	b := &testLedger{Ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)}), t: t, store: store.Store}
	s := b.open("many")
	first := b.turn(s)
	const turns = 60
	var list []ledger.Request
	for range turns {
		list = append(list, b.turn(s))
	}
	left := b.turn(s)
	cost := func(do func()) int64 {
		before := store.n.Load()
		do()
		return store.n.Load() - before
	}
	var most int64
	for i := range turns / 2 {
		most = max(most, cost(func() { b.cancel(list[i]) }), cost(func() { b.cancel(list[turns-1-i]) }))
	}
	if most > 8 {
		t.Errorf("cancelling a turn reads %d executions", most)
	}
	b.plan(left, first.ExecutionID, "")
	if n := cost(func() { b.end(first, events.StatusCompleted, heapA) }); n > 2*turns {
		t.Errorf("the end of the first turn reads %d executions", n)
	}
	b.plan(left, "", heapA)
}

// A waiting run is cancelled immediately, by a single event.
func TestCancelWaitingTurn(t *testing.T) {
	t.Parallel()
	store := &reads{Store: storetest.Start(t)}
	b := &testLedger{Ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)}), t: t, store: store.Store}
	s := b.open("waits")
	one, two := b.turn(s), b.turn(s)
	stop, err := store.ListenCancel(tenant, two.ExecutionID, func() bool { t.Error("a runner was asked"); return false })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	b.cancel(two)
	list := b.control(two.ExecutionID)
	if len(list) != 2 || list[1].Type != events.TypeExecutionCancelled || events.EndingOf(list[1].Data).Actor.Principal != alice.Principal {
		t.Errorf("the history is %v", list)
	}
	if n := store.released.Load(); n != 1 {
		t.Errorf("%d requests were released, want that of the cancelled run", n)
	}
	if _, err := b.Cancel(t.Context(), tenant, two.ExecutionID, alice); ledger.CodeOf(err) != ledger.CodeConflict {
		t.Errorf("a second cancel: %v", err)
	}
	// A runner that is about to start it finds it ended.
	three := b.turn(s)
	b.end(one, events.StatusCompleted, heapA)
	p := b.plan(three, "", heapA)
	b.cancel(three)
	if _, err := b.Start(t.Context(), p, robot); err == nil {
		t.Error("a cancelled run was started")
	}
}
