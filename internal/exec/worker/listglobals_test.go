package worker_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/internal/globals"
	"daybook/runner"
)

// listTask returns a task that lists the globals of a heap.
func listTask(heap []byte) runner.Task {
	return runner.Task{
		Tenant: "t", Heap: heap, Stateful: true, ListGlobals: true, Timeout: 5 * time.Minute, Start: time.Unix(0, 0),
		HeapLimitBytes: 64 << 20, ArrayBufferLimitBytes: 64 << 20,
	}
}

// A worker lists the globals of a heap, runs none of its code, and is used for the next run.
func TestListGlobals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	before, err := pool.Run(t.Context(), patient("let a = new Map([[1, 2]]); function f(n: number) { return n } globalThis.b = new Proxy({ ran: false }, { get() { console.log('ran') } }); setTimeout(() => console.log('ran'), 1e9).unref(); 1"), discard)
	if err != nil || before.Status != events.StatusCompleted {
		t.Fatalf("%+v, %v", before, err)
	}
	heap := slices.Clone(before.Heap)
	received := false
	for range 2 {
		task := listTask(before.Heap)
		task.OnHeapReceived = func() { received = true }
		o, err := pool.Run(t.Context(), task, func(_ context.Context, lines []events.Line) error {
			t.Errorf("output: %+v", lines)
			return nil
		})
		if err != nil || o.Status != events.StatusCompleted || o.Heap != nil || o.Result == nil || o.Pristine != nil || len(o.Warnings) != 0 {
			t.Fatalf("%+v, %v", o, err)
		}
		list, err := globals.Decode([]byte(*o.Result))
		if err != nil || len(list.Globals) != 3 || list.Globals[0].Preview != "Map(1) { 1 => 2 }" || list.Globals[1].Preview != "{ ran: false }" || list.Globals[2].Name != "f" {
			t.Errorf("%+v, %v", list, err)
		}
	}
	if !received || !bytes.Equal(heap, before.Heap) {
		t.Errorf("received %t, heap changed %t", received, !bytes.Equal(heap, before.Heap))
	}
	if idle := pool.IdleWorkers(); len(idle) == 0 {
		t.Error("the worker is not used again")
	}
	task := patient("a.size + f(1)")
	task.Heap = before.Heap
	after, err := pool.Run(t.Context(), task, discard)
	if err != nil || after.Result == nil || *after.Result != "2" {
		t.Errorf("a run after the list: %+v, %v", after, err)
	}
	task = listTask(before.Heap)
	task.SkipGlobals = 2
	rest, err := pool.Run(t.Context(), task, discard)
	if err != nil || rest.Result == nil || !strings.HasPrefix(*rest.Result, `{"globals":[{"name":"f",`) || strings.Contains(*rest.Result, `"more"`) {
		t.Errorf("without the first two: %+v, %v", rest, err)
	}
	empty, err := pool.Run(t.Context(), listTask(nil), discard)
	if err != nil || empty.Result == nil || *empty.Result != `{"globals":[]}` {
		t.Errorf("%+v, %v", empty, err)
	}
}

// A list that takes too long, or too much memory, is stopped.
func TestListGlobalsLimits(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	large := patient("for (let i = 0; i < 900; i++) globalThis['g' + i] = Array.from({ length: 3000 }, (_, n) => ({ n })); 1")
	large.HeapLimitBytes, large.ArrayBufferLimitBytes = 256<<20, 64<<20
	before, err := pool.Run(t.Context(), large, discard)
	if err != nil || before.Status != events.StatusCompleted {
		t.Fatalf("%+v, %v", before, err)
	}
	task := listTask(before.Heap)
	task.HeapLimitBytes, task.Timeout = 256<<20, 50*time.Millisecond
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Status != events.StatusTimedOut || o.Result != nil {
		t.Errorf("no time: %+v, %v", o, err)
	}
	task = listTask(before.Heap)
	task.HeapLimitBytes = 16 << 20
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Reason != runner.ReasonOutOfMemory || o.Result != nil {
		t.Errorf("no memory: %+v, %v", o, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("the client has gone")
	task = listTask(before.Heap)
	task.HeapLimitBytes, task.OnHeapReceived = 256<<20, func() { cancel(cause) }
	if _, err := pool.Run(ctx, task, discard); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
}

// A list of globals is no run: nothing that only a run has is accepted.
func TestListGlobalsTask(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	for name, change := range map[string]func(*runner.Task){
		"code":      func(t *runner.Task) { t.Code = []byte("1") },
		"globals":   func(t *runner.Task) { t.Globals = []byte("{}") },
		"stateless": func(t *runner.Task) { t.Stateful, t.Heap = false, nil },
		"host":      func(t *runner.Task) { t.Host = &silent{make(chan struct{})} },
	} {
		task := listTask([]byte("heap"))
		change(&task)
		if _, err := pool.Run(t.Context(), task, discard); err == nil || !strings.Contains(err.Error(), "a list of globals needs") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A worker that a script has taken over cannot list what is no global, and sends nothing else.
func TestHostileListOfGlobals(t *testing.T) {
	t.Parallel()
	for _, how := range []string{
		"lists globals with lines", "lists globals with a call", "lists globals with a report", "lists globals with a heap", "lists no globals", "lists malformed globals",
		"lists globals with unknown members", "lists globals out of order", "lists globals with a long preview", "lists too many globals", "lists globals with an unknown kind",
		"huge text", "text of invalid UTF-8", "more text than announced", "accepts twice", "end with unknown fields",
	} {
		t.Run(how, func(t *testing.T) {
			pool := hostilePool(t, how)
			o, err := pool.Run(t.Context(), listTask(bytes.Repeat([]byte("heap"), 1000)), discard)
			if err != nil || o.Status != events.StatusFailed || o.Reason != runner.ReasonProtocol || o.Result != nil || o.Heap != nil {
				t.Fatalf("%+v, %v", o, err)
			}
		})
	}
}
