package worker_test

import (
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// BenchmarkJIT measures computations in a run without a heap, in a run that saves its heap with the
// compiler, and in one without it, one after the other in each iteration. It reports the shortest CPU
// time of a run without a heap in milliseconds, and those of the other two as multiples of it. They
// include restoring and saving the heap.
func BenchmarkJIT(b *testing.B) {
	for _, test := range []struct{ name, code string }{
		{"nothing", `1`},
		{"fib", `function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); } fib(35)`},
		{"floats", `function floats(n) { let s = 0.5; for (let i = 1; i <= n; i++) s = s * 0.999 + Math.sqrt(i) / (i + 0.25); return s; } floats(3e7)`},
		{"matrix", `function multiply(n) {
			const a = new Float64Array(n * n).fill(1.5), b = new Float64Array(n * n).fill(0.25), c = new Float64Array(n * n);
			for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) { let s = 0; for (let k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; }
			return c[n + 1];
		} multiply(500)`},
	} {
		b.Run(test.name, func(b *testing.B) {
			pool := worker.New(worker.Options{Idle: 1, IdleUsed: 3, JIT: true, StartTimeout: time.Minute})
			defer pool.Close()
			modes := []func(*runner.Task){
				func(t *runner.Task) { t.Tenant, t.Stateful = "plain", false },
				func(t *runner.Task) { t.Tenant, t.JIT = "with", true },
				func(t *runner.Task) { t.Tenant = "without" },
			}
			shortest := make([]time.Duration, len(modes))
			for b.Loop() {
				for i, change := range modes {
					task := patient(test.code)
					change(&task)
					task.Timeout = 5 * time.Minute
					o, err := pool.Run(b.Context(), task, collect(new([]events.Line)))
					if err != nil || o.Status != events.StatusCompleted {
						b.Fatalf("%s %s, %v", o.Status, o.Error, err)
					}
					if shortest[i] == 0 || o.CPUTime < shortest[i] {
						shortest[i] = o.CPUTime
					}
				}
			}
			b.ReportMetric(float64(shortest[0].Microseconds())/1000, "plain-cpu-ms")
			b.ReportMetric(float64(shortest[1])/float64(shortest[0]), "with-of-plain")
			b.ReportMetric(float64(shortest[2])/float64(shortest[0]), "without-of-plain")
			b.ReportMetric(0, "ns/op") // the time of all together is not useful
		})
	}
}
