package runner_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/ledger"
	"daybook/runner"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	heap := []byte("state")
	tests := []struct {
		name     string
		outcome  runner.Outcome
		status   events.Status
		err      string
		reason   string
		wantHeap bool
	}{
		{"completed", runner.Outcome{Status: "completed", Heap: heap}, events.StatusCompleted, "", "", true},
		{"thrown", runner.Outcome{Status: "failed", Error: "Error: no\n    at main.ts:1:7", Reason: "exception", Heap: heap}, events.StatusFailed, "Error: no\n    at main.ts:1:7", "exception", true},
		{"out of memory", runner.Outcome{Status: "failed", Error: "Out of memory", Reason: "out_of_memory"}, events.StatusFailed, "Out of memory", "out_of_memory", false},
		{"timed out", runner.Outcome{Status: "timed_out", Error: "deadline", Heap: heap}, events.StatusTimedOut, "Execution timed out", "", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			b.startRunner(b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
				return test.outcome, nil
			}}))
			status, end := b.waitForEnd(b.submit())
			if status != test.status || errorText(end) != test.err || end.Reason != test.reason || (end.Heap != nil) != test.wantHeap {
				t.Errorf("the run is %s: %+v", status, end)
			}
			if end.Output == nil || end.Output.SHA256 != events.Hash(nil) {
				t.Errorf("totals are %+v, want those of no output", end.Output)
			}
		})
	}
}

func TestWorkerBeyondItsTimeLimitIsStopped(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	r := runner.New(b.options(hangs(make(chan runner.Task, 1))))
	runner.SetTimeoutGrace(r, 0)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	one := 1
	status, end := b.waitForEnd(b.submit(func(s *ledger.Submission) { s.ExecutionTimeoutSecs = &one }))
	if status != events.StatusTimedOut || errorText(end) != "Execution timed out" || end.Heap != nil {
		t.Errorf("the run is %s: %+v", status, end)
	}
	stop()
	if err := receive(t, "the runner's end", done); err != nil {
		t.Error(err)
	}
}

// failThenComplete fails a number of times and then completes.
func failThenComplete(failures int32, fail func() error) workers {
	var runs atomic.Int32
	return workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
		if err := write(ctx, []events.Line{{Text: "hello"}}); err != nil {
			return runner.Outcome{}, err
		}
		if runs.Add(1) <= failures {
			return runner.Outcome{}, fail()
		}
		return completed("1"), nil
	}}
}

func TestWorkerErrors(t *testing.T) {
	t.Parallel()
	broken := func() error { return errors.New("no worker could be started") }
	tests := []struct {
		name     string
		workers  workers
		status   events.Status
		attempts int
		reason   string
	}{
		{"once", failThenComplete(1, broken), events.StatusCompleted, 2, ""},
		{"twice", failThenComplete(2, broken), events.StatusCompleted, 3, ""},
		{"always", failThenComplete(100, broken), events.StatusFailed, 3, ledger.ReasonAttemptsExhausted},
		{"panic", failThenComplete(1, func() error { panic("a defect of the runner") }), events.StatusCompleted, 2, ""},
		{"an unknown status", workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
			return runner.Outcome{Status: "cancelled"}, nil
		}}, events.StatusFailed, 3, ledger.ReasonAttemptsExhausted},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			opts, acked := b.acks(test.workers)
			b.startRunner(opts)
			id := b.submit()
			status, end := b.waitForEnd(id)
			if status != test.status || end.Attempt != test.attempts || end.Reason != test.reason || strings.Contains(errorText(end), "runner died") {
				t.Errorf("the run is %s: %+v", status, end)
			}
			receive(t, "the acknowledgement", acked)
		})
	}
}

