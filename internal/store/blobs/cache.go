package blobs

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"daybook/events"
)

// unpackedBytes bounds the newest heaps that the cache also keeps decoded, in bytes: a
// run usually restores the heap that the previous run left.
const unpackedBytes = 8 << 20

// blobCache keeps the most recently used heaps in memory in their encoded form, up to a
// number of bytes. Blobs never change. A blob that this process removes is dropped.
type blobCache struct {
	limit int64
	// onUse is called with the size of the cache after each change, in bytes.
	onUse func(int64)

	mu       sync.Mutex
	used     int64      // guarded by mu; bytes of encoded forms
	unpacked int64      // guarded by mu; bytes of decoded forms
	order    *list.List // of *cachedBlob, most recently used first
	newest   *list.List // of *cachedBlob, those kept decoded, most recently used first
	named    map[string]*cachedBlob
}

type cachedBlob struct {
	cachedHeap
	name string
	// pinnedAt is when this process last pinned the blob, and usedAt when the heap was
	// last read or stored.
	pinnedAt                    time.Time
	usedAt                      time.Time
	orderElement, newestElement *list.Element // elements of order and newest; newestElement is nil if only the encoded form is kept
}

// cachedHeap is a heap in the cache. Its bytes are shared and MUST NOT be changed.
type cachedHeap struct {
	packed []byte
	base   string // hash of the base heap; empty for none
	info   events.HeapInfo
	// blob is the decoded heap, or nil if only the encoded form is kept.
	blob []byte
}

func newBlobCache(limit int64, onUse func(int64)) *blobCache {
	if onUse == nil {
		onUse = func(int64) {}
	}
	return &blobCache{limit: limit, onUse: onUse, order: list.New(), newest: list.New(), named: map[string]*cachedBlob{}}
}

// get returns a heap. Its hash was verified before it was put into the cache.
func (c *blobCache) get(name string) (cachedHeap, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.named[name]
	if !ok {
		return cachedHeap{}, false
	}
	b.usedAt = time.Now()
	c.order.MoveToFront(b.orderElement)
	if b.newestElement != nil {
		c.newest.MoveToFront(b.newestElement)
	}
	return b.cachedHeap, true
}

// put keeps a heap, unless its encoded form exceeds a quarter of the limit. The caller
// MUST have verified its hash.
func (c *blobCache) put(name string, h cachedHeap) {
	if c.limit <= 0 || int64(len(h.packed)) > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.named[name]
	if !ok {
		b = &cachedBlob{name: name, cachedHeap: h}
		b.blob = nil
		b.orderElement = c.order.PushFront(b)
		c.named[name] = b
		c.used += int64(len(h.packed))
	}
	b.usedAt = time.Now()
	c.order.MoveToFront(b.orderElement)
	if h.blob != nil && b.newestElement == nil && len(h.blob) <= unpackedBytes/4 {
		b.blob = h.blob
		b.newestElement = c.newest.PushFront(b)
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
	if b.newestElement == nil {
		return
	}
	c.newest.Remove(b.newestElement)
	c.unpacked -= int64(len(b.blob))
	b.newestElement, b.blob = nil, nil
}

// The caller must hold mu.
func (c *blobCache) remove(b *cachedBlob) {
	c.dropUnpacked(b)
	c.order.Remove(b.orderElement)
	delete(c.named, b.name)
	c.used -= int64(len(b.packed))
}

// recentlyPinned reports whether less than ago has passed since this process pinned a
// cached blob.
func (c *blobCache) recentlyPinned(name string, ago time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.named[name]
	return ok && time.Since(b.pinnedAt) < ago
}

func (c *blobCache) pin(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.named[name]; ok {
		b.pinnedAt = time.Now()
	}
}

func (c *blobCache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.named[name]; ok {
		c.remove(b)
		c.onUse(c.used + c.unpacked)
	}
}

// dropPrefix removes the blobs whose names begin with a prefix.
func (c *blobCache) dropPrefix(prefix string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, b := range c.named {
		if strings.HasPrefix(name, prefix) {
			c.remove(b)
		}
	}
	c.onUse(c.used + c.unpacked)
}

// expire removes the blobs that were not used for a duration.
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

func (c *blobCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	c.newest.Init()
	c.named = map[string]*cachedBlob{}
	c.used, c.unpacked = 0, 0
	c.onUse(0)
}
