package worker

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mappedHeap is the size in bytes from which a worker keeps the heap of a task outside the
// memory of Go. Go's garbage collector would keep large heaps of earlier tasks, and the
// copies of a slice that grows, until they are several times as large.
const mappedHeap = 4 << 20

// heapBody is the memory for the heap of one task.
type heapBody struct {
	bytes  []byte
	mapped []byte // the whole mapping; nil if bytes is in Go's memory
}

// newHeapBody returns memory for a heap of size bytes: bytes is empty and has this
// capacity. A part that is not written to takes no memory. The caller MUST call release.
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

// release frees the memory. It may be called more than once.
func (b *heapBody) release() {
	if b.mapped != nil {
		_ = unix.Munmap(b.mapped) // fails only for a range that is not mapped
	}
	b.bytes, b.mapped = nil, nil
}