// A run without a worker is handed back, which costs no attempt, but
// only a limited number of times.
func TestWorkerShortage(t *testing.T) {
	t.Parallel()
	short := func() error {
		return &runner.NotStartedError{Err: &os.PathError{Op: "fork/exec", Path: "/opt/daybook", Err: syscall.EMFILE}}
	}
	for _, test := range []struct {
		name          string
		failures      int32
		status        events.Status
		attempt, back int
		reason        string
	}{
		{"for some tries", 5, events.StatusCompleted, 1, 5, ""},
		{"without end", 100, events.StatusFailed, 3, 10, ledger.ReasonAttemptsExhausted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			var tries atomic.Int32
			opts, acked := b.acks(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
				if tries.Add(1) <= test.failures {
					return runner.Outcome{}, short()
				}
				return completed("1"), nil
			}})
			b.startRunner(opts)
			id := b.submit()
			status, end := b.waitForEnd(id)
			if status != test.status || end.Attempt != test.attempt || end.Reason != test.reason {
				t.Errorf("the run is %s: %+v", status, end)
			}
			n := 0
			for _, e := range b.history(id) {
				if d, ok := e.Data.(*events.ExecutionHandedBack); ok {
					n++
					if d.Reason != "no worker could be started: too many open files" {
						t.Errorf("the run was handed back for %q", d.Reason)
					}
				}
			}
			if n != test.back {
				t.Errorf("the run was handed back %d times, not %d", n, test.back)
			}
			receive(t, "the acknowledgement", acked)
		})
	}
}

func TestPanicEndsOneRun(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	began, release := make(chan struct{}), make(chan struct{})
	var panicked atomic.Bool
	b.startRunner(b.options(workers{func(_ context.Context, task runner.Task, _ sink) (runner.Outcome, error) {
		if string(task.Code) == "panic" && !panicked.Swap(true) {
			panic("a defect of the runner")
		}
		if string(task.Code) == "wait" {
			close(began)
			<-release
		}
		return completed("1"), nil
	}}))
	waiting := b.submit(func(s *ledger.Submission) { s.Code = "wait" })
	receive(t, "the first run", began)
	faulty := b.submit(func(s *ledger.Submission) { s.Code = "panic" })
	if status, end := b.waitForEnd(faulty); status != events.StatusCompleted || end.Attempt != 2 {
		t.Errorf("the faulty run is %s: %+v", status, end)
	}
	close(release)
	if status, end := b.waitForEnd(waiting); status != events.StatusCompleted || end.Attempt != 1 {
		t.Errorf("the other run is %s: %+v", status, end)
	}
}

// mortalLedger is a ledger whose runner dies at a chosen call. Later calls of the runner have
// no effect.
type mortalLedger struct {
	runner.Ledger
	dieAt string
	dead  atomic.Bool
	died  chan struct{}
}

var errDead = errors.New("this runner is dead")

// maybeDie dies before the named call, and returns errDead from then on.
func (m *mortalLedger) maybeDie(call string) error {
	if call == m.dieAt && !m.dead.Swap(true) {
		close(m.died)
	}
	if m.dead.Load() {
		return errDead
	}
	return nil
}

func (m *mortalLedger) Plan(ctx context.Context, r ledger.Request, redelivered bool) (ledger.Plan, error) {
	if err := m.maybeDie("plan"); err != nil {
		return ledger.Plan{}, err
	}
	return m.Ledger.Plan(ctx, r, redelivered)
}

func (m *mortalLedger) Start(ctx context.Context, p ledger.Plan, s ledger.Start) (*ledger.StartedAttempt, error) {
	if err := m.maybeDie("before started"); err != nil {
		return nil, err
	}
	run, err := m.Ledger.Start(ctx, p, s)
	if err := m.maybeDie("after started"); err != nil {
		return nil, err
	}
	return run, err
}

func (m *mortalLedger) AppendOutput(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
	if err := m.maybeDie("before output"); err != nil {
		return 0, err
	}
	seq, err := m.Ledger.AppendOutput(ctx, r, firstLine, firstByte, lines)
	if err := m.maybeDie("after output"); err != nil {
		return 0, err
	}
	return seq, err
}

func (m *mortalLedger) Complete(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
	if err := m.maybeDie("before terminal"); err != nil {
		return events.Event{}, err
	}
	finisher, ok := m.Ledger.(*ledger.Ledger)
	if !ok {
		return events.Event{}, errors.New("no real ledger")
	}
	if m.dieAt == "before settling" {
		if _, err := finisher.Finish(ctx, r, status, res); err != nil {
			return events.Event{}, err
		}
		return events.Event{}, m.maybeDie("before settling")
	}
	e, err := m.Ledger.Complete(ctx, r, status, res)
	if err := m.maybeDie("before acknowledgement"); err != nil {
		return events.Event{}, err
	}
	return e, err
}

