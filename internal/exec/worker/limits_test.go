package worker_test

import (
	"bytes"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// The smallest limit that a user may set is enough for a small script.
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

// A heap that is larger than the new limits leads to an outcome with a reason.
func TestRestoreBeyondLimits(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	save := func(code string) []byte {
		t.Helper()
		task := patient(code)
		task.HeapLimitBytes, task.ArrayBufferLimitBytes = 128<<20, 128<<20
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Status != events.StatusCompleted {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Heap
	}

	task := patient("big.length")
	task.Heap = save("let big = Array.from({length: 3e5}, (_, i) => ({i, s: 's' + i})); 0")
	task.HeapLimitBytes = 8 << 20
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Reason != runner.ReasonOutOfMemory || o.Heap != nil {
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

// Damaged heaps do not reach a worker, because their hash is verified. If one does, the run has an
// outcome and the pool continues to work.
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
		if err != nil || o.Status != events.StatusFailed || o.Reason != runner.ReasonWorkerDied || o.Error == "" {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
		if o, err := pool.Run(t.Context(), patient("1"), discard); err != nil || o.Status != events.StatusCompleted {
			t.Errorf("after %s: %+v, %v", name, o, err)
		}
	}
}

// The outcome of a run whose process V8 ended has the peak of the heap.
func TestPeakHeapOfDeaths(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const fill = "let a = Array.from({length: 2e5}, (_, i) => ({i})); "
	for name, c := range map[string]struct {
		code, reason string
		least        int64
	}{
		"far beyond the limit": {fill + "new Array(3e7).fill({})", runner.ReasonOutOfMemory, 4 << 20},
		"linked errors":        {fill + "Error.prepareStackTrace = String; let e = null; for (let i = 0; i < 40; i++) { const f = new Error('x' + i); f.cause = e; e = f } 1", runner.ReasonUnserializableHeap, 4 << 20},
	} {
		task := patient(c.code)
		task.HeapLimitBytes = 64 << 20
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Reason != c.reason || o.PeakHeapBytes < c.least || o.PeakHeapBytes > 128<<20 || strings.Contains(o.Error, "peak") {
			t.Errorf("%s: %s, a peak of %d bytes, %q, %v", name, o.Reason, o.PeakHeapBytes, o.Error, err)
		}
	}
}

// The peak is read only from the start of a line.
func TestReportedPeak(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]int64{
		"": 0,
		"daybook-v8: oom: x\ndaybook-peak-heap: 4096\n":                         4096,
		"daybook-v8: check: daybook-peak-heap: 7\ndaybook-peak-heap: 5\nmore\n": 5,
		"daybook-v8: check: daybook-peak-heap: 7\n":                             0,
		"daybook-peak-heap: -1\n":                                               0,
		"daybook-peak-heap: 99999999999999999999\n":                             0,
		"daybook-peak-heap: \n":                                                 0,
	} {
		if got := worker.ReportedPeak(stderr); got != want {
			t.Errorf("%q: a peak of %d, want %d", stderr, got, want)
		}
	}
}
