package ledger

import (
	"sync"

	"daybook/events"
)

// tagged caches what is known about the tag edits of heaps. Dropping it costs only
// reads.
type tagged struct {
	mu sync.Mutex
	by map[string]knownEdits // guarded by mu
}

// knownEdits is what is known about the tag edits of a heap.
type knownEdits struct {
	// upTo is the position up to which all edits are known.
	upTo uint64
	// newest is the position of the edit in force among the known ones, and from the
	// position from which it holds; 0 means none.
	newest, from uint64
}

// maxTagged is the maximum number of heaps in tagged.
const maxTagged = 10_000

// upTo returns the position up to which the edits of a heap are known; 0 means unknown.
func (t *tagged) upTo(tenant, heap string) uint64 { return t.known(tenant, heap).upTo }

// beforeNewest returns a position after which the edits of a heap must be read to find
// the edit in force.
func (t *tagged) beforeNewest(tenant, heap string) uint64 {
	known := t.known(tenant, heap)
	if known.newest == 0 {
		return known.upTo
	}
	return known.newest - 1
}

func (t *tagged) known(tenant, heap string) knownEdits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.by[tenant+" "+heap]
}

// advance adds the edits of a heap that are stored after one position and up to another,
// which is included. It does nothing if edits before the range may be unknown.
func (t *tagged) advance(tenant, heap string, after, upTo uint64, edits []events.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tenant + " " + heap
	known, ok := t.by[key]
	if after > known.upTo || upTo <= known.upTo {
		return
	}
	if t.by == nil || !ok && len(t.by) >= maxTagged {
		t.by = map[string]knownEdits{}
	}
	known.upTo = upTo
	if newest, from := newestEdit(edits); newest.Seq != 0 && from >= known.from {
		known.newest, known.from = newest.Seq, from
	}
	t.by[key] = known
}
