package runner_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/ledger"
	"daybook/runner"
)

// openShared opens several stores on one server, as several processes would.
func openShared(t *testing.T, n int, so jetstream.Options, lo ledger.Options) []*testLedger {
	t.Helper()
	server := storetest.StartServer(t, t.TempDir())
	lo.Logger = storetest.Logger(t)
	out := make([]*testLedger, n)
	for i := range out {
		store := storetest.Open(t, server, so)
		out[i] = &testLedger{t: t, store: store, ledger: ledger.New(store, lo)}
	}
	return out
}

// gatedAppends returns a script that appends and, for the code "first ", waits until open is
// called.
func gatedAppends() (w workers, began chan string, open func()) {
	gate, began := make(chan struct{}), make(chan string, 100)
	inner := appends()
	return workers{func(ctx context.Context, t runner.Task, write sink) (runner.Outcome, error) {
		began <- string(t.Code)
		if string(t.Code) == "first " {
			select {
			case <-gate:
			case <-ctx.Done():
				return runner.Outcome{}, context.Cause(ctx)
			}
		}
		return inner.run(ctx, t, write)
	}}, began, sync.OnceFunc(func() { close(gate) })
}

// checkCompleted reports an error unless a run completed with a state, in one attempt.
func (b *testLedger) checkCompleted(id, state string) {
	b.t.Helper()
	status, end := b.waitForEnd(id)
	if status != events.StatusCompleted || b.heapOf(end) != state || end.Attempt != 1 {
		b.t.Errorf("the run %s with the state %q in attempt %d, want %q in the first", status, b.heapOf(end), end.Attempt, state)
	}
}

// TestTurnComesDuringNak checks a turn that comes while its request is returned: the
// turn before ends after the plan of the next one, and no slot takes the released
// request before the nak with a delay, which cancels the release.
func TestTurnComesDuringNak(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	s := b.session("lost release")
	w, began, open := gatedAppends()
	acked, planned, goOn, busy := make(chan string, 10), make(chan struct{}), make(chan struct{}), make(chan struct{})
	inner := w.run
	w.run = func(ctx context.Context, t runner.Task, write sink) (runner.Outcome, error) {
		if string(t.Code) == "busy" {
			began <- "busy"
			<-busy
			return completed("1"), nil
		}
		return inner(ctx, t, write)
	}
	opts := b.options(w)
	opts.Slots = 2
	opts.Work = work{Store: b.store,
		ack: func(ctx context.Context, d runner.Delivery) error {
			defer func() { acked <- d.Event.About() }()
			return d.Ack(ctx)
		},
		nak: func(ctx context.Context, d runner.Delivery, delay time.Duration) error {
			if delay > time.Minute {
				close(planned)
				<-goOn
			}
			return d.Nak(ctx, delay)
		}}
	b.startRunner(opts)
	t.Cleanup(sync.OnceFunc(func() { close(busy) })) // before the runner is drained
	b.turn(s, "first ")
	receive(t, "the first run", began)
	second := b.turn(s, "second")
	receive(t, "the plan of the second run", planned)
	b.submit(func(s *ledger.Submission) { s.Code = "busy" })
	open()
	receive(t, "the run that takes the slot", began)
	receive(t, "the end of the first turn", acked)
	close(goOn)
	receive(t, "the end of the second turn", acked)
	b.checkCompleted(second, "first second")
}

