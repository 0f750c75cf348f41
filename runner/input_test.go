package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
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

// echoes returns a script that sends its task to tasks and completes.
func echoes(tasks chan<- runner.Task) workers {
	return workers{func(_ context.Context, t runner.Task, _ sink) (runner.Outcome, error) {
		tasks <- t
		out := completed("1")
		if t.Stateful {
			out.Heap = append([]byte("after "), t.Heap...)
		}
		return out, nil
	}}
}

// newestStart returns the newest started event of an execution.
func newestStart(t *testing.T, list []events.Event) *events.ExecutionStarted {
	t.Helper()
	var s *events.ExecutionStarted
	for _, e := range list {
		if d, ok := e.Data.(*events.ExecutionStarted); ok {
			s = d
		}
	}
	if s == nil {
		t.Fatal("the execution never started")
	}
	return s
}

func TestHeapIsRestored(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	hash, err := b.store.PutHeap(t.Context(), events.DefaultTenant, []byte("before"), engine.ID)
	if err != nil {
		t.Fatal(err)
	}
	tasks := make(chan runner.Task, 1)
	b.startRunner(b.options(echoes(tasks)))
	id := b.submit(func(s *ledger.Submission) { s.Heap = hash })
	_, end := b.waitForEnd(id)
	if got := receive(t, "the run", tasks); string(got.Heap) != "before" {
		t.Errorf("the script got heap %q", got.Heap)
	}
	want := &events.HeapRecord{SHA256: events.Hash([]byte("after before")), Size: 12, EngineID: engine.ID, Parent: hash}
	if diff := cmp.Diff(want, end.Heap); diff != "" {
		t.Errorf("heap (-want +got):\n%s", diff)
	}
	s := newestStart(t, b.history(id))
	if s.InputHeap != hash || len(s.Warnings) != 0 || s.Engine != engine || !cmp.Equal(s.Layers, []string{"fake"}) {
		t.Errorf("the started event is %+v", s)
	}
}

func TestStatelessRunsGetAndLeaveNoHeap(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	opts := b.options(workers{func(_ context.Context, task runner.Task, _ sink) (runner.Outcome, error) {
		if task.Stateful || task.Heap != nil {
			t.Errorf("unexpected task %+v", task)
		}
		out := completed("1")
		out.Heap = []byte("unasked")
		return out, nil
	}})
	b.ledger = ledger.New(b.store, ledger.Options{Stateless: true})
	opts.Ledger = b.ledger
	b.startRunner(opts)
	if status, end := b.waitForEnd(b.submit()); status != events.StatusCompleted || end.Heap != nil {
		t.Errorf("the run is %s: %+v", status, end)
	}
}

func TestHeapThatCannotBeRestored(t *testing.T) {
	t.Parallel()
	hash := events.Hash([]byte("before"))
	answers := func(info events.HeapInfo, err error) func(context.Context, string, string) ([]byte, events.HeapInfo, error) {
		return func(context.Context, string, string) ([]byte, events.HeapInfo, error) {
			return []byte("before"), info, err
		}
	}
	tests := []struct {
		name    string
		get     func(context.Context, string, string) ([]byte, events.HeapInfo, error)
		status  events.Status
		reason  string
		says    []string // in the error, or in the warnings of the start
		warning bool
	}{
		{"never recorded", answers(events.HeapInfo{}, events.ErrNotFound), events.StatusCompleted, "", []string{hash, "fresh isolate"}, true},
		{"of another engine", answers(events.HeapInfo{EngineID: "engine-0"}, nil), events.StatusFailed, runner.ReasonHeapEngineMismatch, []string{hash, "engine-0", "engine-1"}, false},
		{"damaged", answers(events.HeapInfo{}, events.ErrDamaged), events.StatusFailed, runner.ReasonHeapDamaged, []string{hash}, false},
		{"unreachable for long", answers(events.HeapInfo{}, errors.New("unavailable")), events.StatusFailed, runner.ReasonHeapUnavailable, []string{hash, "10 tries"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			opts, acked := b.acks(completes())
			opts.Heaps = heaps{Heaps: b.store, get: test.get}
			b.startRunner(opts)
			id := b.submit(func(s *ledger.Submission) { s.Heap = hash })
			receive(t, "the acknowledgement", acked)
			status, end := b.waitForEnd(id)
			s := newestStart(t, b.history(id))
			if status != test.status || end.Reason != test.reason || end.Attempt != 1 || s.InputHeap != "" {
				t.Errorf("the run is %s: %+v; input heap %q", status, end, s.InputHeap)
			}
			said := errorText(end)
			if test.warning {
				said = strings.Join(s.Warnings, "\n")
			}
			for _, want := range test.says {
				if !strings.Contains(said, want) {
					t.Errorf("recorded is %q, which does not mention %s", said, want)
				}
			}
		})
	}
}

