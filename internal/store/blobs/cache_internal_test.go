package blobs

import (
	"testing"
	"time"
)

// Only heaps that were not used for the duration are removed from memory.
func TestCacheExpires(t *testing.T) {
	t.Parallel()
	var held int64
	c := newBlobCache(1<<20, func(n int64) { held = n })
	for _, name := range []string{"a", "b", "c"} {
		c.put(name, cachedHeap{packed: make([]byte, 1000), blob: make([]byte, 3000)})
	}
	for _, b := range c.named {
		b.usedAt = time.Now().Add(-time.Hour)
	}
	if _, ok := c.get("b"); !ok {
		t.Fatal("b is not kept")
	}
	c.put("a", cachedHeap{packed: make([]byte, 1000)}) // stored again
	c.expire(time.Minute)
	for name, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if _, ok := c.get(name); ok != want {
			t.Errorf("%s is kept: %v, want %v", name, ok, want)
		}
	}
	if held != 8000 {
		t.Errorf("the cache reports %d bytes, want 8000", held)
	}
	c.expire(0)
	if held != 0 || len(c.named) != 0 || c.order.Len() != 0 || c.newest.Len() != 0 {
		t.Errorf("%d bytes and %d heaps are left", held, len(c.named))
	}
}
