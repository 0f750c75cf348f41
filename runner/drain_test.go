package runner_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
	"daybook/runner"
)

func TestDrainLetsRunsFinish(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	began, release := make(chan struct{}), make(chan struct{})
	opts, acked := b.acks(workers{func(ctx context.Context, _ runner.Task, _ sink) (runner.Outcome, error) {
		close(began)
		select {
		case <-release:
			return completed("1"), nil
		case <-ctx.Done():
			return runner.Outcome{}, context.Cause(ctx)
		}
	}})
	r := runner.New(opts)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	id := b.submit()
	receive(t, "the script's beginning", began)
	stop()
	close(release)
	if err := receive(t, "the runner's end", done); err != nil {
		t.Error(err)
	}
	if got := receive(t, "the acknowledgement", acked); got != id {
		t.Errorf("%s was acknowledged", got)
	}
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 1 {
		t.Errorf("the run is %s: %+v", status, end)
	}
}

// A run that was handed back continues on another runner with the same task. The recorded
// output is not repeated.
func TestDrainHandsBack(t *testing.T) {
	t.Parallel()
	// With an ack wait of an hour, the second runner receives the run only after a
	// hand-back.
	b := openTestLedger(t, jetstream.Options{AckWait: time.Hour}, ledger.Options{})
	first := make(chan runner.Task, 1)
	opts := b.options(workers{func(ctx context.Context, task runner.Task, write sink) (runner.Outcome, error) {
		if err := write(ctx, []events.Line{{Text: "one"}, {Text: "tw", Continued: true}}); err != nil {
			return runner.Outcome{}, err
		}
		first <- task
		<-ctx.Done()
		return runner.Outcome{}, context.Cause(ctx)
	}})
	opts.DrainTimeout = -1
	a, drain := b.startRunner(opts)
	id := b.submit()
	task := receive(t, "the script's beginning", first)
	b.waitFor(id, isType(events.TypeExecutionOutput))
	drain()
	if n := a.Stats().HandedBack; n != 1 {
		t.Errorf("%d runs counted as handed back, want 1", n)
	}

	second := make(chan runner.Task, 1)
	opts, acked := b.acks(workers{func(ctx context.Context, task runner.Task, write sink) (runner.Outcome, error) {
		second <- task
		return completed("1"), write(ctx, []events.Line{{Text: "three"}})
	}})
	b.startRunner(opts)
	again := receive(t, "the second run", second)
	receive(t, "the acknowledgement", acked)
	for _, task := range []*runner.Task{&task, &again} {
		task.OnHeapReceived, task.ReserveHeap, task.OnArtifact = nil, nil, nil // functions that belong to one attempt
	}
	if diff := cmp.Diff(task, again); diff != "" {
		t.Errorf("the second runner's task (-first +second):\n%s", diff)
	}
	list := b.history(id)
	want := []events.Type{
		events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionOutput, events.TypeExecutionOutput,
		events.TypeExecutionHandedBack, events.TypeExecutionStarted, events.TypeExecutionOutput, events.TypeExecutionCompleted,
	}
	if diff := cmp.Diff(want, types(list)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := text(list); got != "one\ntw\nthree\n" {
		t.Errorf("output is %q", got)
	}
	_, end := b.waitForEnd(id)
	if end.Attempt != 1 || end.Output.Lines != 3 || end.Output.Bytes != 13 || end.Output.SHA256 != events.Hash([]byte("three\n")) {
		t.Errorf("the end is %+v, output %+v", end, end.Output)
	}
	checkSameStart(t, list)
}

// A ledger that does not answer delays the shutdown only for the time of a hand-back,
// or not at all if its server is known to be silent.
func TestDrainGivesUpOnTheLedger(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(opts *runner.Options) (wait time.Duration){
		"hangs": func(*runner.Options) time.Duration { return time.Millisecond },
		"silent": func(opts *runner.Options) time.Duration {
			opts.CheckRecording = func() error { return &events.NoAnswerError{Server: "ledger.test:4222"} }
			return time.Hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openTestLedger(t, jetstream.Options{AckWait: ackWait}, ledger.Options{})
			began := make(chan runner.Task, 1)
			opts := b.options(hangs(began))
			opts.DrainTimeout = -1
			opts.Ledger = &ledgerPort{Ledger: b.ledger, handBack: func(ctx context.Context, _ *ledger.StartedAttempt, _ string) error {
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), ledger.ErrAbandoned) {
					t.Errorf("the hand-back ended with %v", context.Cause(ctx))
				}
				return context.Cause(ctx)
			}}
			wait := set(&opts)
			r := runner.New(opts)
			runner.SetHandBackTimeout(r, wait)
			ctx, stop := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			id := b.submit()
			receive(t, "the script's beginning", began)
			for len(b.history(id)) < 2 { // the start is recorded in parallel with the script
				time.Sleep(time.Millisecond)
			}
			stop()
			if err := receive(t, "the runner's end", done); err != nil {
				t.Error(err)
			}
			// The run completes; the only effect is the loss of an attempt.
			b.startRunner(b.options(completes()))
			if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 2 {
				t.Errorf("the run is %s: %+v", status, end)
			}
		})
	}
}

