package worker_test

import (
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// Stateless runs of a tenant share a worker and its isolate, and no run shows what an earlier one
// did: not after an error, a time limit or another heap limit either.
func TestStatelessRunsShareNothing(t *testing.T) {
	p := worker.New(worker.Options{Idle: 1})
	defer p.Close()
	run := func(code string, heapLimit int64, timeout time.Duration) runner.Outcome {
		t.Helper()
		o, err := p.Run(t.Context(), runner.Task{
			Tenant: "a", Code: []byte(code), Timeout: timeout, HeapLimitBytes: heapLimit,
			ArrayBufferLimitBytes: 16 << 20, Start: time.Unix(1_700_000_000, 0),
		}, discard)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const probe = `let n = 0; const f = () => { n++; f() }; try { f() } catch {}
		new Uint8Array(15 << 20); [typeof left, [].left, Math.random(), Date.now(), n, Error.stackTraceLimit].join()`
	want := run(probe, 64<<20, time.Minute)
	if want.Status != events.StatusCompleted {
		t.Fatalf("%+v", want)
	}
	for name, before := range map[string]string{
		"globals":       "globalThis.left = 1; Array.prototype.left = 2; Error.stackTraceLimit = 3",
		"an error":      "setInterval(() => { globalThis.left = 1 }, 1); throw new Error('x')",
		"buffers":       "globalThis.left = new Uint8Array(15 << 20)",
		"a time limit":  "globalThis.left = 1; for (;;) {}",
		"no memory":     "globalThis.left = []; for (;;) left.push(new Array(1000).fill(1.5))",
		"syntax error":  "let left = ",
		"TypeScript":    "const left: number = 1; enum E { A } left",
		"finalizers":    "new FinalizationRegistry(() => { for (;;) {} }).register({}, 1)",
		"a memory":      "new WebAssembly.Memory({initial: 100})",
		"never settles": "await new Promise(() => {})",
	} {
		for _, heapLimit := range []int64{64 << 20, 32 << 20} {
			run(before, heapLimit, time.Second)
			got := run(probe, 64<<20, time.Minute)
			if got.Status != want.Status || value(got) != value(want) {
				t.Errorf("after %s: %s %s, want %s", name, got.Status, value(got), value(want))
			}
		}
	}
}
