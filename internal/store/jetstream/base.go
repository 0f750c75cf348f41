package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// bases are the heaps that other heaps are packed against. What an engine puts
// into every heap is half a megabyte; what a script adds is often a few
// hundred bytes.
type bases struct {
	mu       sync.Mutex
	ofEngine map[string]*packing
	byHash   map[string]*packing
}

// SetBase makes a heap the one that heaps of its engine are packed against from
// now on: the heap of an isolate in which nothing ran. It belongs to no tenant,
// is stored like any blob, and must not be changed afterwards.
func (s *Store) SetBase(ctx context.Context, engineID string, heap []byte) error {
	hash := events.Hash(heap)
	if err := s.blobs.put(ctx, baseName(hash), whole.pack(heap), map[string]string{metaEngine: engineID}); err != nil {
		return fmt.Errorf("store the base heap of engine %s: %w", engineID, err)
	}
	p := newPacking(hash, heap)
	s.bases.mu.Lock()
	defer s.bases.mu.Unlock()
	s.bases.ofEngine[engineID], s.bases.byHash[hash] = p, p
	return nil
}

// basePrefix begins the names of base heaps.
const basePrefix = "base/"

func baseName(hash string) string { return basePrefix + hash }

// packingFor is how heaps of an engine are written.
func (s *Store) packingFor(engineID string) *packing {
	s.bases.mu.Lock()
	defer s.bases.mu.Unlock()
	if p, ok := s.bases.ofEngine[engineID]; ok {
		return p
	}
	return whole
}

// unpackingFor is how a blob is read that was packed against a base.
func (b *bucket) unpackingFor(ctx context.Context, base string) (*packing, error) {
	if base == "" {
		return whole, nil
	}
	known := &b.s.bases
	known.mu.Lock()
	p, ok := known.byHash[base]
	known.mu.Unlock()
	if ok {
		return p, nil
	}
	if !events.ValidHash(base) {
		return nil, fmt.Errorf("%w: its description names the base %q", events.ErrDamaged, base)
	}
	// The base stays in memory for all: it is not the caller's.
	got, err := b.get(budget.Without(ctx), baseName(base), base)
	if errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrRemoved) {
		return nil, fmt.Errorf("%w: the base heap %s is not in the blob store", events.ErrDamaged, base)
	}
	if err != nil {
		return nil, fmt.Errorf("read the base heap %s: %w", base, err)
	}
	p = newPacking(base, got.blob)
	known.mu.Lock()
	defer known.mu.Unlock()
	known.byHash[base] = p
	return p, nil
}
