package worker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// A run can continue from a heap that fills its limit. A small script runs under the same limit and
// saves a heap, and a script that frees memory makes the heap small. No run makes it larger.
func TestFullHeapContinues(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	run := func(code string, heap []byte) runner.Outcome {
		t.Helper()
		task := patient(code)
		task.Heap, task.HeapLimitBytes, task.ArrayBufferLimitBytes = heap, 8<<20, 8<<20
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	for _, code := range []string{
		"globalThis.kept = [new Array(5 << 18).fill(1)]; for (let i = 0; i < %d; i++) kept.push(new Array(1 << 14).fill(i)); kept.length",
		"globalThis.kept = [new Array(9 << 17).fill(1)]; for (let i = 0; i < %d << 8; i++) kept.push(new Array(64).fill(i)); kept.length",
	} {
		var full []byte
		for n := 0; ; n++ {
			o := run(fmt.Sprintf(code, n), nil)
			if o.Status != events.StatusCompleted {
				if o.Reason != runner.ReasonOutOfMemory || n < 3 {
					t.Fatalf("%d pieces: %s/%s %s", n, o.Status, o.Reason, o.Error)
				}
				break
			}
			full = o.Heap
			if then := run("1", full); then.Status != events.StatusCompleted {
				t.Errorf("a run from a heap of %d bytes that completed with %d pieces: %s %s", len(full), n, then.Status, then.Error)
			}
		}
		heap := full
		for range 3 {
			o := run("kept.length + 1", heap)
			if o.Status != events.StatusCompleted || len(o.Heap) > len(heap)+4<<10 {
				t.Fatalf("a heap of %d bytes becomes one of %d: %s %s", len(heap), len(o.Heap), o.Status, o.Error)
			}
			heap = o.Heap
		}
		for _, empty := range []int{500_000, 560_000, 620_000} { // empty elements take no space in the saved heap
			o := run(fmt.Sprintf("kept.push(new Array(%d)); 0", empty), full)
			if o.Status != events.StatusCompleted {
				if o.Reason != runner.ReasonOutOfMemory || o.Heap != nil {
					t.Errorf("a run with an array of %d empty elements: %s/%s, a heap of %d bytes", empty, o.Status, o.Reason, len(o.Heap))
				}
				continue
			}
			if then := run("kept.length = 0", o.Heap); then.Status != events.StatusCompleted {
				t.Errorf("a run after one that completed with an array of %d empty elements: %s %s", empty, then.Status, then.Error)
			}
		}
		for range 20 { // the last ones may be beyond the limit
			o := run("kept.push(new Array(1 << 13).fill(2)); 0", heap)
			if o.Status != events.StatusCompleted {
				if o.Reason != runner.ReasonOutOfMemory || o.Heap != nil || o.Error != worker.OutOfMemory {
					t.Errorf("a run that makes a full heap larger: %s/%s %q, a heap of %d bytes", o.Status, o.Reason, o.Error, len(o.Heap))
				}
				break
			}
			heap = o.Heap
		}
		if len(heap) > len(full)+256<<10 {
			t.Errorf("runs made a full heap of %d bytes one of %d", len(full), len(heap))
		}
		if o := run("kept.length = 0", heap); o.Status != events.StatusCompleted || len(o.Heap) > 2<<20 {
			t.Errorf("a run that frees a full heap: %s %s, %d bytes", o.Status, o.Error, len(o.Heap))
		}
	}
}

// A worker keeps the heap of a task outside Go's memory. Otherwise copies of a growing slice and
// heaps of earlier tasks would count against the memory of the run.
func TestTaskHeapLeavesNoGarbage(t *testing.T) {
	const size = 40 << 20
	header, err := json.Marshal(map[string]any{"heap_size": size, "stateful": true})
	if err != nil {
		t.Fatal(err)
	}
	var frames bytes.Buffer
	frames.Grow(size + 1<<10)
	if err := worker.WriteBody(&frames, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, _, heap, err := worker.ReadTask(header, frames.Bytes())
	runtime.ReadMemStats(&after)
	if err != nil || heap != size {
		t.Fatalf("%d bytes of heap, %v", heap, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("a heap of %d MiB takes %d MiB of Go's memory", size>>20, used>>20)
	}
}
