package runner_test

import (
	"context"
	"sync"
	"testing"

	"daybook/events"
	"daybook/runner"
)

// Workers learn which heaps the next run is likely to start from, and under which key they are
// stored.
func TestHeapsOfSessionsMayBeRestoredAhead(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	var mu sync.Mutex
	var tasks []runner.Task
	var stored []string
	b.startRunner(b.options(workers{func(_ context.Context, task runner.Task, _ sink) (runner.Outcome, error) {
		mu.Lock()
		defer mu.Unlock()
		tasks = append(tasks, task)
		o := completed("1")
		o.Heap = append(append([]byte{}, task.Heap...), task.Code...)
		o.HeapStored = func(key string) {
			mu.Lock()
			defer mu.Unlock()
			stored = append(stored, key)
		}
		return o, nil
	}}))
	b.waitForEnd(b.submit()) // its heap is not likely to be used
	session := b.session("ahead")
	var keys []string
	for _, code := range []string{"1 ", "2 ", "3 "} {
		_, end := b.waitForEnd(b.turn(session, code))
		keys = append(keys, end.Heap.SHA256)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(tasks) != 4 || len(stored) != 4 {
		t.Fatalf("%d runs, %d stored heaps", len(tasks), len(stored))
	}
	if tasks[0].RestoreAhead || tasks[0].HeapKey != "" {
		t.Errorf("a run of no session may be continued: %+v", tasks[0])
	}
	for i, task := range tasks[1:] {
		want := ""
		if i > 0 {
			want = keys[i-1]
		}
		if !task.RestoreAhead || task.HeapKey != want || task.HeapKey != "" && events.Hash(task.Heap) != want {
			t.Errorf("turn %d: restored ahead %t, key %q, want %q", i+1, task.RestoreAhead, task.HeapKey, want)
		}
		if stored[i+1] != keys[i] {
			t.Errorf("turn %d: stored as %q, want %q", i+1, stored[i+1], keys[i])
		}
	}
}
