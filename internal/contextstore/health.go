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

// Health is the answer of the tool health_check.
type Health struct {
	// Status is "healthy" or "degraded".
	Status       string      `json:"status"`
	ContextStore StoreHealth `json:"context_store"`
	Timestamp    string      `json:"timestamp"`
}

// StoreHealth is the state of the context store.
type StoreHealth struct {
	SessionCount    int   `json:"session_count"`
	MaxSessions     int   `json:"max_sessions"`
	HeapUsedMB      int64 `json:"heap_used_mb"`
	HeapPressurePct int64 `json:"heap_pressure_pct"`
	// StoreOK reports whether the ledger and the projections can serve. RedisOK has the
	// same value, under the name that existing alerts use.
	StoreOK bool `json:"store_ok"`
	RedisOK bool `json:"redis_ok"`
}

// Degraded reports whether an operator has to act.
func (h Health) Degraded() bool { return h.Status != healthy }

const (
	healthy  = "healthy"
	degraded = "degraded"
	// healthTimeout bounds Options.Check.
	healthTimeout = time.Second
	// pressureLimit is the part of HighWaterBytes above which the store is degraded.
	pressureLimit = 0.9
)

// Health returns the state of the context store, within a second.
func (s *Store) Health(ctx context.Context) Health {
	used := s.opts.HeapBytes()
	pressure := float64(used) / float64(s.opts.HighWaterBytes)
	sessions, ok := s.Stats().Sessions, s.storeOK(ctx)
	h := Health{Status: healthy, Timestamp: events.FormatTime(s.opts.Now()), ContextStore: StoreHealth{
		SessionCount: sessions, MaxSessions: s.opts.MaxSessions,
		HeapUsedMB: int64(math.Round(float64(used) / (1 << 20))), HeapPressurePct: int64(math.Round(pressure * 100)),
		StoreOK: ok, RedisOK: ok,
	}}
	// A full cache is no fault: an evicted context is read again from the projections.
	if !ok || pressure > pressureLimit {
		h.Status = degraded
	}
	return h
}

func (s *Store) storeOK(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, healthTimeout)
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

// Stats are the statistics of a Store since its start.
type Stats struct {
	// Sessions is the number of contexts in memory, Bytes their approximate size.
	Sessions int
	Bytes    int64
	// Evictions counts the contexts dropped from memory, by reason. Each reason has an
	// entry.
	Evictions map[Eviction]int64
	// Reads counts reads. ReadMillis is their total duration in milliseconds.
	// ReadBuckets maps a duration in milliseconds to the number of reads that took at
	// most as long.
	Reads       uint64
	ReadMillis  float64
	ReadBuckets map[float64]uint64
}

// Stats returns the current statistics.
func (s *Store) Stats() Stats {
	s.cache.mu.Lock()
	st := Stats{Sessions: s.cache.order.Len(), Bytes: s.cache.bytes, Evictions: maps.Clone(s.cache.evicted)}
	s.cache.mu.Unlock()
	st.Reads, st.ReadMillis, st.ReadBuckets = s.latency.read()
	return st
}

// latencyBounds are the upper bounds of the histogram's buckets, in milliseconds. Reads
// from memory take microseconds.
var latencyBounds = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000}

// latency is a histogram. The zero value is ready to use.
type latency struct {
	counts [16]atomic.Uint64 // one per bound, and one for longer reads
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
