package ledger

import "sync"

// tagged remembers, by heap, the position up to which the tag edits of the heap were
// looked at and understood. Forgetting it costs only reads.
type tagged struct {
	mu sync.Mutex
	by map[string]uint64 // guarded by mu
}

// maxTagged bounds the heaps that tagged remembers.
const maxTagged = 10_000

// upTo returns the position, 0 if it is not known.
func (t *tagged) upTo(tenant, heap string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[tenant+" "+heap]
}

// advance notes that the edits up to a position were looked at.
func (t *tagged) advance(tenant, heap string, position uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tenant + " " + heap
	if _, known := t.by[key]; t.by == nil || !known && len(t.by) >= maxTagged {
		t.by = map[string]uint64{}
	}
	t.by[key] = max(t.by[key], position)
}
