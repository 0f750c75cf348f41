package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

func discard(context.Context, []events.Line) error { return nil }

func benchmarkRun(b *testing.B, stateful bool) {
	p := worker.New(worker.Options{Idle: 1, MaxRuns: 1 << 30})
	defer p.Close()
	task := runner.Task{
		Tenant: "bench", Code: []byte("1+1"), Stateful: stateful, Timeout: 10 * time.Second,
		HeapLimitBytes: 64 << 20, ArrayBufferLimitBytes: 64 << 20, Start: time.Unix(1_700_000_000, 0),
	}
	for range 3 {
		if _, err := p.Run(b.Context(), task, discard); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		o, err := p.Run(b.Context(), task, discard)
		if err != nil || o.Status != events.StatusCompleted {
			b.Fatalf("%+v %v", o, err)
		}
	}
}

// BenchmarkStateful measures a run of 1+1 in a warm worker that saves the heap. Compare it with
// BenchmarkCycle of internal/exec/v8.
func BenchmarkStateful(b *testing.B) { benchmarkRun(b, true) }

// BenchmarkStateless measures a run of 1+1 in a warm worker that saves no heap.
func BenchmarkStateless(b *testing.B) { benchmarkRun(b, false) }

// BenchmarkTypeScript measures a stateful run of 100 lines of TypeScript. As the floor it measures,
// in the same iteration, a run of the same source without types.
func BenchmarkTypeScript(b *testing.B) {
	for name, lines := range map[string][2]string{
		"erased":  {"const f%d = (a: number, b?: string): string => `${a}${b ?? ''}`;\n", "const f%d = (a, b) => `${a}${b ?? ''}`;\n"},
		"lowered": {"enum E%[1]d { A, B = 'b' }\n", "const E%[1]d = { 0: 'A', A: 0, B: 'b' };\n"},
	} {
		b.Run(name, func(b *testing.B) {
			p := worker.New(worker.Options{Idle: 1, MaxRuns: 1 << 30})
			defer p.Close()
			var took [2][]float64
			for n := 0; b.Loop(); n++ {
				for i, line := range lines {
					var code strings.Builder
					for l := range 100 {
						fmt.Fprintf(&code, line, l)
					}
					fmt.Fprintf(&code, "%d", n)
					begin := time.Now()
					o, err := p.Run(b.Context(), runner.Task{
						Tenant: "bench", Code: []byte(code.String()), Stateful: true, Timeout: 10 * time.Second,
						HeapLimitBytes: 64 << 20, ArrayBufferLimitBytes: 64 << 20, Start: time.Unix(1_700_000_000, 0),
					}, discard)
					if err != nil || o.Status != events.StatusCompleted {
						b.Fatalf("%+v %v", o, err)
					}
					took[i] = append(took[i], ms(time.Since(begin)))
				}
			}
			typed, plain := tenth(took[0]), tenth(took[1])
			b.ReportMetric(typed, "typescript-ms")
			b.ReportMetric(plain, "javascript-ms")
			b.ReportMetric(typed/plain, "of-floor")
			b.ReportMetric(0, "ns/op") // the time of both together is not useful
		})
	}
}
