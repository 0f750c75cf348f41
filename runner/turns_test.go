package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/runner"
)

func (b *testLedger) session(intent string) string {
	b.t.Helper()
	o, err := b.ledger.OpenSession(b.t.Context(), ledger.Opening{Tenant: events.DefaultTenant, Intent: intent, Actor: canceller})
	if err != nil {
		b.t.Fatalf("open session: %v", err)
	}
	return o.SessionID
}

func (b *testLedger) turn(session, code string) string {
	b.t.Helper()
	return b.submit(func(s *ledger.Submission) { s.LogicalSession, s.Code = session, code })
}

// appends returns scripts whose output heap is their input heap followed by their code,
// so that a heap shows the runs that led to it and their order.
func appends() workers {
	return workers{func(_ context.Context, t runner.Task, _ sink) (runner.Outcome, error) {
		out := completed("1")
		out.Heap = append(append([]byte{}, t.Heap...), t.Code...)
		return out, nil
	}}
}

func (b *testLedger) heapOf(end *events.Ending) string {
	b.t.Helper()
	if end.Heap == nil {
		return ""
	}
	blob, _, err := b.store.Heap(b.t.Context(), events.DefaultTenant, end.Heap.SHA256)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(blob)
}

// waitForPostponed waits until n requests were returned before their turn.
func waitForPostponed(t *testing.T, r *runner.Runner, n int) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for r.Stats().Postponed < int64(n) {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("%d requests were postponed, not %d", r.Stats().Postponed, n)
		}
	}
}

var errGone = errors.New("the process has ended")

// TestTurnsRunInOrder checks that the runs of a session follow each other, each from
// the heap of the run before, while there are slots for all of them at once.
func TestTurnsRunInOrder(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	s := b.session("in order")
	var ids []string
	want := ""
	for i := range 20 {
		code := fmt.Sprintf("%d ", i)
		ids = append(ids, b.turn(s, code))
		want += code
	}
	var busy, most atomic.Int32
	w := appends()
	opts, acked := b.acks(workers{func(ctx context.Context, t runner.Task, write sink) (runner.Outcome, error) {
		most.Store(max(most.Load(), busy.Add(1)))
		defer busy.Add(-1)
		return w.run(ctx, t, write)
	}})
	r, _ := b.startRunner(opts)
	for range ids {
		receive(t, "the next end", acked)
	}
	if most.Load() != 1 {
		t.Errorf("%d runs of the session at once", most.Load())
	}
	_, last := b.waitForEnd(ids[19])
	if got := b.heapOf(last); got != want {
		t.Errorf("the session's state is %q, want %q", got, want)
	}
	// A run is counted after the next one was released.
	for late := time.Now().Add(patience); r.Stats().Done[events.StatusCompleted] < 20 && time.Now().Before(late); {
		time.Sleep(time.Millisecond) // the condition of the loop is what the test waits for
	}
	if st := r.Stats(); st.Retried != 0 || st.HandedBack != 0 || st.Done[events.StatusCompleted] != 20 {
		t.Errorf("stats %+v", st)
	}
	for _, id := range ids {
		want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionCompleted}
		if diff := cmp.Diff(want, types(b.history(id))); diff != "" {
			t.Errorf("run %s (-want +got):\n%s", id, diff)
		}
	}
}

// TestWaitingTakesNoSlot checks that with one slot, a run that waits for its turn lets
// runs of other sessions pass, and that different sessions run side by side.
func TestWaitingTakesNoSlot(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	held, other := b.session("held"), b.session("other")
	release := make(chan struct{})
	began := make(chan string, 10)
	opts, acked := b.acks(workers{func(ctx context.Context, t runner.Task, _ sink) (runner.Outcome, error) {
		began <- string(t.Code)
		if string(t.Code) == "hold" {
			select {
			case <-release:
			case <-ctx.Done():
				return runner.Outcome{}, context.Cause(ctx)
			}
		}
		return completed("1"), nil
	}})
	opts.Slots = 2
	b.startRunner(opts)
	b.turn(held, "hold")
	if got := receive(t, "the first run", began); got != "hold" {
		t.Fatalf("%q ran", got)
	}
	for range 5 {
		b.turn(held, "behind")
	}
	b.turn(other, "beside")
	if got := receive(t, "the run of the other session", began); got != "beside" {
		t.Fatalf("%q ran", got)
	}
	receive(t, "its end", acked)
	close(release)
	for range 6 {
		receive(t, "an end", acked)
	}
}