func (m *mortalLedger) Finalize(ctx context.Context, r ledger.Request, terminal events.Event) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Ledger.Finalize(ctx, r, terminal)
}

func (m *mortalLedger) HandBack(ctx context.Context, r *ledger.StartedAttempt, reason string) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Ledger.HandBack(ctx, r, reason)
}

// runUntilDeath runs a runner until it dies at the given call.
func (b *testLedger) runUntilDeath(call string, w runner.Workers) {
	b.t.Helper()
	m := &mortalLedger{Ledger: b.ledger, dieAt: call, died: make(chan struct{})}
	opts := b.options(w)
	opts.Ledger = m
	opts.DrainTimeout = -1
	opts.Slots = 1 // a dead runner takes no further request
	silent := func(context.Context, runner.Delivery) error { return errDead }
	opts.Work = work{Store: b.store,
		ack: func(ctx context.Context, d runner.Delivery) error {
			if m.dead.Load() {
				return silent(ctx, d)
			}
			return d.Ack(ctx)
		},
		nak: func(ctx context.Context, d runner.Delivery, _ time.Duration) error { return silent(ctx, d) },
	}
	_, drain := b.startRunner(opts)
	receive(b.t, "death at "+call, m.died)
	drain()
}

// If a runner dies at any call, the next runner ends the execution exactly once.
func TestRunnerDies(t *testing.T) {
	t.Parallel()
	tests := []struct {
		at string
		// attempt is the attempt that ended the execution, output the recorded text.
		attempt int
		output  string
	}{
		{"plan", 1, "hello\n"},
		{"before started", 1, "hello\n"},
		{"after started", 2, "hello\n"},
		{"before output", 2, "hello\n"},
		{"after output", 2, "hello\nhello\n"},
		{"before terminal", 2, "hello\nhello\n"},
		{"before settling", 1, "hello\n"},
		{"before acknowledgement", 1, "hello\n"},
	}
	for _, test := range tests {
		t.Run(test.at, func(t *testing.T) {
			t.Parallel()
			b := openTestLedger(t, jetstream.Options{AckWait: ackWait}, ledger.Options{})
			tasks := make(chan runner.Task, 10)
			script := workers{func(ctx context.Context, task runner.Task, write sink) (runner.Outcome, error) {
				tasks <- task
				if err := write(ctx, []events.Line{{Text: "hello"}}); err != nil {
					return runner.Outcome{}, err
				}
				out := completed("1")
				out.Heap = []byte("heap")
				return out, nil
			}}
			id := b.submit(func(s *ledger.Submission) {
				s.Session = "notes"
				s.Tags = map[string]string{"k": "v"}
			})
			b.runUntilDeath(test.at, script)
			opts, acked := b.acks(script)
			b.startRunner(opts)
			receive(t, "the acknowledgement", acked)

			list := b.history(id)
			status, end := b.waitForEnd(id)
			if status != events.StatusCompleted || end.Attempt != test.attempt {
				t.Errorf("the run is %s: %+v", status, end)
			}
			if got := text(list); got != test.output {
				t.Errorf("output is %q, want %q", got, test.output)
			}
			if got := int64(len(test.output)); end.Output.Bytes != got {
				t.Errorf("%d bytes are counted, want %d", end.Output.Bytes, got)
			}
			ends := 0
			for _, e := range list {
				if e.Type.Terminal() {
					ends++
				}
			}
			if entries, edits := b.count(events.TypeSessionEntryRecorded), b.count(events.TypeHeapTagged); ends != 1 || entries != 1 || edits != 1 {
				t.Errorf("%d ends, %d entries, %d tag edits, want 1 of each", ends, entries, edits)
			}
			checkSameStart(t, list)
		})
	}
}

// checkSameStart checks that every attempt started with the same seed and clock.
func checkSameStart(t *testing.T, list []events.Event) {
	t.Helper()
	var first *events.ExecutionStarted
	for _, e := range list {
		d, ok := e.Data.(*events.ExecutionStarted)
		switch {
		case !ok:
		case first == nil:
			first = d
		case d.Seed != first.Seed || !d.StartTime.Equal(first.StartTime.Time):
			t.Errorf("attempt %d started with seed %s at %v, the first with %s at %v", d.Attempt, d.Seed, d.StartTime, first.Seed, first.StartTime)
		}
	}
}

