package worker_test

import (
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
)

// BenchmarkHostCall measures a call from JavaScript to the parent and back, with a host that answers
// at once. A run makes 1,000 calls, one after another.
func BenchmarkHostCall(b *testing.B) {
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const calls = 1000
	for b.Loop() {
		o, err := pool.Run(b.Context(), calling("for (let n = 0; n < 1000; n++) await mcp.files.read({ n })", &script{answer: echo}), discard)
		if err != nil || o.Status != events.StatusCompleted {
			b.Fatalf("%s %s, %v", o.Status, o.Error, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/calls, "µs/call")
}
