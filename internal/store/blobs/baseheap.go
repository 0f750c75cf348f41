package blobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// baseHeaps holds the codecs of base heaps. The part of a heap that every heap of an
// engine shares is about 500 KiB; a script often adds a few hundred bytes.
type baseHeaps struct {
	mu       sync.Mutex
	ofEngine map[string]*blobCodec
	byHash   map[string]*blobCodec
	load     func(ctx context.Context, hash string) ([]byte, error)
}

// encoderFor returns the codec that encodes heaps of an engine.
func (k *baseHeaps) encoderFor(engineID string) *blobCodec {
	k.mu.Lock()
	defer k.mu.Unlock()
	if p, ok := k.ofEngine[engineID]; ok {
		return p
	}
	return plainCodec
}

// decoderFor returns the codec that decodes blobs encoded against a base heap. base is
// its hash, or empty for none.
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
		return nil, fmt.Errorf("%w: its metadata names the base %q", events.ErrDamaged, base)
	}
	// The base stays in memory for all callers, so no account is charged.
	heap, err := k.load(budget.Without(ctx), base)
	if errors.Is(err, events.ErrNotFound) || errors.Is(err, events.ErrRemoved) {
		return nil, fmt.Errorf("%w: the base heap %s is not in the blob store", events.ErrDamaged, base)
	}
	if err != nil {
		return nil, fmt.Errorf("read the base heap %s: %w", base, err)
	}
	p = newBlobCodec(base, heap)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byHash[base] = p
	return p, nil
}

// expireCoders drops the encoders and decoders of all codecs that were not used for a duration. The
// base heaps stay.
func (k *baseHeaps) expireCoders(unused time.Duration) {
	plainCodec.expireCoders(unused)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.byHash {
		p.expireCoders(unused)
	}
	for _, p := range k.ofEngine {
		p.expireCoders(unused)
	}
}