// TestTurnIsNotRunTwice checks that a request that is released while a runner holds it
// is delivered to another runner, which does not run it.
func TestTurnIsNotRunTwice(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before it is started", "while it runs"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			books := openShared(t, 2, jetstream.Options{}, ledger.Options{})
			b := books[0]
			s := b.session(when)
			b.turn(s, "zero ") // its heap is the input of the run
			gate, held, inputs := make(chan struct{}), make(chan struct{}, 10), make(chan struct{}, 10)
			var runs atomic.Int32
			log := new(sharedLog)
			var drains []func()
			inner := appends()
			w := workers{func(ctx context.Context, t runner.Task, write sink) (runner.Outcome, error) {
				if string(t.Code) == "one" {
					runs.Add(1)
					held <- struct{}{}
					<-gate
				}
				return inner.run(ctx, t, write)
			}}
			deliveries, acked := make(chan int, 10), make(chan string, 10)
			for i, other := range books {
				opts := other.options(w)
				opts.Slots, opts.Logger = 1, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				opts.Work = work{Store: other.store, ack: func(ctx context.Context, d runner.Delivery) error {
					defer func() { acked <- d.Event.About() }()
					return d.Ack(ctx)
				}}
				var first atomic.Bool
				opts.Ledger = &planNotifier{Ledger: other.ledger, planned: func(r ledger.Request) {
					if r.Turn.Number == 2 {
						deliveries <- i
					}
				}}
				opts.Heaps = heaps{Heaps: other.store, get: func(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
					if when == "before it is started" && first.CompareAndSwap(false, true) {
						inputs <- struct{}{}
						<-gate
					}
					return other.store.Heap(ctx, tenant, hash)
				}}
				_, drain := other.startRunner(opts)
				drains = append(drains, drain)
			}
			receive(t, "the end of the turn before", acked)
			// The run of a prompt is not started again after an interruption. A second
			// delivery must not make it look interrupted.
			id := b.submit(func(submission *ledger.Submission) {
				submission.LogicalSession, submission.Code, submission.Interactive = s, "one", true
			})
			at := receive(t, "the first delivery", deliveries)
			if when == "while it runs" {
				receive(t, "the start", held)
				b.waitFor(id, isType(events.TypeExecutionStarted)) // the script does not wait for the started event
			} else {
				receive(t, "the reading of the input", inputs)
			}
			if err := b.store.Release(t.Context(), events.DefaultTenant, events.DefaultPool, b.history(id)[0].Seq); err != nil {
				t.Fatal(err)
			}
			if got := receive(t, "the second delivery", deliveries); got == at {
				t.Fatal("one runner has both deliveries")
			}
			if when == "before it is started" {
				receive(t, "the reading of the input by the other runner", inputs)
			}
			close(gate)
			b.checkCompleted(id, "zero one")
			// If two attempts start at once, one is recorded and stops the other.
			if n := runs.Load(); n != 1 && when == "while it runs" {
				t.Errorf("the script ran %d times", n)
			}
			want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionCompleted}
			if diff := cmp.Diff(want, types(b.history(id))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, drain := range drains {
				drain()
			}
			if said := log.text(); said != "" {
				t.Errorf("no attempt was lost, but the log has %s", said)
			}
		})
	}
}

// sharedLog collects the log of several runners.
type sharedLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *sharedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *sharedLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// planNotifier notifies a test of each plan.
type planNotifier struct {
	runner.Ledger
	planned func(ledger.Request)
}

func (p *planNotifier) Plan(ctx context.Context, r ledger.Request, redelivered bool) (ledger.Plan, error) {
	plan, err := p.Ledger.Plan(ctx, r, redelivered)
	p.planned(r)
	return plan, err
}

// TestRunnerDiesBeforeItReleases checks a process that dies after it recorded the end
// of a turn and before any other event. The next runner that gets the request releases
// the next turn.
func TestRunnerDiesBeforeItReleases(t *testing.T) {
	t.Parallel()
	books := openShared(t, 2, jetstream.Options{AckWait: ackWait}, ledger.Options{})
	doomed, b := books[0], books[1]
	s := b.session("dies")
	w, began, open := gatedAppends()
	opts := doomed.options(w)
	opts.Work = work{Store: doomed.store, ack: func(context.Context, runner.Delivery) error { return nil },
		nak: func(ctx context.Context, d runner.Delivery, delay time.Duration) error {
			if delay > time.Second { // the delay of a run that waits for its turn
				return d.Nak(ctx, delay)
			}
			return nil
		}}
	opts.Ledger = &ledgerPort{Ledger: doomed.ledger, complete: func(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
		e, err := doomed.ledger.Finish(ctx, r, status, res)
		return e, errors.Join(err, ledger.ErrSuperseded) // leaves the state unchanged
	}}
	r, drain := doomed.startRunner(opts)
	first := b.turn(s, "first ")
	receive(t, "the first run", began)
	second := b.turn(s, "second")
	waitForPostponed(t, r, 1)
	open()
	b.waitForEnd(first)
	drain()

	opts, acked := b.acks(w)
	b.startRunner(opts)
	receive(t, "an end", acked)
	receive(t, "an end", acked)
	b.checkCompleted(second, "first second")
}