// A script that ends although it was asked to stop keeps its outcome.
func TestDrainKeepsAnOutcome(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	began := make(chan struct{})
	opts := b.options(workers{func(ctx context.Context, _ runner.Task, _ sink) (runner.Outcome, error) {
		close(began)
		<-ctx.Done()
		return completed("1"), nil
	}})
	opts.DrainTimeout = -1
	_, drain := b.startRunner(opts)
	id := b.submit()
	receive(t, "the script's beginning", began)
	drain()
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 1 {
		t.Errorf("the run is %s: %+v", status, end)
	}
}

// A request that is delivered while draining is returned unprocessed.
func TestDrainTakesNothingNew(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	id := b.submit()
	request := b.history(id)[0]
	var ran atomic.Bool
	opts := b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
		ran.Store(true)
		return completed("1"), nil
	}})
	delay := make(chan time.Duration, 1)
	opts.Work = scriptedQueue(func(ctx context.Context, fn func(context.Context, runner.Delivery)) error {
		<-ctx.Done()
		fn(context.WithoutCancel(ctx), runner.Delivery{Event: request, Delivered: 1, Nak: func(_ context.Context, d time.Duration) error {
			delay <- d
			return nil
		}})
		return nil
	})
	_, drain := b.startRunner(opts)
	drain()
	if d := receive(t, "the nak", delay); d != 0 || ran.Load() {
		t.Errorf("nak with a delay of %v, script run: %v", d, ran.Load())
	}
}

// A request that only a newer version can decode is left to such a version.
func TestARequestOfANewerVersion(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	opts := b.options(completes())
	opts.RetryDelay = time.Minute
	e := events.Event{Type: "daybook.execution.requested.v9", Tenant: "default", Data: &events.Unknown{Type: "daybook.execution.requested.v9"}}
	// Deliveries that other runners returned do not count as failed tries.
	for _, delivered := range []int{1, 1000} {
		var got []time.Duration
		opts.Work = scriptedQueue(func(ctx context.Context, fn func(context.Context, runner.Delivery)) error {
			for range 7 {
				fn(ctx, runner.Delivery{Event: e, Delivered: delivered, Nak: func(_ context.Context, d time.Duration) error {
					got = append(got, d/time.Minute)
					return nil
				}})
			}
			return nil
		})
		if err := runner.New(opts).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{1, 2, 4, 8, 16, 30, 30}; !slices.Equal(got, want) {
			t.Errorf("a request with %d earlier deliveries is returned for %d minutes, want %d", delivered, got, want)
		}
	}
}

// scriptedQueue is a scripted work queue.
type scriptedQueue func(ctx context.Context, fn func(context.Context, runner.Delivery)) error

func (q scriptedQueue) Consume(ctx context.Context, _ string, _ fairness.Slots, fn func(context.Context, runner.Delivery)) error {
	return q(ctx, fn)
}

func (scriptedQueue) ListenCancel(string, string, func() bool) (func(), error) { return func() {}, nil }

func (scriptedQueue) IsHeld(context.Context, string, string) (bool, error) { return false, nil }

// A run that waits for its heap is returned when the runner shuts down, at no cost of
// an attempt.
func TestDrainWhileTheHeapIsRead(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, jetstream.Options{AckWait: time.Hour}, ledger.Options{})
	hash, err := b.store.PutHeap(t.Context(), events.DefaultTenant, []byte("before"), engine.ID)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	opts := b.options(completes())
	opts.Heaps = b.waitingHeaps(asked)
	opts.DrainTimeout = -1
	a, drain := b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Heap = hash })
	receive(t, "the read of the heap", asked)
	drain()
	if got := a.Stats(); got.HandedBack != 1 || got.Retried != 0 {
		t.Errorf("stats %+v", got)
	}
	b.startRunner(b.options(echoes(make(chan runner.Task, 1))))
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 1 || end.Heap.Parent != hash {
		t.Errorf("the run is %s: %+v", status, end)
	}
	want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionCompleted}
	if diff := cmp.Diff(want, types(b.history(id))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