// TestCancelledTurn checks that a waiting run is cancelled at once and never runs, and
// that the next turn continues.
func TestCancelledTurn(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	s := b.session("cancel")
	release, began := make(chan struct{}), make(chan string, 10)
	w := appends()
	opts, acked := b.acks(workers{func(ctx context.Context, t runner.Task, write sink) (runner.Outcome, error) {
		began <- string(t.Code)
		if string(t.Code) == "first " {
			<-release
		}
		return w.run(ctx, t, write)
	}})
	r, _ := b.startRunner(opts)
	first, second, third := b.turn(s, "first "), b.turn(s, "second "), b.turn(s, "third")
	receive(t, "the first run", began)
	waitForPostponed(t, r, 2)
	if _, err := b.cancel(second); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, "the cancelled run's end", acked); got != second {
		t.Fatalf("%s was acknowledged first, not %s", got, second)
	}
	close(release)
	if got := receive(t, "the third run", began); got != "third" {
		t.Fatalf("%q ran", got)
	}
	receive(t, "the first end", acked)
	receive(t, "the third end", acked)
	if status, end := b.waitForEnd(third); status != events.StatusCompleted || b.heapOf(end) != "first third" {
		t.Errorf("the third run %s with the state %q", status, b.heapOf(end))
	}
	if status, _ := b.waitForEnd(second); status != events.StatusCancelled {
		t.Errorf("the second run %s", status)
	}
	if status, _ := b.waitForEnd(first); status != events.StatusCompleted {
		t.Errorf("the first run %s", status)
	}
}

// TestTurnsOfTwoRunners checks the order of turns in processes that do not
// communicate.
func TestTurnsOfTwoRunners(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	sessions := []string{b.session("a"), b.session("b"), b.session("c")}
	acked := make(chan string, 100)
	for range 2 {
		opts := b.options(appends())
		opts.Slots = 2
		opts.Work = work{Store: b.store, ack: func(ctx context.Context, d runner.Delivery) error {
			defer func() { acked <- d.Event.About() }()
			return d.Ack(ctx)
		}}
		b.startRunner(opts)
	}
	last, want := map[string]string{}, map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range sessions {
		wg.Go(func() {
			for i := range 8 {
				code := fmt.Sprintf("%d ", i)
				id := b.turn(s, code)
				mu.Lock()
				last[s] = id
				want[s] += code
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for range 24 {
		receive(t, "an end", acked)
	}
	for s, id := range last {
		if _, end := b.waitForEnd(id); b.heapOf(end) != want[s] {
			t.Errorf("the state of session %s is %q, want %q", s, b.heapOf(end), want[s])
		}
	}
}

// TestDeadRunnerLosesNoTurn checks that the next runner runs the requests that were
// waiting in a runner that died.
func TestDeadRunnerLosesNoTurn(t *testing.T) {
	t.Parallel()
	server := storetest.StartServer(t, t.TempDir())
	store := storetest.Open(t, server, jetstream.Options{AckWait: ackWait})
	b := &testLedger{t: t, store: store, ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)})}
	s := b.session("death")
	began := make(chan runner.Task, 10)
	opts := b.options(hangs(began))
	doomed := storetest.Open(t, server, jetstream.Options{AckWait: ackWait})
	opts.Work = work{Store: doomed,
		ack: func(context.Context, runner.Delivery) error { return nil },
		nak: func(context.Context, runner.Delivery, time.Duration) error { return nil }}
	opts.DrainTimeout = -1
	opts.Ledger = &ledgerPort{Ledger: b.ledger, handBack: func(context.Context, *ledger.StartedAttempt, string) error { return errGone }}
	r, drain := b.startRunner(opts)
	first, second := b.turn(s, "one "), b.turn(s, "two")
	receive(t, "the first run", began)
	waitForPostponed(t, r, 1)
	drain() // as in a crash: nothing is returned or recorded

	opts, acked := b.acks(appends())
	b.startRunner(opts)
	// The first end releases the second run before it is acknowledged.
	receive(t, "an end", acked)
	receive(t, "an end", acked)
	if status, _ := b.waitForEnd(first); status != events.StatusCompleted {
		t.Errorf("the first run %s", status)
	}
	if status, end := b.waitForEnd(second); status != events.StatusCompleted || b.heapOf(end) != "one two" {
		t.Errorf("the second run %s with the state %q", status, b.heapOf(end))
	}
}

// TestLostHead checks that each run of a session whose heap cannot be restored fails,
// and never starts from a fresh isolate.
func TestLostHead(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	s := b.session("lost")
	opts, acked := b.acks(appends())
	var lost atomic.Bool
	opts.Heaps = heaps{Heaps: b.store, get: func(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
		if lost.Load() {
			return nil, events.HeapInfo{}, fmt.Errorf("heap %s: %w", hash, events.ErrNotFound)
		}
		return b.store.Heap(ctx, tenant, hash)
	}}
	b.startRunner(opts)
	b.turn(s, "one ")
	receive(t, "the first end", acked)
	lost.Store(true)
	for range 2 {
		id := b.turn(s, "two ")
		receive(t, "the next end", acked)
		status, end := b.waitForEnd(id)
		if status != events.StatusFailed || end.Reason != ledger.ReasonSessionHeadLost || end.Heap != nil {
			t.Errorf("without its heap the run %s, reason %q", status, end.Reason)
		}
	}
	lost.Store(false)
	id := b.turn(s, "three")
	receive(t, "the last end", acked)
	if _, end := b.waitForEnd(id); b.heapOf(end) != "one three" {
		t.Errorf("after the heap is available again, the state is %q", b.heapOf(end))
	}
}
