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
}

// waiter is one answer that waits.
type waiter struct {
	tenant string
	need   int64 // in bytes
	queued bool
}

// maxLast bounds the tenants whose last turn is known.
const maxLast = 4096

// queue adds a waiter of n bytes. A small one needs no place: it takes what is free.
func (b *Budget) queue(w *waiter, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.need = n
	if !w.queued && n > b.small() {
		w.queued = true
		b.line.waiters = append(b.line.waiters, w)
	}
}

// leave removes a waiter that has its memory, or was refused. Then it is the turn of
// another tenant.
func (b *Budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
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
	l.last[w.tenant] = l.turns
	close(b.freed)
	b.freed = make(chan struct{})
}

// claimed returns how much of the free memory is kept for the waiter whose turn it is,
// unless it is of the tenant itself. It is the turn of the tenant whose last wait ended
// first. A tenant whose own answers are in its way has no turn. The caller must hold mu.
func (b *Budget) claimed(tenant string) int64 {
	var first *waiter
	for _, w := range b.line.waiters {
		if own := b.tenants[w.tenant]; own > 0 && 2*(own+w.need) > b.opts.Answers {
			continue
		}
		if first == nil || b.line.last[w.tenant] < b.line.last[first.tenant] {
			first = w
		}
	}
	if first == nil || first.tenant == tenant {
		return 0
	}
	return first.need
}
