package blobs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// baseHeaps are the heaps that other heaps are packed against. What an engine puts
// into every heap is half a megabyte; what a script adds is often a few
// hundred bytes.
type baseHeaps struct {
	mu       sync.Mutex
	ofEngine map[string]*blobCodec
	byHash   map[string]*blobCodec
	// load reads a base heap.
	load func(ctx context.Context, hash string) ([]byte, error)
}

// encoderFor is how heaps of an engine are written.
func (k *baseHeaps) encoderFor(engineID string) *blobCodec {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.ofEngine[engineID]; ok {
		return p
	}
	return plainCodec
}

// decoderFor is how a blob is read that was packed against a base.
func (k *baseHeaps) decoderFor(ctx context.Context, base string) (*blobCodec, error) {
	if base == "" {
		return plainCodec, nil
	}
	k.mu.Lock()
	p, ok := k.byHash[base]
	k.mu.Unlock()
	if ok {
		return p, nil
	}
	if !events.ValidHash(base) {
		return nil, fmt.Errorf("%w: its description names the base %q", events.ErrDamaged, base)
	}
	// The base stays in memory for all: it is not the caller's.
	heap, err := k.load(budget.Without(ctx), base)
	if errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrRemoved) {
		return nil, fmt.Errorf("%w: the base heap %s is not in the blob store", events.ErrDamaged, base)
	}
	if err != nil {
		return nil, fmt.Errorf("read the base heap %s: %w", base, err)
	}
	p = newPacking(base, heap)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byHash[base] = p
	return p, nil
}