// TestCancelReleasesTheNextTurn checks that another process can end a turn whose runner
// is dead.
func TestCancelReleasesTheNextTurn(t *testing.T) {
	t.Parallel()
	books := openShared(t, 3, jetstream.Options{AckWait: time.Hour}, ledger.Options{})
	doomed, b, client := books[0], books[1], books[2]
	s := b.session("cancel elsewhere")
	began := make(chan runner.Task, 10)
	opts := doomed.options(hangs(began))
	opts.Slots = 1
	opts.Work = work{Store: doomed.store, nak: func(context.Context, runner.Delivery, time.Duration) error { return nil }}
	opts.DrainTimeout = -1
	opts.Ledger = &ledgerPort{Ledger: doomed.ledger, handBack: func(context.Context, *ledger.StartedAttempt, string) error { return errGone }}
	_, drain := doomed.startRunner(opts)
	first := b.turn(s, "first ")
	receive(t, "the first run", began)
	drain()

	opts, acked := b.acks(appends())
	r, _ := b.startRunner(opts)
	second, third := b.turn(s, "second "), b.turn(s, "third")
	waitForPostponed(t, r, 2)
	if _, err := client.ledger.Cancel(t.Context(), events.DefaultTenant, first, canceller); err != nil {
		t.Fatal(err)
	}
	receive(t, "an end", acked)
	receive(t, "an end", acked)
	b.checkCompleted(second, "second ")
	b.checkCompleted(third, "second third")
}

// TestTurnsAcrossVolumes checks that turns that wait while their volume is sealed run
// in order, before the turns requested later.
func TestTurnsAcrossVolumes(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	s := b.session("volumes")
	w, began, open := gatedAppends()
	opts, acked := b.acks(w)
	r, _ := b.startRunner(opts)
	b.turn(s, "first ")
	receive(t, "the first run", began)
	b.turn(s, "second ")
	waitForPostponed(t, r, 1)
	if _, err := b.store.Rotate(t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: canceller}); err != nil {
		t.Fatal(err)
	}
	last := b.turn(s, "third")
	waitForPostponed(t, r, 2)
	open()
	for range 3 {
		receive(t, "an end", acked)
	}
	b.checkCompleted(last, "first second third")
}

// TestTurnBehindOneWithoutRequest checks that a turn whose run was never requested is
// skipped soon after its time, also if the turn before it runs for longer.
func TestTurnBehindOneWithoutRequest(t *testing.T) {
	t.Parallel()
	for _, long := range []bool{false, true} {
		t.Run(map[bool]string{false: "ends first", true: "ends last"}[long], func(t *testing.T) {
			t.Parallel()
			grace := 100 * time.Millisecond
			if long {
				grace = time.Second // on a fast machine the third turn is postponed also before the second is skipped
			}
			b := openTestLedger(t, jetstream.Options{}, ledger.Options{TurnGrace: grace})
			s := b.session("no request")
			w, began, open := gatedAppends()
			opts, acked := b.acks(w)
			type postponed struct {
				id    string
				delay time.Duration
			}
			naks := make(chan postponed, 100)
			queue := opts.Work.(work)
			queue.nak = func(ctx context.Context, d runner.Delivery, delay time.Duration) error {
				defer func() { naks <- postponed{d.Event.About(), delay} }()
				return d.Nak(ctx, delay)
			}
			opts.Work = queue
			r, _ := b.startRunner(opts)
			first := b.turn(s, "first ")
			receive(t, "the first run", began)
			last, err := b.store.Last(t.Context(), events.LogicalSubject(events.DefaultTenant, s))
			if err != nil {
				t.Fatal(err)
			}
			lost := &events.SessionTurnQueued{SessionID: s, Number: 2, ExecutionID: events.NewID(time.Now()), After: first}
			if _, err := b.store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), lost), int64(last.Seq)); err != nil {
				t.Fatal(err)
			}
			third := b.turn(s, "third")
			if long {
				b.waitAny(isType(events.TypeSessionTurnSkipped))
				// Behind the second turn the third is postponed for the grace at most, behind the first
				// until its end.
				for n := (postponed{}); n.id != third || n.delay <= grace; {
					n = receive(t, "the wait for the first turn", naks)
				}
			} else {
				waitForPostponed(t, r, 1)
			}
			open()
			receive(t, "an end", acked)
			receive(t, "an end", acked)
			b.checkCompleted(third, "first third")
		})
	}
}

// TestLostReleaseCostsADelay checks that a turn whose release is lost runs after the delay.
func TestLostReleaseCostsADelay(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	s := b.session("safety net")
	w, began, open := gatedAppends()
	opts, acked := b.acks(w)
	opts.Ledger = &ledgerPort{Ledger: b.ledger, complete: func(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
		return b.ledger.Finish(ctx, r, status, res) // without a release
	}}
	r := runner.New(opts)
	runner.SetTurnDelay(r, 200*time.Millisecond)
	b.runRunner(r)
	b.turn(s, "first ")
	receive(t, "the first run", began)
	second := b.turn(s, "second")
	waitForPostponed(t, r, 1)
	open()
	receive(t, "an end", acked)
	receive(t, "an end", acked)
	b.checkCompleted(second, "first second")
}
