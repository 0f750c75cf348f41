package mcp_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
	"daybook/runner"
)

// testStack is a complete stack without V8: the ledger on a real JetStream, the
// projections, and a runner for scripts of a few words.
type testStack struct {
	store  *jetstream.Store
	ledger *ledger.Ledger
	views  *projections.Store
	ended  <-chan struct{} // closed when the test has ended
}

func openStack(t testing.TB, opts ledger.Options) *testStack {
	t.Helper()
	b := openIdleStack(t, opts)
	ctx, stop := context.WithCancel(context.Background())
	b.ended = ctx.Done()
	done := make(chan error, 1)
	go func() {
		done <- b.store.Consume(ctx, events.DefaultPool, fairness.Slots{Total: 2}, b.startWork(ctx, t))
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("runner: %v", err)
		}
	})
	return b
}

// openIdleStack opens a stack without a runner: only requests of clients record events.
func openIdleStack(t testing.TB, opts ledger.Options) *testStack {
	t.Helper()
	store := storetest.Start(t)
	opts.Logger = storetest.Logger(t)
	b := &testStack{store: store, ledger: ledger.New(store, opts)}
	var err error
	b.views, err = projections.Open(t.Context(), projections.Options{
		Path: filepath.Join(t.TempDir(), "projections.db"), Texts: store, Logger: opts.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.views.Run(ctx, store) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("projections: %v", err)
		}
		if err := b.views.Close(); err != nil {
			t.Errorf("close the projections: %v", err)
		}
	})
	return b
}

func (b *testStack) serve(t testing.TB, opts mcp.Options) *mcp.Server {
	t.Helper()
	opts.Commands, opts.Queries = b.ledger, b.views
	if opts.Logger == nil {
		opts.Logger = storetest.Logger(t)
	}
	if opts.Contexts == nil {
		opts.Contexts = b.contexts(t)
	}
	s := mcp.New(opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the server: %v", err)
		}
	})
	return s
}

