package budget

import "slices"

// line is the answers that wait for memory. Without it, a large answer would wait in
// vain: smaller ones take each byte that others give back.
type line struct {
	waiters []*waiter
	// turns counts the waits that have ended, and last is the turn in which one of a
	// tenant ended.
	turns uint64
	last  map[string]uint64
	// next is the waiter whose turn it is, or nil, if known is true: each waiter looks
	// at it whenever memory becomes free.
	next  *waiter
	known bool
}

// waiter is one answer that waits.
type waiter struct {
	tenant string
	need   int64 // in bytes, without what it took since it was woken
	queued bool
}

// maxLast bounds the tenants whose last turn is known.
const maxLast = 4096

// queue adds a waiter for n bytes of an answer. A small one needs no place: it takes what
// is free.
func (a *holding) queue(w *waiter, n int64) {
	b := a.b
	b.mu.Lock()
	defer b.mu.Unlock()
	w.need = n
	if !w.queued && n > b.small() {
		w.queued = true
		b.line.waiters = append(b.line.waiters, w)
	}
	a.waiter, b.line.known = w, false
}

// leave removes a waiter that has its memory, or was refused. Then it is the turn of
// another tenant.
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
	l := &b.line
	at := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, at, at+1)
	if l.last == nil || len(l.last) >= maxLast {
		l.last = map[string]uint64{}
	}
	l.turns++
	l.last[w.tenant], l.known = l.turns, false
	close(b.freed)
	b.freed = make(chan struct{})
}

// took notes that an answer has n bytes more. What it waited for is not kept for it
// twice. The caller must hold mu.
func (a *holding) took(n int64) {
	if w := a.waiter; w != nil {
		w.need = max(0, w.need-n)
	}
	a.b.line.known = false
}

// claimed returns how much of the free memory is kept for the waiter whose turn it is,
// unless it is of the tenant itself. The caller must hold mu.
func (b *Budget) claimed(tenant string) int64 {
	l := &b.line
	if !l.known {
		l.next, l.known = b.nextWaiter(), true
	}
	if l.next == nil || l.next.tenant == tenant {
		return 0
	}
	return l.next.need
}

// nextWaiter returns the waiter whose turn it is, or nil. It is the turn of the tenant
// whose last wait ended first. A tenant whose own answers are in its way has no turn. The
// caller must hold mu.
func (b *Budget) nextWaiter() *waiter {
	var next *waiter
	for _, w := range b.line.waiters {
		if own := b.tenants[w.tenant]; w.need == 0 || own > 0 && 2*(own+w.need) > b.opts.Answers {
			continue
		}
		if next == nil || b.line.last[w.tenant] < b.line.last[next.tenant] {
			next = w
		}
	}
	return next
}
