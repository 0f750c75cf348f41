package runner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
	"daybook/runner"
)

var canceller = events.Actor{Principal: "another client", Transport: "http"}

func (b *testLedger) cancel(id string) (uint64, error) {
	return b.ledger.Cancel(context.Background(), events.DefaultTenant, id, canceller)
}

func TestCancelWhileRunning(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	cause := make(chan error, 1)
	opts, acked := b.acks(workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
		if err := write(ctx, []events.Line{{Text: "before"}, {Text: "unfinished", Level: events.LevelError, Continued: true}}); err != nil {
			return runner.Outcome{}, err
		}
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return runner.Outcome{}, context.Cause(ctx)
	}})
	r, drain := b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Session = "notes" })
	b.waitFor(id, isType(events.TypeExecutionOutput))
	seq, err := b.cancel(id)
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	if err := receive(t, "the script's stop", cause); err == nil {
		t.Error("the script was stopped without a cause")
	}
	receive(t, "the acknowledgement", acked)
	drain()

	list := b.history(id)
	want := []events.Type{
		events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionOutput,
		events.TypeExecutionCancelRequested, events.TypeExecutionOutput, events.TypeExecutionCancelled,
	}
	if diff := cmp.Diff(want, types(list)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	last := list[len(list)-1]
	end := events.EndingOf(last.Data)
	if last.Seq != seq {
		t.Errorf("Cancel returned position %d, the event is at %d", seq, last.Seq)
	}
	if errorText(end) != "Cancelled by user" || end.Heap != nil || end.Runner != r.ID() {
		t.Errorf("unexpected end %+v", end)
	}
	if diff := cmp.Diff(&canceller, end.Actor); diff != "" {
		t.Errorf("actor (-want +got):\n%s", diff)
	}
	const output = "before\nunfinished\n" // the interrupted line gets an end
	wantTotals := &events.OutputTotals{Lines: 2, Bytes: int64(len(output)), SHA256: events.Hash([]byte(output))}
	if diff := cmp.Diff(wantTotals, end.Output); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got := text(list); got != output {
		t.Errorf("output is %q, want %q", got, output)
	}
	if n := r.Stats().Done[events.StatusCancelled]; n != 1 {
		t.Errorf("%d runs counted as cancelled, want 1", n)
	}
}

func TestCancelWhileQueued(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	id := b.submit(func(s *ledger.Submission) { s.Session = "notes" })
	if _, err := b.cancel(id); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	began := make(chan runner.Task, 1)
	opts, acked := b.acks(hangs(began)) // started before the runner learns of the cancel, so the runner must stop it
	_, drain := b.startRunner(opts)
	if got := receive(t, "the acknowledgement", acked); got != id {
		t.Errorf("%s was acknowledged, want %s", got, id)
	}
	drain()
	want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionCancelRequested, events.TypeExecutionCancelled}
	if diff := cmp.Diff(want, types(b.history(id))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := b.count(events.TypeSessionEntryRecorded); n != 1 {
		t.Errorf("%d session entries, want 1", n)
	}
}

func TestRecordedCancelOfAQueuedRun(t *testing.T) {
	t.Parallel()
	// Simulates a server that died between the two appends of a cancel.
	b := newTestLedger(t)
	id := b.submit()
	e := events.New(events.DefaultTenant, b.history(id)[0].Time, &events.ExecutionCancelRequested{ExecutionID: id, Actor: canceller})
	if _, err := b.store.Append(t.Context(), e, 0); err != nil {
		t.Fatal(err)
	}
	opts, acked := b.acks(hangs(make(chan runner.Task, 1)))
	b.startRunner(opts)
	receive(t, "the acknowledgement", acked)
	want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionCancelRequested, events.TypeExecutionCancelled}
	if diff := cmp.Diff(want, types(b.history(id))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	b.startRunner(b.options(completes()))
	id := b.submit()
	b.waitForEnd(id)
	_, err := b.cancel(id)
	if ledger.CodeOf(err) != ledger.CodeConflict {
		t.Errorf("cancel answered %v, want a conflict", err)
	}
}

// A cancel of a script that has already ended changes nothing and returns a conflict.
func TestCancelWhileTheEndIsBeingRecorded(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	recording, release := make(chan struct{}), make(chan struct{})
	opts := b.options(completes())
	opts.Ledger = &ledgerPort{Ledger: b.ledger, complete: func(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
		close(recording)
		<-release
		return b.ledger.Complete(ctx, r, status, res)
	}}
	b.startRunner(opts)
	id := b.submit()
	receive(t, "the end", recording)
	answer := make(chan error, 1)
	go func() {
		_, err := b.cancel(id)
		answer <- err
	}()
	b.waitFor(id, isType(events.TypeExecutionCancelRequested))
	close(release)
	if err := receive(t, "the answer", answer); ledger.CodeOf(err) != ledger.CodeConflict {
		t.Errorf("cancel answered %v, want a conflict", err)
	}
	if status, _ := b.waitForEnd(id); status != events.StatusCompleted {
		t.Errorf("the run is %s, want completed", status)
	}
}

