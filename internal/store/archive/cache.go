package archive

import (
	"container/list"
	"sync"
	"time"

	"daybook/events"
)

// Cache holds the frames and pages of archives that were used last. It is safe for concurrent use.
type Cache struct {
	limit int // in bytes

	mu    sync.Mutex
	size  int
	order *list.List // of cached, last used first
	parts map[partName]*list.Element
}

type partName struct {
	volume events.Volume
	name   string
}

type cached struct {
	name partName
	// frame or page is set.
	frame *frame
	page  []byte
	size  int
	// usedAt is when it was last read.
	usedAt time.Time
}

// NewCache returns a Cache of about limit bytes.
func NewCache(limit int) *Cache {
	return &Cache{limit: limit, order: list.New(), parts: map[partName]*list.Element{}}
}

func (c *Cache) get(name partName) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.parts[name]
	if e == nil {
		return cached{}, false
	}
	c.order.MoveToFront(e)
	p := e.Value.(cached)
	p.usedAt = time.Now()
	e.Value = p
	return p, true
}

func (c *Cache) put(p cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parts[p.name] != nil {
		return // another reader was faster
	}
	p.usedAt = time.Now()
	c.parts[p.name] = c.order.PushFront(p)
	for c.size += p.size; c.size > c.limit && c.order.Len() > 1; {
		c.remove(c.order.Back())
	}
}

// remove removes a part. The caller must hold mu.
func (c *Cache) remove(e *list.Element) {
	old := c.order.Remove(e).(cached)
	delete(c.parts, old.name)
	c.size -= old.size
}

// drop removes a part that is not needed soon.
func (c *Cache) drop(name partName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.parts[name]; e != nil {
		c.remove(e)
	}
}

// Expire removes the parts that were not read for a duration.
func (c *Cache) Expire(unused time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for last := c.order.Back(); last != nil && time.Since(last.Value.(cached).usedAt) >= unused; last = c.order.Back() {
		c.remove(last)
	}
}

// Clear removes all parts. They are read again when a lookup needs them.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.Init()
	clear(c.parts)
	c.size = 0
}
