package budget

import "slices"

// line holds the large answers that wait for memory. Without it, smaller answers would
// take all returned memory, and a large answer would never get enough.
type line struct {
	waiters []*waiter
	// turns counts the ended waits. last holds the turn in which the last wait of a
	// tenant ended.
	turns uint64
	last  map[string]uint64
	// next is the waiter whose turn it is, or nil. It is valid if isNextKnown is set.
	// It is cached because each waiter reads it whenever memory becomes free.
	next        *waiter
	isNextKnown bool
}

// waiter is an answer that waits for memory.
type waiter struct {
	tenant string
	need   int64 // in bytes, without what it took after its wait
	queued bool
}

// maxLast bounds last.
const maxLast = 4096

// queue adds a waiter for n bytes. Small answers are not queued: they take what is
// free.
func (a *holding) queue(w *waiter, n int64) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	w.need = n
	if !w.queued && n > b.smallLimit() {
		w.queued = true
		b.waitLine.waiters = append(b.waitLine.waiters, w)
	}
	a.waiter, b.waitLine.isNextKnown = w, false
}

// leave removes a waiter that got its memory or was refused. The other tenants that wait
// have their turns before the tenant of this waiter has another one.
func (a *holding) leave(w *waiter) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.waiter == w {
		a.waiter = nil
	}
	if !w.queued {
		return
	}
	l := &b.waitLine
	at := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, at, at+1)
	if l.last == nil || len(l.last) >= maxLast {
		l.last = map[string]uint64{}
	}
	l.turns++
	l.last[w.tenant], l.isNextKnown = l.turns, false
	close(b.freed)
	b.freed = make(chan struct{})
}

// noteTaken subtracts n taken bytes from what is kept for the answer, so that they are not
// kept twice. The caller must hold mu.
func (a *holding) noteTaken(n int64) {
	if w := a.waiter; w != nil {
		w.need = max(0, w.need-n)
	}
	a.b.waitLine.isNextKnown = false
}

// claimedBy returns how many of the free bytes are kept for the waiter whose turn it is,
// or 0 if that is one of the tenant itself. The caller must hold mu.
func (b *Budget) claimedBy(tenant string) int64 {
	l := &b.waitLine
	if !l.isNextKnown {
		l.next, l.isNextKnown = b.nextWaiter(), true
	}
	if l.next == nil || l.next.tenant == tenant {
		return 0
	}
	return l.next.need
}

// nextWaiter returns the waiter whose turn it is, or nil. It chooses the tenant whose
// last wait ended first. A tenant that waits because of its own answers gets no turn.
// The caller must hold mu.
func (b *Budget) nextWaiter() *waiter {
	var next *waiter
	for _, w := range b.waitLine.waiters {
		if own := b.tenants[w.tenant]; w.need == 0 || own > 0 && 2*(own+w.need) > b.opts.Answers {
			continue
		}
		if next == nil || b.waitLine.last[w.tenant] < b.waitLine.last[next.tenant] {
			next = w
		}
	}
	return next
}
