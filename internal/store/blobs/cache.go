package blobs

import (
	"container/list"
	"sync"
	"time"

	"daybook/events"
)

// unpackedBytes bounds the heaps that the cache also keeps unpacked, the newest:
// the heap that a run leaves is usually the one that the next run restores.
const unpackedBytes = 8 << 20

// blobCache keeps the heaps used last in memory, in their packed form, up to a
// number of bytes. Blobs never change; one that this process removes is dropped.
type blobCache struct {
	limit int64
	// onUse, if set, receives the bytes that the cache holds after each change.
	onUse func(int64)

	mu       sync.Mutex
	used     int64      // guarded by mu; bytes of packed forms
	unpacked int64      // guarded by mu; bytes of unpacked forms
	order    *list.List // of *cachedBlob, most recently used first
	newest   *list.List // of *cachedBlob, those kept unpacked, most recently used first
	named    map[string]*cachedBlob
}

type cachedBlob struct {
	keptHeap
	name string
	// pinnedAt is when this process last made sure that the blob stays, usedAt when the
	// heap was last read or stored.
	pinnedAt           time.Time
	usedAt             time.Time
	subjectFunc, fresh *list.Element // fresh is nil where only the packed form is kept
}

// keptHeap is a heap as the cache keeps it. Its bytes are shared and MUST NOT be
// changed.
type keptHeap struct {
	packed []byte
	base   string // hash of the heap it is packed against; empty for none
	info   events.HeapInfo
	// blob is the heap, nil where only the packed form is kept.
	blob []byte
}

func newBlobCache(limit int64, onUse func(int64)) *blobCache {
	if onUse == nil {
		onUse = func(int64) {}
	}
	return &blobCache{limit: limit, onUse: onUse, order: list.New(), newest: list.New(), named: map[string]*cachedBlob{}}
}

// get returns a heap that was checked against its hash before it was kept.
func (c *blobCache) get(name string) (keptHeap, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.named[name]
	if !ok {
		return keptHeap{}, false
	}
	b.usedAt = time.Now()
	c.order.MoveToFront(b.subjectFunc)
	if b.fresh != nil {
		c.newest.MoveToFront(b.fresh)
	}
	return b.keptHeap, true
}

// put keeps a heap whose hash was checked, unless its packed form alone would take
// more than a quarter of the space.
func (c *blobCache) put(name string, h keptHeap) {
	if c.limit <= 0 || int64(len(h.packed)) > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.named[name]
	if !ok {
		b = &cachedBlob{name: name, keptHeap: h}
		b.blob = nil
		b.subjectFunc = c.order.PushFront(b)
		c.named[name] = b
		c.used += int64(len(h.packed))
	}
	b.usedAt = time.Now()
	c.order.MoveToFront(b.subjectFunc)
	if h.blob != nil && b.fresh == nil && len(h.blob) <= unpackedBytes/4 {
		b.blob = h.blob
		b.fresh = c.newest.PushFront(b)
		c.unpacked += int64(len(b.blob))
	}
	for c.unpacked > min(unpackedBytes, c.limit) {
		c.dropUnpacked(c.newest.Back().Value.(*cachedBlob))
	}
	for c.used+c.unpacked > c.limit {
		c.remove(c.order.Back().Value.(*cachedBlob))
	}
	c.onUse(c.used + c.unpacked)
}

// The caller must hold mu.
func (c *blobCache) dropUnpacked(b *cachedBlob) {
	if b.fresh == nil {
		return
	}
	c.newest.Remove(b.fresh)
	c.unpacked -= int64(len(b.blob))
	b.fresh, b.blob = nil, nil
}

// The caller must hold mu.
func (c *blobCache) remove(b *cachedBlob) {
	c.dropUnpacked(b)
	c.order.Remove(b.subjectFunc)
	delete(c.named, b.name)
	c.used -= int64(len(b.packed))
}

// recentlyPinned reports whether a blob was pinned less than a duration ago.
func (c *blobCache) recentlyPinned(name string, ago time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.named[name]
	return ok && time.Since(b.pinnedAt) < ago
}

// pin notes that a blob was pinned now.
func (c *blobCache) pin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.named[name]; ok {
		b.pinnedAt = time.Now()
	}
}

// drop removes a blob.
func (c *blobCache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.named[name]; ok {
		c.remove(b)
		c.onUse(c.used + c.unpacked)
	}
}

// expire removes the blobs that were not used for a time.
func (c *blobCache) expire(unused time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dropped := false
	for oldest := c.order.Back(); oldest != nil && time.Since(oldest.Value.(*cachedBlob).usedAt) >= unused; oldest = c.order.Back() {
		c.remove(oldest.Value.(*cachedBlob))
		dropped = true
	}
	if dropped {
		c.onUse(c.used + c.unpacked)
	}
}

// clear removes all blobs.
func (c *blobCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	c.newest.Init()
	c.named = map[string]*cachedBlob{}
	c.used, c.unpacked = 0, 0
	c.onUse(0)
}
