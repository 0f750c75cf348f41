package contextstore

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/events"
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

// readYourWritesTimeout is the time within which readers are expected to find a
// recorded run or note.
const readYourWritesTimeout = 5 * time.Second

// readWait returns how long a reader waits until recorded notes can be read: 3 s, or
// two thirds of its remaining time if that is less. The rest is for reading the
// context.
func readWait(ctx context.Context) time.Duration {
	most := 3 * time.Second
	if until, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(until)*2/3)
	}
	return most
}

// load makes e.state the newest readable state. The caller must hold e.mu.
func (s *Store) load(ctx context.Context, e *entry) error {
	if e.changed == nil {
		e.changed, e.stop = s.opts.Views.Watch(e.key.Tenant, e.text)
	}
	if e.awaitedSeq != 0 && s.opts.Silent() == nil {
		// Wait until recorded notes can be read. If the projections are too far behind,
		// show the older state.
		wait, stop := context.WithTimeout(ctx, readWait(ctx))
		err := s.opts.Views.Wait(wait, e.awaitedSeq)
		stop()
		if why := ctx.Err(); why != nil {
			return why // the next reader waits again
		}
		if err != nil {
			s.opts.Logger.WarnContext(ctx, "waiting for the recorded notes of a context failed", "context", e.text, "err", err)
		}
		e.awaitedSeq, e.state = 0, nil
	}
	select {
	case <-e.changed:
		e.state = nil
	default:
	}
	if e.state != nil {
		return nil
	}
	st, err := s.opts.Views.Context(ctx, e.key.Tenant, e.text)
	switch {
	case errors.Is(err, events.ErrNotFound):
		st = s.newState(e)
	case err != nil:
		return err
	case st.Key != e.text || st.Kind != e.key.Kind || e.key.Kind != events.ContextSession && events.ValidHash(e.key.ID) && st.SessionID != e.key.ID:
		s.opts.Logger.ErrorContext(ctx, "a stored context has the wrong key", "want", e.text, "have", st.Key)
		return fmt.Errorf("read context %s: %w", e.text, errMismatch)
	}
	s.hideSecrets(&st)
	e.state = &st
	s.touch(e, st.UsedAt)
	return nil
}

// newState returns the state of a context that has no recorded event. It keeps the
// creation time and the id, so that the recorded context has the same ones.
func (s *Store) newState(e *entry) projections.ContextState {
	if e.fresh.IsZero() {
		e.fresh = s.opts.Now().UTC().Truncate(time.Millisecond)
	}
	if e.pending.sessionID == "" {
		e.pending.sessionID = e.key.sessionID()
	}
	at := events.FormatTime(e.fresh)
	ref := events.ContextRef{Key: e.text, SessionID: e.pending.sessionID, Kind: e.key.Kind}
	st := projections.ContextState{ContextRef: ref, UsedAt: e.fresh, Empty: true}
	st.Context = projections.NewContext(ref.SessionID, at)
	return st
}

func (s *Store) touch(e *entry, at time.Time) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if at.After(e.usedAt) {
		e.usedAt = at
	}
}