func TestOneEndUnderRacingCancels(t *testing.T) {
	t.Parallel()
	for _, racers := range []int{20, 200} {
		t.Run(fmt.Sprint(racers), func(t *testing.T) {
			t.Parallel()
			// A slow machine must not look like a ledger that cannot be reached.
			b := openTestLedger(t, jetstream.Options{}, ledger.Options{AnswerTimeout: time.Minute})
			began, finish := make(chan struct{}), make(chan struct{})
			opts, acked := b.acks(workers{func(ctx context.Context, _ runner.Task, _ sink) (runner.Outcome, error) {
				close(began)
				select {
				case <-ctx.Done():
					return runner.Outcome{}, context.Cause(ctx)
				case <-finish: // the script ends while cancels arrive
					return completed("1"), nil
				}
			}})
			b.startRunner(opts)
			id := b.submit()
			receive(t, "the start of the script", began)

			var wg sync.WaitGroup
			answers := make([]error, racers)
			positions := make([]uint64, racers)
			for i := range racers {
				wg.Go(func() {
					if i == racers/2 {
						close(finish)
					}
					positions[i], answers[i] = b.cancel(id)
				})
			}
			wg.Wait()
			receive(t, "the acknowledgement", acked)

			var ends []events.Event
			for _, e := range b.history(id) {
				if e.Type.Terminal() {
					ends = append(ends, e)
				}
			}
			if len(ends) != 1 {
				t.Fatalf("the execution ended %d times: %v", len(ends), types(ends))
			}
			cancelled := ends[0].Type == events.TypeExecutionCancelled
			for i, err := range answers {
				switch code := ledger.CodeOf(err); {
				case err == nil && (!cancelled || positions[i] != ends[0].Seq):
					t.Errorf("a cancel succeeded at position %d; the end is %s at %d", positions[i], ends[0].Type, ends[0].Seq)
				case err != nil && code != ledger.CodeConflict:
					t.Errorf("Cancel returned %v", err)
				}
			}
		})
	}
}

// count returns the number of events of a type in the ledger.
func (b *testLedger) count(typ events.Type) int {
	b.t.Helper()
	n := 0
	all, err := b.store.Read(b.t.Context(), 0, 1000)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range all {
		if e.Type == typ {
			n++
		}
	}
	return n
}

func TestListeningFails(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	opts := b.options(completes())
	opts.Work = &failingListener{work: work{Store: b.store}}
	b.startRunner(opts)
	id := b.submit()
	status, end := b.waitForEnd(id)
	if status != events.StatusCompleted || end.Attempt != 1 {
		t.Errorf("the run is %s after %d attempts, want completed after 1", status, end.Attempt)
	}
}

// failingListener fails its first ListenCancel.
type failingListener struct {
	work
	once sync.Once
}

func (d *failingListener) ListenCancel(tenant, execution string, fn func() bool) (stop func(), err error) {
	d.once.Do(func() { err = errors.New("no connection") })
	if err != nil {
		return nil, err
	}
	return d.work.ListenCancel(tenant, execution, fn)
}

var _ runner.Work = work{Store: (*jetstream.Store)(nil)}

// waitingHeaps is a heap store whose reads return only when the run is stopped.
func (b *testLedger) waitingHeaps(asked chan<- struct{}) heaps {
	return heaps{Heaps: b.store, get: func(ctx context.Context, _, _ string) ([]byte, events.HeapInfo, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, events.HeapInfo{}, ctx.Err()
	}}
}

// A cancel does not wait for the heap that a run starts from.
func TestCancelWhileTheHeapIsRead(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	asked := make(chan struct{}, 1)
	opts, acked := b.acks(completes("the script runs"))
	opts.Heaps = b.waitingHeaps(asked)
	r, drain := b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Heap, s.Session = events.Hash([]byte("before")), "notes" })
	receive(t, "the read of the heap", asked)
	seq, err := b.cancel(id)
	if err != nil {
		t.Fatalf("cancel: %v", err)
	}
	receive(t, "the acknowledgement", acked)
	drain()
	list := b.history(id)
	// The request to cancel precedes the start, so the run ends without a start.
	want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionCancelRequested, events.TypeExecutionCancelled}
	if diff := cmp.Diff(want, types(list)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	last := list[len(list)-1]
	if end := events.EndingOf(last.Data); last.Seq != seq || errorText(end) != "Cancelled by user" || end.Heap != nil || end.Output != nil && end.Output.Bytes != 0 {
		t.Errorf("Cancel returned %d; the end is at %d: %+v", seq, last.Seq, end)
	}
	if n := b.count(events.TypeSessionEntryRecorded); n != 1 || r.Stats().Retried != 0 {
		t.Errorf("%d session entries, %+v", n, r.Stats())
	}
}