// contexts returns the conversation contexts of one process. Notes are recorded only on
// request.
func (b *testStack) contexts(t testing.TB) *contextstore.Store {
	t.Helper()
	contexts, err := contextstore.New(contextstore.Options{Log: b.store, Views: b.views, HeapBytes: func() uint64 { return 42 << 20 }, Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return contexts
}

// await waits until the projections show the end of an execution.
func (b *testStack) await(t testing.TB, id string) projections.ExecutionDetail {
	t.Helper()
	return b.awaitState(t, id, func(d projections.ExecutionDetail) bool { return d.Status.Terminal() && b.isFinalized(t, d) })
}

// awaitState waits until done returns true for an execution.
func (b *testStack) awaitState(t testing.TB, id string, done func(projections.ExecutionDetail) bool) projections.ExecutionDetail {
	t.Helper()
	for {
		changed := b.views.NextCommit()
		d, err := b.views.Execution(t.Context(), events.DefaultTenant, id)
		if err != nil {
			t.Fatalf("await %s: %v", id, err)
		}
		if done(d) {
			return d
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("await %s: %v", id, t.Context().Err())
		}
	}
}

// isFinalized reports whether the session entry of an ended execution is readable too.
func (b *testStack) isFinalized(t testing.TB, d projections.ExecutionDetail) bool {
	t.Helper()
	if d.Session == nil {
		return true
	}
	entries, err := b.views.Entries(t.Context(), events.DefaultTenant, *d.Session)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.ExecutionID == d.ExecutionID {
			return true
		}
	}
	return false
}

// startWork returns the handler of deliveries. A script has one statement per line:
// console.log("x") and its siblings, throw "x", await forever, and a literal, which is
// the result.
func (b *testStack) startWork(ctx context.Context, t testing.TB) func(context.Context, runner.Delivery) {
	return func(_ context.Context, d runner.Delivery) {
		ctx := context.WithoutCancel(ctx)
		err := b.run(ctx, d)
		// The request of a turn may be delivered twice. Like a runner, the stack then leaves the request
		// to the delivery that has the run: an acknowledgement would end it.
		if errors.Is(err, errTestEnded) || errors.Is(err, ledger.ErrHeld) || errors.Is(err, ledger.ErrSuperseded) {
			return
		}
		if errors.Is(err, errNotTurn) {
			if err := d.Nak(ctx, time.Millisecond); err != nil {
				t.Errorf("give back: %v", err)
			}
			return
		}
		if err != nil {
			t.Errorf("run: %v", err)
		}
		if err := d.Ack(ctx); err != nil {
			t.Errorf("acknowledge: %v", err)
		}
	}
}

const testEngine = "test-engine"

var (
	// errNotTurn is returned for a run that has to wait for another one of its session.
	errNotTurn = errors.New("not its turn")
	// errTestEnded is returned for a run that has no end when the test ends.
	errTestEnded = errors.New("the test has ended")
)

// start starts an attempt. It plans again if another writer recorded an event first. listen is called
// after the plan and before the start is recorded, so that another delivery finds the run held; stop ends
// it, and is called if there is an error.
func (b *testStack) start(ctx context.Context, req ledger.Request, input string, redelivered bool, listen func() (stop func(), err error)) (run *ledger.StartedAttempt, stop func(), err error) {
	for {
		plan, err := b.ledger.Plan(ctx, req, redelivered)
		if err != nil {
			return nil, nil, err
		}
		if plan.WaitFor != "" {
			return nil, nil, errNotTurn
		}
		if req.Turn != nil {
			input = plan.Heap
		}
		stop, err := listen()
		if err != nil {
			return nil, nil, err
		}
		run, err := b.ledger.Start(ctx, plan, ledger.Start{Runner: "test", Engine: events.Engine{ID: testEngine}, InputHeap: input})
		if err == nil {
			return run, stop, nil
		}
		stop()
		if !errors.Is(err, ledger.ErrReplan) {
			return nil, nil, err
		}
		redelivered = true
	}
}

// untilCancelled waits until a client asks to cancel the execution, or has ended it
// because the request came before this runner listened.
func (b *testStack) untilCancelled(ctx context.Context, req ledger.Request, asked <-chan struct{}) error {
	for {
		changed := b.views.NextCommit()
		if err := b.views.Wait(ctx, req.Seq); err != nil {
			return err
		}
		d, err := b.views.Execution(ctx, req.Tenant, req.ExecutionID)
		if err != nil || d.Status.Terminal() {
			return err
		}
		select {
		case <-asked:
			return nil
		case <-changed:
		case <-b.ended:
			return errTestEnded
		}
	}
}

var consoleLine = regexp.MustCompile(`^console\.(log|info|warn|error)\("(.*)"\)$`)

func (b *testStack) run(ctx context.Context, d runner.Delivery) error {
	req, ok := ledger.NewRequest(d.Event)
	if !ok {
		return errors.New("not a request")
	}
	input := req.Heap
	if input != "" {
		if _, err := b.store.HeapInfo(ctx, req.Tenant, input); errors.Is(err, events.ErrNotFound) {
			input = ""
		}
	}
	asked, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	var once sync.Once
	run, stop, err := b.start(ctx, req, input, d.Delivered > 1, func() (func(), error) {
		return b.store.ListenCancel(req.Tenant, req.ExecutionID, func() bool {
			once.Do(func() { close(asked) })
			<-over
			return true
		})
	})
	if ended, ok := errors.AsType[*ledger.EndedError](err); ok {
		return b.ledger.Finalize(ctx, req, ended.Event)
	}
	if err != nil {
		return err
	}
	defer stop()
	input = run.InputHeap

	status, res := events.StatusCompleted, ledger.Result{}
	line, at := run.Plan.FirstLine, run.Plan.FirstByte
	code := req.Content.Value().Source.Text
	for word := range strings.Lines(code) {
		word = strings.TrimSpace(word)
		if say := consoleLine.FindStringSubmatch(word); say != nil {
			out := events.Line{Text: strings.ReplaceAll(say[2], `\n`, "\n"), Level: events.Level(say[1])}
			if _, err := b.ledger.AppendOutput(ctx, run, line, at, []events.Line{out}); err != nil {
				return err
			}
			line, at = line+1, at+out.Bytes()
			continue
		}
		if word == "await forever" {
			if err := b.untilCancelled(ctx, req, asked); err != nil {
				return err
			}
			status = events.StatusCancelled
			break
		}
		if message, ok := strings.CutPrefix(word, "throw "); ok {
			status, res.Error = events.StatusFailed, "Uncaught "+strings.Trim(message, `"`)
			break
		}
		if word != "" {
			value := strings.Trim(word, `"`)
			res.Value = &value
		}
	}
	res.Output = events.OutputTotals{Lines: line - 1, Bytes: at, SHA256: events.Hash(nil)}
	if req.Stateful && status != events.StatusCancelled {
		blob := []byte(input + code)
		if req.Turn != nil && input != "" { // the text of a heap shows its lineage
			before, _, err := b.store.Heap(ctx, req.Tenant, input)
			if err != nil {
				return err
			}
			blob = append(slices.Clone(before), code...)
		}
		hash, err := b.store.PutHeap(ctx, req.Tenant, blob, testEngine)
		if err != nil {
			return err
		}
		res.Heap = &events.HeapRecord{SHA256: hash, Size: int64(len(blob)), EngineID: testEngine, Parent: input}
	}
	_, err = b.ledger.Complete(ctx, run, status, res)
	return err
}

// A test that ends while a run has no end does not wait for the run.
func TestStackEndsWithARun(t *testing.T) {
	t.Parallel()
	ended := t.Run("stack", func(t *testing.T) {
		b := openStack(t, ledger.Options{})
		r, err := b.ledger.Submit(t.Context(), ledger.Submission{Tenant: events.DefaultTenant, Code: "await forever"})
		if err == nil {
			err = b.views.Wait(t.Context(), r.Seq)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.awaitState(t, r.ExecutionID, func(d projections.ExecutionDetail) bool { return !d.Queued })
	})
	if !ended {
		t.Error("the stack reports an error")
	}
}
