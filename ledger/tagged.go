package ledger

import (
	"sync"

	"daybook/events"
)

// editCache caches facts about the tag edits of heaps. Without them, the ledger is read
// again.
type editCache struct {
	mu     sync.Mutex
	byHeap map[string]knownEdits // guarded by mu
}

// knownEdits is what is known about the tag edits of a heap.
type knownEdits struct {
	// upTo is the position up to which all edits are known.
	upTo uint64
	// newest is the position of the edit in force among the known ones. The tags of that
	// edit hold from the position in from. Both are 0 if no edit is known.
	newest, from uint64
}

// maxCachedEdits is the maximum number of heaps in an editCache.
const maxCachedEdits = 10_000

// upTo returns the position up to which the edits of a heap are known; 0 means unknown.
func (t *editCache) upTo(tenant, heap string) uint64 { return t.known(tenant, heap).upTo }

// beforeNewest returns a position after which the edits of a heap must be read to find
// the edit in force.
func (t *editCache) beforeNewest(tenant, heap string) uint64 {
	known := t.known(tenant, heap)
	if known.newest == 0 {
		return known.upTo
	}
	return known.newest - 1
}

func (t *editCache) known(tenant, heap string) knownEdits {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byHeap[tenant+" "+heap]
}

// advance adds the edits of a heap that are stored after one position and up to another,
// which is included. It does nothing if edits before the range may be unknown.
func (t *editCache) advance(tenant, heap string, after, upTo uint64, edits []events.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tenant + " " + heap
	known, ok := t.byHeap[key]
	if after > known.upTo || upTo <= known.upTo {
		return
	}
	if t.byHeap == nil || !ok && len(t.byHeap) >= maxCachedEdits {
		t.byHeap = map[string]knownEdits{}
	}
	known.upTo = upTo
	if newest, from := newestEdit(edits); newest.Seq != 0 && from >= known.from {
		known.newest, known.from = newest.Seq, from
	}
	t.byHeap[key] = known
}
