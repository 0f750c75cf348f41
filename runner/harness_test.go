package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/runner"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go v1.55.0 starts this goroutine for each stored object and may leave it
		// waiting on a channel that it removed. This module cannot stop it.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience limits how long a test waits for a condition.
const patience = 2 * time.Minute

// ackWait is the ack deadline in tests that wait until the request of a dead runner is
// delivered again. On a loaded machine, a shorter time would expire for a live runner.
const ackWait = 2 * time.Second

var engine = events.Engine{ID: "engine-1", V8Version: "1.2.3"}

// workers is a scripted Workers.
type workers struct {
	run func(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error)
}

func (w workers) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	return w.run(ctx, t, lines)
}
func (workers) Engine(context.Context, bool) (events.Engine, error) { return engine, nil }
func (workers) Layers(context.Context, bool) ([]string, error)      { return []string{"fake"}, nil }

// completes returns a script that writes lines and completes.
func completes(lines ...string) workers {
	return workers{func(ctx context.Context, _ runner.Task, write func(context.Context, []events.Line) error) (runner.Outcome, error) {
		for _, l := range lines {
			if err := write(ctx, []events.Line{{Text: l}}); err != nil {
				return runner.Outcome{}, err
			}
		}
		return completed("42"), nil
	}}
}

func completed(result string) runner.Outcome {
	return runner.Outcome{Status: "completed", Result: &result, TranspiledSHA256: events.Hash(nil)}
}

// hangs returns a script that runs until it is stopped. began receives a value for each
// run.
func hangs(began chan<- runner.Task) workers {
	return workers{func(ctx context.Context, t runner.Task, _ func(context.Context, []events.Line) error) (runner.Outcome, error) {
		began <- t
		<-ctx.Done()
		return runner.Outcome{}, context.Cause(ctx)
	}}
}

// work lets a runner consume from a real store.
type work struct {
	*jetstream.Store
	// ack and nak, if set, replace Delivery.Ack and Delivery.Nak.
	ack func(ctx context.Context, d runner.Delivery) error
	nak func(ctx context.Context, d runner.Delivery, delay time.Duration) error
}

func (w work) Consume(ctx context.Context, pool string, slots fairness.Slots, fn func(context.Context, runner.Delivery)) error {
	return w.Store.Consume(ctx, pool, slots, func(ctx context.Context, d runner.Delivery) {
		ack, nak := d.Ack, d.Nak
		if w.ack != nil {
			ack = func(ctx context.Context) error { return w.ack(ctx, d) }
		}
		if w.nak != nil {
			nak = func(ctx context.Context, delay time.Duration) error { return w.nak(ctx, d, delay) }
		}
		fn(ctx, runner.Delivery{Event: d.Event, Unreadable: d.Unreadable, Delivered: d.Delivered, ReleaseSlot: d.ReleaseSlot, Ack: ack, Nak: nak})
	})
}

// ledgerPort is the ledger of a runner. A test may replace parts of it.
type ledgerPort struct {
	runner.Ledger
	start    func(ctx context.Context, p ledger.Plan, s ledger.Start) (*ledger.StartedAttempt, error)
	output   func(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error)
	complete func(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error)
	handBack func(ctx context.Context, r *ledger.StartedAttempt, reason string) error
}

func (l *ledgerPort) HandBack(ctx context.Context, r *ledger.StartedAttempt, reason string) error {
	if l.handBack != nil {
		return l.handBack(ctx, r, reason)
	}
	return l.Ledger.HandBack(ctx, r, reason)
}

func (l *ledgerPort) Start(ctx context.Context, p ledger.Plan, s ledger.Start) (*ledger.StartedAttempt, error) {
	if l.start != nil {
		return l.start(ctx, p, s)
	}
	return l.Ledger.Start(ctx, p, s)
}

func (l *ledgerPort) AppendOutput(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (uint64, error) {
	if l.output != nil {
		return l.output(ctx, r, firstLine, firstByte, lines)
	}
	return l.Ledger.AppendOutput(ctx, r, firstLine, firstByte, lines)
}

func (l *ledgerPort) Complete(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error) {
	if l.complete != nil {
		return l.complete(ctx, r, status, res)
	}
	return l.Ledger.Complete(ctx, r, status, res)
}

// testLedger is a ledger under test with everything that a run needs.
type testLedger struct {
	t      *testing.T
	store  *jetstream.Store
	ledger *ledger.Ledger
}

func newTestLedger(t *testing.T) *testLedger {
	return openTestLedger(t, jetstream.Options{}, ledger.Options{})
}

func openTestLedger(t *testing.T, so jetstream.Options, lo ledger.Options) *testLedger {
	t.Helper()
	lo.Logger = storetest.Logger(t)
	store := storetest.Open(t, storetest.StartServer(t, t.TempDir()), so)
	return &testLedger{t: t, store: store, ledger: ledger.New(store, lo)}
}

// acks returns options and a channel that receives each acknowledged execution.
func (b *testLedger) acks(w runner.Workers) (runner.Options, <-chan string) {
	acked := make(chan string, 100)
	opts := b.options(w)
	opts.Work = work{Store: b.store, ack: func(ctx context.Context, d runner.Delivery) error {
		defer func() { acked <- d.Event.About() }()
		return d.Ack(ctx)
	}}
	return opts, acked
}

// options returns the options of a runner over the ledger.
func (b *testLedger) options(w runner.Workers) runner.Options {
	return runner.Options{
		Slots:        4,
		Ledger:       b.ledger,
		Work:         work{Store: b.store},
		Heaps:        b.store,
		Texts:        b.store,
		Workers:      w,
		DrainTimeout: patience,
		RetryDelay:   time.Millisecond,
		Logger:       slog.New(slog.NewTextHandler(b.t.Output(), nil)),
	}
}

// startRunner runs a runner until the returned function is called or the test ends.
func (b *testLedger) startRunner(opts runner.Options) (r *runner.Runner, drain func()) {
	b.t.Helper()
	r = runner.New(opts)
	return r, b.runRunner(r)
}

// runRunner is startRunner for a runner that the test has created.
func (b *testLedger) runRunner(r *runner.Runner) (drain func()) {
	b.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	drain = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			b.t.Errorf("runner: %v", err)
		}
	})
	b.t.Cleanup(drain)
	return drain
}

