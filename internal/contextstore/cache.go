package contextstore

import (
	"container/list"
	"context"
	"sync"
	"time"

	"daybook/projections"
)

// entry is a cached context.
type entry struct {
	key  Key
	text string // key.String()

	// Guarded by cache.mu.
	users   int           // number of callers that hold mu or wait for it
	element *list.Element // in cache.order
	size    int64         // bytes counted in cache.bytes
	usedAt  time.Time
	running bool
	dirty   bool // has unrecorded notes
	dropped bool

	// mu serializes work on the context. It is locked while the channel holds a value.
	mu      chan struct{}
	state   *projections.ContextState // nil until loaded
	changed <-chan struct{}
	stop    func()
	pending pending
	// fresh is the creation time of a context that has no recorded event.
	fresh time.Time
	// lastRefAt is the time of the last Ref, which precedes a run request.
	lastRefAt time.Time
	// awaitedSeq is the position of the last recorded note. It is 0 after load has waited
	// for that position.
	awaitedSeq uint64
}

// entryOverhead is the approximate memory of an entry besides its content, in bytes: its
// structures, its elements of two maps and the list, and its signal.
const entryOverhead = 1 << 10

// cache holds contexts by key, in order of their last use.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry // by recorded key, which includes tenant and kind
	order   *list.List        // of *entry, most recently used first
	bytes   int64
	dirty   map[*entry]struct{} // with unrecorded notes
	evicted map[Eviction]int64
}

// Eviction is the reason why a context was dropped from memory.
type Eviction string

// The reasons, with their values in metrics.
const (
	EvictedIdle     Eviction = "idle"
	EvictedLRU      Eviction = "lru"
	EvictedPressure Eviction = "memory_pressure"
)

// acquire returns the entry of a key, locked. The caller must call release.
func (s *Store) acquire(ctx context.Context, k Key) (*entry, error) {
	if k.IsZero() {
		return nil, ErrNone
	}
	if s.opts.TenantScope {
		k.Principal = ""
	}
	c, text := &s.cache, k.String()
	c.mu.Lock()
	e := c.entries[text]
	if e == nil {
		e = &entry{key: k, text: text, mu: make(chan struct{}, 1)}
		e.element = c.order.PushFront(e)
		c.entries[text] = e
		c.resize(e, entryOverhead)
		s.evictOverLimit(e)
	}
	e.users++
	c.order.MoveToFront(e.element)
	c.mu.Unlock()
	select {
	case e.mu <- struct{}{}:
	case <-ctx.Done():
		s.unregister(e)
		return nil, s.clientError("use the context", ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		s.release(e)
		return nil, err
	}
	return e, nil
}

// unregister undoes the registration of a caller that did not get the lock.
func (s *Store) unregister(e *entry) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	e.users--
	if !e.dropped {
		s.evictOverLimit(e)
	}
}

// acquireExisting locks an entry without counting it as used. If it returns false, the
// entry was evicted. Otherwise the caller must call release.
func (s *Store) acquireExisting(e *entry) bool {
	s.cache.mu.Lock()
	if e.dropped {
		s.cache.mu.Unlock()
		return false
	}
	e.users++
	s.cache.mu.Unlock()
	e.mu <- struct{}{}
	return true
}

// release unlocks an entry, updates its size and evicts others over the limit.
func (s *Store) release(e *entry) {
	size, running, dirty := int64(entryOverhead), false, !e.pending.isEmpty()
	if e.state != nil {
		// The structures around the texts take about as much memory as the texts.
		size += 2 * int64(e.state.Bytes)
		running = e.state.Running > 0
	}
	size += e.pending.bytes
	c := &s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	<-e.mu
	e.users--
	if e.running, e.dirty = running, dirty; dirty {
		c.dirty[e] = struct{}{}
	} else {
		delete(c.dirty, e)
	}
	if !e.dropped {
		c.resize(e, size)
		s.evictOverLimit(e)
	}
}

// resize updates the counted size of an entry. The caller must hold c.mu.
func (c *cache) resize(e *entry, size int64) {
	c.bytes += size - e.size
	e.size = size
}

// evictOverLimit evicts the least recently used contexts until the cache is within its
// limits. It evicts neither keep nor contexts that are in use. It evicts contexts with
// running executions only if no other context is left. The caller must hold cache.mu.
func (s *Store) evictOverLimit(keep *entry) {
	isOverLimit := func() bool {
		return s.cache.order.Len() > s.opts.MaxSessions || s.cache.bytes > s.opts.MaxBytes
	}
	for _, alsoRunning := range []bool{false, true} {
		for at := s.cache.order.Back(); at != nil && isOverLimit(); {
			e, before := at.Value.(*entry), at.Prev()
			if e != keep && (alsoRunning || !e.running) {
				s.cache.evict(e, EvictedLRU)
			}
			at = before
		}
	}
}

// evict drops an entry that is not in use and has no unrecorded notes, and reports
// whether it did. The caller must hold c.mu.
func (c *cache) evict(e *entry, why Eviction) bool {
	if e.users > 0 || e.dirty || e.dropped {
		return false
	}
	e.dropped = true
	c.order.Remove(e.element)
	delete(c.entries, e.text)
	c.resize(e, 0)
	c.evicted[why]++
	if e.stop != nil {
		e.stop()
	}
	return true
}

// countExpired counts an expiry that a call detects, as sweeps count theirs.
func (s *Store) countExpired() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.evicted[EvictedIdle]++
}

// evictUnderPressure drops the least recently used fifth of the contexts if the Go heap
// exceeds its limit.
func (s *Store) evictUnderPressure() (dropped int) {
	if s.opts.HeapBytes() < s.opts.HighWaterBytes {
		return 0
	}
	c := &s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	want := (c.order.Len() + 4) / 5
	for at := c.order.Back(); at != nil && dropped < want; {
		e, before := at.Value.(*entry), at.Prev()
		if !e.running && c.evict(e, EvictedPressure) {
			dropped++
		}
		at = before
	}
	return dropped
}

func (s *Store) touch(e *entry, at time.Time) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if at.After(e.usedAt) {
		e.usedAt = at
	}
}
