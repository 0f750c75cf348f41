package retention_test

import (
	"fmt"
	"testing"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
)

// BenchmarkPass measures a pass over 100,000 heaps that collects none.
func BenchmarkPass(b *testing.B) {
	const heaps = 100_000
	h := open(b)
	for i := range heaps {
		id := events.DerivedID(tenant, fmt.Sprint(i))
		h.append(tenant, month/2, &events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "1 + 1"}})})
		h.ended(tenant, month/2, events.ExecutionRequested{ExecutionID: id}, fmt.Sprint("heap ", i))
	}
	pass := retention.Pass{Rule: rule, Actor: actor, DryRun: true}
	for b.Loop() {
		r, err := h.service.Collect(b.Context(), pass)
		if err != nil || r.Heaps != heaps || r.Collected != 0 {
			b.Fatalf("%+v, %v", r, err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/pass")
}

// BenchmarkCollect collects 2,000 heaps without waiting for the disk.
func BenchmarkCollect(b *testing.B) {
	const heaps = 2000
	for b.Loop() {
		b.StopTimer()
		h := open(b)
		for i := range heaps {
			h.ran(tenant, 2*month, events.ExecutionRequested{ExecutionID: events.DerivedID(tenant, fmt.Sprint(i))}, fmt.Sprint("heap ", i))
		}
		b.StartTimer()
		if r := h.collect(rule); r.Collected != heaps {
			b.Fatalf("%+v", r)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/heaps*1e6, "µs/heap")
}