// If a heap is collected after a run was accepted, the run fails and names the event.
// It never starts from a fresh isolate.
func TestCollectedHeap(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	hash, err := b.store.PutHeap(t.Context(), events.DefaultTenant, []byte("before"), engine.ID)
	if err != nil {
		t.Fatal(err)
	}
	id := b.submit(func(s *ledger.Submission) { s.Heap = hash })
	seq, err := b.store.Append(t.Context(), events.New(events.DefaultTenant, time.Now(), &events.HeapCollected{Heap: hash}), ledger.AnyPosition)
	if err != nil {
		t.Fatal(err)
	}
	opts := b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
		t.Error("the script was run")
		return completed("1"), nil
	}})
	opts.Heaps = heaps{Heaps: b.store, get: func(context.Context, string, string) ([]byte, events.HeapInfo, error) {
		return nil, events.HeapInfo{}, events.ErrRemoved
	}}
	b.startRunner(opts)
	status, end := b.waitForEnd(id)
	if status != events.StatusFailed || end.Reason != runner.ReasonHeapCollected || !strings.Contains(errorText(end), fmt.Sprintf("by event %d", seq)) {
		t.Errorf("the run is %s: %+v, %q", status, end, errorText(end))
	}
}

// A heap store that is unavailable for a limited time costs neither an attempt nor the
// heap.
func TestHeapStoreRecovers(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	hash, err := b.store.PutHeap(t.Context(), events.DefaultTenant, []byte("before"), engine.ID)
	if err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int32
	opts := b.options(echoes(make(chan runner.Task, 1)))
	opts.Heaps = heaps{Heaps: b.store, get: func(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
		if reads.Add(1) < 4 {
			return nil, events.HeapInfo{}, errors.New("unavailable")
		}
		return b.store.Heap(ctx, tenant, hash)
	}}
	opts.Work = returningQueue{work{Store: b.store}}
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Heap = hash })
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 1 || end.Heap.Parent != hash {
		t.Errorf("the run is %s: %+v", status, end)
	}
}

// A failure before the heap is read does not count as a failed read of the heap.
func TestHeapReadsAreCountedApart(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	hash, err := b.store.PutHeap(t.Context(), events.DefaultTenant, []byte("before"), engine.ID)
	if err != nil {
		t.Fatal(err)
	}
	code := strings.Repeat("x = 1;\n", 30_000)
	var sources, reads atomic.Int32
	opts := b.options(echoes(make(chan runner.Task, 1)))
	opts.Texts = texts(func() ([]byte, error) {
		if sources.Add(1) <= 12 {
			return nil, errors.New("unavailable")
		}
		return []byte(code), nil
	})
	opts.Heaps = heaps{Heaps: b.store, get: func(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
		if reads.Add(1) == 1 {
			return nil, events.HeapInfo{}, errors.New("unavailable")
		}
		return b.store.Heap(ctx, tenant, hash)
	}}
	b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) { s.Heap, s.Code = hash, code })
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Heap.Parent != hash {
		t.Errorf("the run is %s: %q", status, errorText(end))
	}
}

// returningQueue is a queue with requests that other runners often took ahead and returned.
// Such deliveries do not count as failed tries.
type returningQueue struct{ work }

func (g returningQueue) Consume(ctx context.Context, pool string, slots fairness.Slots, fn func(context.Context, runner.Delivery)) error {
	return g.work.Consume(ctx, pool, slots, func(ctx context.Context, d runner.Delivery) {
		d.Delivered += 100
		fn(ctx, d)
	})
}

func TestLongSource(t *testing.T) {
	t.Parallel()
	code := strings.Repeat("x = 1;\n", 30_000)
	b := newTestLedger(t)
	tasks := make(chan runner.Task, 1)
	b.startRunner(b.options(echoes(tasks)))
	b.submit(func(s *ledger.Submission) { s.Code = code })
	if got := receive(t, "the run", tasks); string(got.Code) != code {
		t.Errorf("the script is %d bytes, want %d", len(got.Code), len(code))
	}
}

func TestSourceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x = 1;\n", 30_000)
	tests := []struct {
		name   string
		text   func() ([]byte, error)
		reason string
	}{
		{"missing", func() ([]byte, error) { return nil, events.ErrNotFound }, runner.ReasonSourceMissing},
		{"damaged", func() ([]byte, error) { return nil, events.ErrDamaged }, runner.ReasonSourceDamaged},
		{"another text", func() ([]byte, error) { return []byte("evil()"), nil }, runner.ReasonSourceDamaged},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			var tries atomic.Int32
			opts := b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
				t.Error("the script was run")
				return completed("1"), nil
			}})
			opts.Texts = texts(func() ([]byte, error) {
				if tries.Add(1) == 1 {
					return nil, errors.New("unavailable for now")
				}
				return test.text()
			})
			b.startRunner(opts)
			id := b.submit(func(s *ledger.Submission) { s.Code = long })
			status, end := b.waitForEnd(id)
			if status != events.StatusFailed || end.Reason != test.reason || end.Attempt != 1 || errorText(end) == "" {
				t.Errorf("the run is %s: %+v", status, end)
			}
		})
	}
}

