package blobs

import (
	"runtime"
	"sync/atomic"
	"time"
)

// maxKeptCoders bounds the encoders, and the decoders, that a codec keeps. An encoder holds
// about five megabytes: the history of its window, and the index of the base heap.
const maxKeptCoders = 4

// coders keeps encoders or decoders for their next use. The garbage collector empties a
// sync.Pool; to index the base heap again then takes longer than to encode a heap.
type coders[T any] struct {
	kept chan T
	make func() T
	// usedAt is the time of the last use, in ns since 1970 UTC.
	usedAt *atomic.Int64
}

func newCoders[T any](create func() T) coders[T] {
	return coders[T]{kept: make(chan T, min(runtime.GOMAXPROCS(0), maxKeptCoders)), make: create, usedAt: &atomic.Int64{}}
}

// use calls fn with a coder that no other call uses.
func (c coders[T]) use(fn func(T)) {
	var coder T
	c.usedAt.Store(time.Now().UnixNano())
	select {
	case coder = <-c.kept:
	default:
		coder = c.make()
	}
	fn(coder)
	select {
	case c.kept <- coder:
	default: // enough are kept
	}
}

// expire drops the coders that no call uses if none was used for a duration.
func (c coders[T]) expire(unused time.Duration) {
	if time.Now().UnixNano()-c.usedAt.Load() >= int64(unused) {
		c.drop()
	}
}

// drop drops the coders that no call uses.
func (c coders[T]) drop() {
	for {
		select {
		case <-c.kept:
		default:
			return
		}
	}
}