func TestThreeDeathsExhaustARun(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, jetstream.Options{AckWait: ackWait}, ledger.Options{})
	id := b.submit()
	for range 3 {
		b.runUntilDeath("before terminal", completes("hello"))
	}
	ran := make(chan runner.Task, 1)
	opts, acked := b.acks(hangs(ran))
	b.startRunner(opts)
	receive(t, "the acknowledgement", acked)
	status, end := b.waitForEnd(id)
	if status != events.StatusFailed || end.Reason != ledger.ReasonAttemptsExhausted || end.Attempt != 3 {
		t.Errorf("the run is %s: %+v", status, end)
	}
	if len(ran) != 0 {
		t.Error("the script was run a fourth time")
	}
	if diff := cmp.Diff("hello\nhello\nhello\n", text(b.history(id))); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// A transient failure at the end of a run costs no attempt.
func TestEndIsRetried(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	var puts, ends atomic.Int32
	opts := b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
		out := completed("1")
		out.Heap = []byte("heap")
		return out, nil
	}})
	opts.Heaps = heaps{Heaps: b.store, put: func(ctx context.Context, tenant string, blob []byte, engineID string) (string, error) {
		if puts.Add(1) < 3 {
			return "", errors.New("the blob store is unavailable")
		}
		return b.store.PutHeap(ctx, tenant, blob, engineID)
	}}
	opts.Ledger = &ledgerPort{Ledger: b.ledger, complete: func(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
		if ends.Add(1) < 3 {
			return events.Event{}, &ledger.Error{Code: ledger.CodeUnavailable, Message: "away"}
		}
		return b.ledger.Complete(ctx, r, status, res)
	}}
	b.startRunner(opts)
	if status, end := b.waitForEnd(b.submit()); status != events.StatusCompleted || end.Attempt != 1 || end.Heap == nil {
		t.Errorf("the run is %s: %+v", status, end)
	}
}

// Output that cannot be recorded stops the script and leaves the outcome open.
func TestOutputThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	var failed, interrupted atomic.Bool
	cause := make(chan error, 1)
	opts := b.options(workers{func(ctx context.Context, _ runner.Task, write sink) (runner.Outcome, error) {
		first := interrupted.CompareAndSwap(false, true)
		if err := write(ctx, []events.Line{{Text: "hello"}}); err != nil {
			return runner.Outcome{}, err
		}
		if first { // whether its output has failed by now or not
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return runner.Outcome{}, context.Cause(ctx)
		}
		return completed("1"), nil
	}})
	away := &ledger.Error{Code: ledger.CodeUnavailable, Message: "away"}
	opts.Ledger = &ledgerPort{Ledger: b.ledger, output: func(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
		if !failed.Load() {
			defer failed.Store(true)
			return 0, away
		}
		return b.ledger.AppendOutput(ctx, r, firstLine, firstByte, lines)
	}}
	r, _ := b.startRunner(opts)
	id := b.submit()
	if err := receive(t, "the script's stop", cause); !errors.Is(err, away) {
		t.Errorf("the script was stopped because of %v", err)
	}
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 2 {
		t.Errorf("the run is %s: %+v", status, end)
	}
	if n := r.Stats().Retried; n != 1 {
		t.Errorf("%d retries counted, want 1", n)
	}
}

// ErrSuperseded means that another runner is processing the same request.
func TestSupersededRunIsNeitherAckedNorNaked(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	told := make(chan string, 1)
	opts := b.options(completes())
	opts.Ledger = &ledgerPort{Ledger: b.ledger, complete: func(context.Context, *ledger.StartedAttempt, events.Status, ledger.Result) (events.Event, error) {
		return events.Event{}, ledger.ErrSuperseded
	}}
	opts.Work = work{Store: b.store,
		ack: func(context.Context, runner.Delivery) error { told <- "ack"; return nil },
		nak: func(context.Context, runner.Delivery, time.Duration) error { told <- "nak"; return nil },
	}
	_, drain := b.startRunner(opts)
	id := b.submit()
	b.waitFor(id, isType(events.TypeExecutionStarted))
	drain()
	select {
	case what := <-told:
		t.Errorf("the runner logged %s", what)
	default:
	}
}
