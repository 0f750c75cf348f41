package httpapi_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
)

// BenchmarkWait measures the time from the moment when the end of a run can be read to
// the response of a client that waits for it. The floor is a plain read of the same
// execution in the same iteration: the response costs one such read. The run writes
// just before its end, as most runs do.
func BenchmarkWait(b *testing.B) {
	var reads atomic.Int64
	s := start(b, func(o *httpapi.Options) { o.Queries = countingQueries{o.Queries, &reads} })
	var delays, floors []time.Duration
	for b.Loop() {
		id := s.submit(`{"code":"1"}`)
		a := s.begin(id)
		ended, stop := s.q.WatchEnd(events.DefaultTenant, id)
		readable, answered := make(chan time.Time, 1), make(chan time.Time, 1)
		go func() { <-ended; readable <- time.Now() }()
		before := reads.Load()
		go func() {
			s.do(http.MethodGet, "/api/executions/"+id+"?wait=60", "").into(b, http.StatusOK, nil)
			answered <- time.Now()
		}()
		for reads.Load() == before {
			time.Sleep(100 * time.Microsecond)
		}
		a.print("a line")
		a.print("another line")
		a.finish(events.StatusCompleted, "2", "")
		delays = append(delays, max(0, (<-answered).Sub(<-readable)))
		stop()
		from := time.Now()
		s.do(http.MethodGet, "/api/executions/"+id+"?wait=0", "").into(b, http.StatusOK, nil)
		floors = append(floors, time.Since(from))
	}
	median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
	delay, floor := median(delays), median(floors)
	b.ReportMetric(float64(delay.Microseconds()), "µs-after-readable")
	b.ReportMetric(float64(floor.Microseconds()), "µs-plain-read")
	b.ReportMetric(float64(delay)/float64(floor), "of-floor")
}
