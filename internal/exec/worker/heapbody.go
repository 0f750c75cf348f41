package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mappedHeap is the size in bytes from which a worker keeps a task's heap outside Go's
// memory. Go's collector would keep large heaps of earlier tasks, and the copies of a
// slice that grows, until they are several times as large.
const mappedHeap = 4 << 20

// heapBody is the memory for the heap of one task.
type heapBody struct {
	bytes  []byte
	mapped []byte // all of the mapping; nil for Go's memory
}

// newHeapBody returns memory for a heap of size bytes. bytes is empty and has that
// capacity. A part that is not written to costs nothing. The caller MUST call release.
func newHeapBody(size int) (*heapBody, error) {
	if size < mappedHeap {
		return &heapBody{bytes: make([]byte, 0, size)}, nil
	}
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("get memory for a heap of %d bytes: %w", size, err)
	}
	return &heapBody{bytes: m[:0], mapped: m}, nil
}

// release gives the memory back. It may be called more than once.
func (b *heapBody) release() {
	if b.mapped != nil {
		_ = unix.Munmap(b.mapped) // fails only for what is no mapping
	}
	b.bytes, b.mapped = nil, nil
}
