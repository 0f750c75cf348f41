package worker_test

import (
	"bytes"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// Workers that received their base heap save the same heaps, byte for byte, as the worker that
// created it.
func TestGivenBaseHeapsGiveEqualHeaps(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	for _, code := range []string{
		"",
		"globalThis.n = 1",
		"class A { #x = 1; get x() { return this.#x } }; globalThis.a = new A; globalThis.f = (s => () => s++)(0); console.log(a, f())",
		"globalThis.m = new Map([[{a: 1}, new Set([1n, Symbol.iterator])]]); setTimeout(() => {}, 1); enum E { A = 1 }; E.A",
		"globalThis.g = (function* () { yield 1; yield 2 })(); g.next(); new Intl.NumberFormat('de').format(1.5)",
	} {
		run := func(p *worker.Pool, heap []byte) runner.Outcome {
			t.Helper()
			task := patient(code)
			task.Heap = heap
			o, err := p.Run(t.Context(), task, discard)
			if err != nil || o.Status != events.StatusCompleted {
				t.Fatalf("%q: %+v, %v", code, o, err)
			}
			return o
		}
		maker := worker.New(worker.Options{Idle: -1}) // its first worker creates the heap
		made, given, again := run(maker, nil), run(maker, nil), run(pool, nil)
		if !bytes.Equal(made.Heap, given.Heap) || !bytes.Equal(made.Heap, again.Heap) {
			t.Errorf("%q leaves different heaps: %d, %d and %d bytes", code, len(made.Heap), len(given.Heap), len(again.Heap))
		}
		// Each of them restores a heap that the other one saved.
		if later := run(maker, made.Heap); !bytes.Equal(later.Heap, run(pool, given.Heap).Heap) {
			t.Errorf("%q resumed leaves different heaps", code)
		}
		if err := maker.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Only the first worker of a kind creates a base heap, even if many start at the same time.
func TestOneWorkerCreatesTheBaseHeap(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		pool := worker.New(worker.Options{Idle: 6, Stateless: stateless})
		defer pool.Close()
		if _, err := pool.Engine(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "all workers are ready", func() bool { return len(pool.IdleWorkers()) >= 6 })
		if made, received := pool.BaseHeaps(); made != 1 || received < 5 {
			t.Errorf("stateless %t: %d workers made a base heap, %d received one; want 1 and 5 or more", stateless, made, received)
		}
	}
}

// If the worker that should create the base heap fails, the next one creates it.
func TestNextWorkerCreatesTheBaseHeap(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"not ready", "huge base heap", "more base heap than announced", "less base heap than announced"} {
		pool := hostilePool(t, how)
		if _, err := pool.Engine(t.Context(), true); err == nil || !strings.Contains(err.Error(), "broke protocol") && !strings.Contains(err.Error(), "read the base heap") {
			t.Errorf("%s: %v", how, err)
		}
		pool.UseProgram("/proc/self/exe", worker.WorkerArgs(2<<30)...)
		if o, err := pool.Run(t.Context(), patient("6 * 7"), discard); err != nil || o.Result == nil || *o.Result != "42" {
			t.Errorf("after %s: %+v, %v", how, o, err)
		}
	}
}