// submit submits code with the changes of change.
func (b *testLedger) submit(change ...func(*ledger.Submission)) string {
	b.t.Helper()
	s := ledger.Submission{Tenant: events.DefaultTenant, Code: "1", Actor: events.Actor{Principal: "anonymous", Transport: "embed"}}
	for _, c := range change {
		c(&s)
	}
	receipt, err := b.ledger.Submit(b.t.Context(), s)
	if err != nil {
		b.t.Fatalf("submit: %v", err)
	}
	return receipt.ExecutionID
}

func (b *testLedger) history(id string) []events.Event {
	b.t.Helper()
	list, err := b.ledger.History(b.t.Context(), events.DefaultTenant, id)
	if err != nil {
		b.t.Fatalf("history: %v", err)
	}
	return list
}

// errSeen stops a Follow that has found the wanted event.
var errSeen = errors.New("seen")

// waitFor follows the ledger until an event about id satisfies want.
func (b *testLedger) waitFor(id string, want func(events.Event) bool) events.Event {
	b.t.Helper()
	return b.waitAny(func(e events.Event) bool { return e.About() == id && want(e) })
}

func (b *testLedger) waitAny(want func(events.Event) bool) events.Event {
	b.t.Helper()
	ctx, stop := context.WithTimeout(b.t.Context(), patience)
	defer stop()
	var found events.Event
	err := b.store.Follow(ctx, 0, func(batch []events.Event, _ uint64) error {
		for _, e := range batch {
			if want(e) {
				found = e
				return errSeen
			}
		}
		return nil
	})
	if !errors.Is(err, errSeen) {
		b.t.Fatalf("the expected event was not recorded: %v", err)
	}
	return found
}

func isType(t events.Type) func(events.Event) bool {
	return func(e events.Event) bool { return e.Type == t }
}

// waitForEnd waits for the end of an execution.
func (b *testLedger) waitForEnd(id string) (events.Status, *events.Ending) {
	b.t.Helper()
	e := b.waitFor(id, func(e events.Event) bool { return e.Type.Terminal() })
	status, _ := e.Type.Status()
	return status, events.EndingOf(e.Data)
}

// types returns the types of events.
func types(list []events.Event) []events.Type {
	out := make([]events.Type, len(list))
	for i, e := range list {
		out[i] = e.Type
	}
	return out
}

// errorText returns the error that an execution ended with.
func errorText(e *events.Ending) string {
	if b := e.Content.Value().Error; b != nil {
		return b.Text
	}
	return ""
}

// receive waits for a value.
func receive[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not happen", what)
		panic("unreachable")
	}
}

// text returns the output of an execution by the rules of events.Extent.
func text(list []events.Event) string {
	var out []byte
	var x events.Extent
	for _, e := range list {
		switch d := e.Data.(type) {
		case *events.ExecutionStarted:
			if int64(len(out)) < d.FirstByte {
				out = append(out, '\n')
			}
			out = out[:d.FirstByte]
			x = events.ExtentFrom(d)
		case *events.ExecutionOutput:
			if !x.Add(d) {
				continue
			}
			for _, l := range d.Content.Value().Lines {
				out = append(out, l.Text...)
				if !l.Continued {
					out = append(out, '\n')
				}
			}
		}
	}
	return string(out)
}

func numberedLines(from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf("line %d", i))
	}
	return out
}

// heaps is a heap store. A test may replace parts of it.
type heaps struct {
	runner.Heaps
	get func(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error)
	put func(ctx context.Context, tenant string, blob []byte, engineID string) (string, error)
}

func (h heaps) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	if h.get != nil {
		return h.get(ctx, tenant, hash)
	}
	return h.Heaps.Heap(ctx, tenant, hash)
}

func (h heaps) PutHeap(ctx context.Context, tenant string, blob []byte, engineID string) (string, error) {
	if h.put != nil {
		return h.put(ctx, tenant, blob, engineID)
	}
	return h.Heaps.PutHeap(ctx, tenant, blob, engineID)
}
