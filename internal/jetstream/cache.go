package jetstream

import (
	"container/list"
	"sync"
	"time"

	"daybook/events"
)

// blobCache keeps the heaps used last in memory, up to a number of bytes: the
// heap a run leaves is usually the one the next run restores. Blobs never
// change; one that this process removes is dropped.
type blobCache struct {
	limit int64

	mu    sync.Mutex
	used  int64
	order *list.List // of *cachedBlob, most recently used first
	named map[string]*list.Element
}

type cachedBlob struct {
	name string
	blob []byte
	info events.HeapInfo
	// reliedOn is when this process last made sure that it stays.
	reliedOn time.Time
}

func newBlobCache(limit int64) *blobCache {
	return &blobCache{limit: limit, order: list.New(), named: map[string]*list.Element{}}
}

func (c *blobCache) get(name string) ([]byte, events.HeapInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.named[name]
	if !ok {
		return nil, events.HeapInfo{}, false
	}
	c.order.MoveToFront(el)
	b := el.Value.(*cachedBlob)
	return b.blob, b.info, true
}

// put keeps a blob, unless it alone would take more than a quarter of the room.
func (c *blobCache) put(name string, blob []byte, info events.HeapInfo) {
	if c.limit <= 0 || int64(len(blob)) > c.limit/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.named[name]; ok {
		return
	}
	c.named[name] = c.order.PushFront(&cachedBlob{name: name, blob: blob, info: info})
	for c.used += int64(len(blob)); c.used > c.limit; {
		oldest := c.order.Remove(c.order.Back()).(*cachedBlob)
		delete(c.named, oldest.name)
		c.used -= int64(len(oldest.blob))
	}
}

// safe reports whether a blob was relied on less than a while ago.
func (c *blobCache) safe(name string, while time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	el, ok := c.named[name]
	return ok && time.Since(el.Value.(*cachedBlob).reliedOn) < while
}

// relyOn notes that a blob was relied on just now.
func (c *blobCache) relyOn(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.named[name]; ok {
		el.Value.(*cachedBlob).reliedOn = time.Now()
	}
}

// drop forgets a blob.
func (c *blobCache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.named[name]; ok {
		c.used -= int64(len(c.order.Remove(el).(*cachedBlob).blob))
		delete(c.named, name)
	}
}
