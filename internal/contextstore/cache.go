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

// entry is a context in use or held in memory.
type entry struct {
	key  Key
	text string // key.String()

	// The store's lock guards these.
	users   int           // who holds or wants mu
	place   *list.Element // by last use
	size    int64         // as counted
	usedAt  time.Time
	running bool
	dirty   bool // something noted is not on record yet
	dropped bool

	// mu serializes work on the context. It holds a value while it is locked.
	mu      chan struct{}
	state   *projections.ContextState // nil until read
	changed <-chan struct{}
	stop    func()
	pending pending
	// fresh is when a context that nothing is on record of came to be.
	fresh time.Time
	// asked is when a run was last asked for in the context.
	asked time.Time
	// recorded is the position of what was noted last, 0 once it was waited for.
	recorded uint64
}

// overhead is what an entry takes besides its content, about, in bytes: its
// structures, its place in two maps and in the list, and its signal.
const overhead = 1 << 10

// cache holds contexts by key, the most recently used first.
type cache struct {
	mu      sync.Mutex
	entries map[string]*entry // by key on record, which holds tenant and kind
	order   *list.List        // of *entry
	bytes   int64
	dirty   map[*entry]struct{} // those with something to record
	evicted map[Eviction]int64
}

// Eviction is why a context was dropped from memory.
type Eviction string

// The reasons, as metrics name them.
const (
	EvictedIdle     Eviction = "idle"
	EvictedLRU      Eviction = "lru"
	EvictedPressure Eviction = "memory_pressure"
)

// acquire returns the entry of a key, locked. release must follow.
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
		e.place = c.order.PushFront(e)
		c.entries[text] = e
		c.resize(e, overhead)
		s.evictOverLimit(e)
	}
	e.users++
	c.order.MoveToFront(e.place)
	c.mu.Unlock()
	select {
	case e.mu <- struct{}{}:
	case <-ctx.Done():
		s.leave(e)
		return nil, s.unavailable("use the context", ctx.Err())
	}
	if err := ctx.Err(); err != nil {
		s.release(e)
		return nil, err
	}
	return e, nil
}

// leave is release for a caller that does not hold the entry.
func (s *Store) leave(e *entry) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	e.users--
	if !e.dropped {
		s.evictOverLimit(e)
	}
}

// acquireExisting locks an entry without using its context. It reports false for one that
// is there no more; else release must follow.
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

// release unlocks an entry, and makes room if it has grown.
func (s *Store) release(e *entry) {
	size, running, dirty := int64(overhead), false, !e.pending.empty()
	if e.state != nil {
		// The texts are held about once more by the structures around them.
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

// resize counts an entry. c.mu is held.
func (c *cache) resize(e *entry, size int64) {
	c.bytes += size - e.size
	e.size = size
}

// evictOverLimit evicts what was not used for longest, until the bounds are kept. Contexts
// at work stay, and those with runs in progress stay if others do for it; so does
// the one that the room is made for. c.mu is held.
func (s *Store) evictOverLimit(keep *entry) {
	over := func() bool {
		return s.cache.order.Len() > s.opts.MaxSessions || s.cache.bytes > s.opts.MaxBytes
	}
	for _, alsoRunning := range []bool{false, true} {
		for at := s.cache.order.Back(); at != nil && over(); {
			e, before := at.Value.(*entry), at.Prev()
			if e != keep && (alsoRunning || !e.running) {
				s.cache.evict(e, EvictedLRU)
			}
			at = before
		}
	}
}

// evict drops an entry that nobody works on and that holds nothing of its own.
// c.mu is held.
func (c *cache) evict(e *entry, why Eviction) bool {
	if e.users > 0 || e.dirty || e.dropped {
		return false
	}
	e.dropped = true
	c.order.Remove(e.place)
	delete(c.entries, e.text)
	c.resize(e, 0)
	c.evicted[why]++
	if e.stop != nil {
		e.stop()
	}
	return true
}

// countExpired counts a context whose expiry was found when it was used: what was
// held of it is dropped as in a sweep.
func (s *Store) countExpired() {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.evicted[EvictedIdle]++
}

// evictUnderPressure drops the fifth of the contexts that was not used for longest if the
// process's heap is too large.
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

// readYourWritesTimeout is for how long what was noted in a context may be missing in what is read of
// it.
const readYourWritesTimeout = 5 * time.Second

// shownWait is how long a reader waits for what was noted, at most: a reader with less
// time has a part of it left to read the context.
func shownWait(ctx context.Context) time.Duration {
	most := 3 * time.Second
	if until, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(until)*2/3)
	}
	return most
}

// load brings the state of an entry up to what can be read. e.mu is held.
func (s *Store) load(ctx context.Context, e *entry) error {
	if e.changed == nil {
		e.changed, e.stop = s.opts.Views.Watch(e.key.Tenant, e.text)
	}
	if e.recorded != 0 && s.opts.Silent() == nil {
		// What was noted here is there for whoever comes next, unless the read side is
		// in trouble: then the context is shown as it was.
		wait, stop := context.WithTimeout(ctx, shownWait(ctx))
		err := s.opts.Views.Wait(wait, e.recorded)
		stop()
		if why := ctx.Err(); why != nil {
			return why // the next reader waits
		}
		if err != nil {
			s.opts.Logger.WarnContext(ctx, "wait for what was noted in a context", "context", e.text, "err", err)
		}
		e.recorded, e.state = 0, nil
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
		s.opts.Logger.ErrorContext(ctx, "a context is not the one asked for", "want", e.text, "have", st.Key)
		return fmt.Errorf("read context %s: %w", e.text, errMismatch)
	}
	s.hide(&st)
	e.state = &st
	s.touch(e, st.UsedAt)
	return nil
}

// newState is a context that nothing is on record of yet. That it began is noted, so
// that it comes back as it is.
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

// touch moves the time of the last use on.
func (s *Store) touch(e *entry, at time.Time) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if at.After(e.usedAt) {
		e.usedAt = at
	}
}
