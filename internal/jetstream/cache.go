package jetstream

import (
	"container/list"
	"sync"

	"daybook/events"
)

// blobCache keeps the heaps used last in memory, up to a number of bytes: the
// heap a run leaves is usually the one the next run restores. Blobs never
// change, so nothing has to be invalidated.
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
