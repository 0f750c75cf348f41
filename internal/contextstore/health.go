package contextstore

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"daybook/events"
)

// Health is the documented answer of health_check.
type Health struct {
	// Status is "healthy" or "degraded".
	Status       string      `json:"status"`
	ContextStore StoreHealth `json:"context_store"`
	Timestamp    string      `json:"timestamp"`
}

// StoreHealth is the state of the contexts.
type StoreHealth struct {
	SessionCount    int   `json:"session_count"`
	MaxSessions     int   `json:"max_sessions"`
	HeapUsedMB      int64 `json:"heap_used_mb"`
	HeapPressurePct int64 `json:"heap_pressure_pct"`
	// StoreOK tells whether the ledger and what is read of it can serve. RedisOK is
	// the same under the name that alerts are set up for.
	StoreOK bool `json:"store_ok"`
	RedisOK bool `json:"redis_ok"`
}

// Degraded reports whether something needs to be looked at.
func (h Health) Degraded() bool { return h.Status != healthy }

const (
	healthy  = "healthy"
	degraded = "degraded"
	// healthWait bounds how long a store may take to say that it is well.
	healthWait = time.Second
	// pressureLimit is the part of the high water from which it is too high.
	pressureLimit = 0.9
)

// Health tells how the contexts are, within a second.
func (s *Store) Health(ctx context.Context) Health {
	used := s.opts.HeapBytes()
	pressure := float64(used) / float64(s.opts.HighWaterBytes)
	sessions, ok := s.Stats().Sessions, s.storeOK(ctx)
	h := Health{Status: healthy, Timestamp: events.FormatTime(s.opts.Now()), ContextStore: StoreHealth{
		SessionCount: sessions, MaxSessions: s.opts.MaxSessions,
		HeapUsedMB: int64(math.Round(float64(used) / (1 << 20))), HeapPressurePct: int64(math.Round(pressure * 100)),
		StoreOK: ok, RedisOK: ok,
	}}
	// A full cache is no fault: a context that it drops is read again from the ledger.
	if !ok || pressure > pressureLimit {
		h.Status = degraded
	}
	return h
}

// storeOK asks the store, which may hang.
func (s *Store) storeOK(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, healthWait)
	defer stop()
	answer := make(chan error, 1)
	go func() { answer <- s.opts.Check(ctx) }()
	select {
	case err := <-answer:
		return err == nil
	case <-ctx.Done():
		return false
	}
}

// Stats is what a Store has done and holds.
type Stats struct {
	// Sessions is how many contexts are held in memory, Bytes how much they take,
	// about.
	Sessions int
	Bytes    int64
	// Evictions counts the contexts dropped from memory, by reason; all are there.
	Evictions map[Eviction]int64
	// Reads counts reads, ReadMillis is how long they took in all, and ReadBuckets
	// how many took up to so many milliseconds.
	Reads       uint64
	ReadMillis  float64
	ReadBuckets map[float64]uint64
}

// Stats returns what the Store has done so far.
func (s *Store) Stats() Stats {
	s.cache.mu.Lock()
	st := Stats{Sessions: s.cache.order.Len(), Bytes: s.cache.bytes, Evictions: maps.Clone(s.cache.evicted)}
	s.cache.mu.Unlock()
	st.Reads, st.ReadMillis, st.ReadBuckets = s.latency.read()
	return st
}

// latencyBounds are the upper bounds of the histogram, in milliseconds: reads
// from memory take microseconds.
var latencyBounds = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000}

// latency is a histogram. The zero value is ready to use.
type latency struct {
	counts [16]atomic.Uint64 // one for each bound, and one above
	nanos  atomic.Int64
}

func (l *latency) observe(d time.Duration) {
	i, _ := slices.BinarySearch(latencyBounds, float64(d)/float64(time.Millisecond))
	l.counts[i].Add(1)
	l.nanos.Add(int64(d))
}

func (l *latency) read() (count uint64, millis float64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	for i, bound := range latencyBounds {
		count += l.counts[i].Load()
		buckets[bound] = count
	}
	count += l.counts[len(latencyBounds)].Load()
	return count, float64(l.nanos.Load()) / float64(time.Millisecond), buckets
}
