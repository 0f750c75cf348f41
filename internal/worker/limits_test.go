package worker_test

import (
	"bytes"
	"testing"

	"daybook/internal/worker"
)

// The smallest limit that a user may ask for is enough for a small script.
func TestSmallestHeapLimit(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, stateful := range []bool{true, false} {
		task := patient("console.log({a: [1, 2, 3]}); [1, 2, 3].map(x => x * 2).join()")
		task.Stateful, task.HeapLimitBytes = stateful, 8<<20
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Result == nil || *o.Result != "2,4,6" {
			t.Errorf("stateful %t: %+v, %v", stateful, o, err)
		}
	}
}

// A heap that is larger than the new limits is an outcome, not an accident.
func TestRestoreBeyondLimits(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	save := func(code string) []byte {
		t.Helper()
		task := patient(code)
		task.HeapLimitBytes, task.ArrayBufferLimitBytes = 128<<20, 128<<20
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Status != worker.StatusCompleted {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Heap
	}

	task := patient("big.length")
	task.Heap = save("let big = Array.from({length: 3e5}, (_, i) => ({i, s: 's' + i})); 0")
	task.HeapLimitBytes = 8 << 20
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Reason != worker.ReasonOutOfMemory || o.Heap != nil {
		t.Errorf("objects: %s/%s %q, %v", o.Status, o.Reason, o.Error, err)
	}

	task = patient("try { new ArrayBuffer(1 << 20) } catch (e) { e.name + ' ' + bytes.length }")
	task.Heap = save("let bytes = new Uint8Array(32 << 20).fill(7); 0")
	task.ArrayBufferLimitBytes = 8 << 20
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Result == nil || *o.Result != "RangeError 33554432" {
		t.Errorf("buffers: %+v, %v", o.Error, err)
	}
}

// Damaged heaps never reach a worker: their hash is checked. Should one do so all
// the same, the run has an outcome and the pool lives on.
func TestDamagedHeap(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for name, heap := range map[string][]byte{
		"garbage": bytes.Repeat([]byte("this is no heap, but V8 trusts what it gets. "), 1000),
		"tiny":    {1},
	} {
		task := patient("1")
		task.Heap = heap
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Status != worker.StatusFailed || o.Reason != worker.ReasonWorkerDied || o.Error == "" {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if o, err := pool.Run(t.Context(), patient("1"), discard); err != nil || o.Status != worker.StatusCompleted {
			t.Errorf("after %s: %+v, %v", name, o, err)
		}
	}
}