// TestGlobalsReachTheScript checks that the values of a request reach the worker,
// inline or as a blob, and are the same at every attempt.
func TestGlobalsReachTheScript(t *testing.T) {
	t.Parallel()
	b := openTestLedger(t, jetstream.Options{AckWait: ackWait}, ledger.Options{})
	long := `"` + strings.Repeat("y", 2*events.InlineBytes) + `"`
	tasks := make(chan runner.Task, 8)
	ids := []string{
		b.submit(func(s *ledger.Submission) { s.Globals = map[string]json.RawMessage{"a": json.RawMessage("1")} }),
		b.submit(func(s *ledger.Submission) { s.Globals = map[string]json.RawMessage{"a": json.RawMessage(long)} }),
	}
	// A runner that dies after the start leaves each run to a second attempt.
	b.runUntilDeath("after started", echoes(tasks))
	b.startRunner(b.options(echoes(tasks)))
	attempts := 0
	for _, id := range ids {
		status, end := b.waitForEnd(id)
		if status != events.StatusCompleted {
			t.Fatalf("the run is %s: %s", status, errorText(end))
		}
		attempts = max(attempts, end.Attempt)
	}
	if attempts != 2 {
		t.Errorf("the runs took %d attempts, want 2", attempts)
	}
	close(tasks)
	got := map[string]bool{}
	for task := range tasks {
		got[string(task.Globals)] = true
	}
	if want := map[string]bool{`{"a":1}`: true, `{"a":` + long + `}`: true}; !maps.Equal(got, want) {
		t.Errorf("the scripts got %d different sets of values, want 2", len(got))
	}
}

// TestGlobalsThatCannotBeRead checks that a run with lost or damaged values fails and
// that its script does not run.
func TestGlobalsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text   string
		err    error
		reason string
	}{
		"missing":        {"", events.ErrNotFound, runner.ReasonSourceMissing},
		"damaged":        {"", events.ErrDamaged, runner.ReasonSourceDamaged},
		"shredded":       {"", events.ErrShredded, runner.ReasonSourceSealed},
		"not an object":  {"null", nil, runner.ReasonSourceDamaged},
		"no JSON at all": {"{", nil, runner.ReasonSourceDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestLedger(t)
			opts := b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
				t.Error("the script was run")
				return completed("1"), nil
			}})
			opts.Texts = texts(func() ([]byte, error) { return []byte(test.text), test.err })
			b.startRunner(opts)
			id := b.submit(func(s *ledger.Submission) {
				s.Globals = map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("y", 2*events.InlineBytes) + `"`)}
			})
			status, end := b.waitForEnd(id)
			if status != events.StatusFailed || end.Reason != test.reason || !strings.Contains(errorText(end), "The data of this run") {
				t.Errorf("the run is %s: %+v: %s", status, end, errorText(end))
			}
		})
	}
}

type texts func() ([]byte, error)

func (t texts) Text(context.Context, string, string) ([]byte, error) { return t() }

// A run whose worker is lost after it received the source and the heap gets both again
// in the next try, also as a turn of a session.
func TestLostWorkerAfterTheSourceWasSent(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	hash, err := b.store.PutHeap(t.Context(), events.DefaultTenant, []byte("before"), engine.ID)
	if err != nil {
		t.Fatal(err)
	}
	tasks := make(chan runner.Task, 3)
	var tries atomic.Int32
	opts := b.options(workers{func(_ context.Context, task runner.Task, _ sink) (runner.Outcome, error) {
		tasks <- task
		task.OnHeapReceived()
		if tries.Add(1)%3 != 0 {
			return runner.Outcome{}, errors.New("the worker is lost")
		}
		return completed("1"), nil
	}})
	opts.RetryDelay = time.Millisecond
	b.startRunner(opts)
	long, session := strings.Repeat("x = 1;\n", 30_000), b.session("long sources")
	for _, test := range []struct{ code, heap, session string }{{"1", hash, ""}, {long, hash, ""}, {long, "", session}} {
		code, want := test.code, ""
		if test.heap != "" {
			want = "before"
		}
		id := b.submit(func(s *ledger.Submission) { s.Code, s.Heap, s.LogicalSession = code, test.heap, test.session })
		for range 3 {
			if got := receive(t, "a try", tasks); string(got.Code) != code || string(got.Heap) != want {
				t.Errorf("the script is %d bytes with heap %q, want %d bytes", len(got.Code), got.Heap, len(code))
			}
		}
		if status, end := b.waitForEnd(id); status != events.StatusCompleted {
			t.Errorf("the run is %s: %+v", status, end)
		}
	}
}
