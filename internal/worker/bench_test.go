package worker_test

import (
	"context"
	"testing"
	"time"

	"daybook/internal/worker"
)

func discard(context.Context, []worker.Line) error { return nil }

func benchmarkRun(b *testing.B, stateful bool) {
	p := worker.New(worker.Options{Idle: 1, MaxRuns: 1 << 30})
	defer p.Close()
	task := worker.Task{
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
		if err != nil || o.Status != worker.StatusCompleted {
			b.Fatalf("%+v %v", o, err)
		}
	}
}

// BenchmarkStateful is a warm run of 1+1 with a heap in the end. Compare it with
// BenchmarkCycle of internal/v8.
func BenchmarkStateful(b *testing.B) { benchmarkRun(b, true) }

// BenchmarkStateless is a warm run of 1+1 without.
func BenchmarkStateless(b *testing.B) { benchmarkRun(b, false) }
