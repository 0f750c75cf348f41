package jetstream

import (
	"bytes"
	"context"
	"fmt"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// PutHeap stores a heap for a tenant and returns its hash. A heap already there
// costs one look-up. Once it returns the heap is on disk, and is not removed
// before the event that names it, if that follows within half of Options.Settle.
func (s *Store) PutHeap(ctx context.Context, tenant string, blob []byte, engineID string) (hash string, err error) {
	pack := s.packingFor(engineID).pack(blob)
	hash = events.Hash(blob)
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store heap: %w", err)
	}
	if s.heaps.recentlyPinned(name, s.opts.Settle/4) {
		return hash, nil
	}
	if err := s.blobs.put(ctx, name, pack, map[string]string{metaEngine: engineID}); err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	s.keepHeap(name, pack.base, pack.bytes(), blob, events.HeapInfo{SHA256: hash, Size: int64(len(blob)), EngineID: engineID})
	s.heaps.pin(name)
	return hash, nil
}

// keepHeap keeps a heap in the cache. Bytes with much unused capacity are copied.
func (s *Store) keepHeap(name, base string, packed, blob []byte, info events.HeapInfo) {
	if cap(packed)-len(packed) > len(packed)/8 {
		packed = bytes.Clone(packed)
	}
	if cap(blob) > 2*len(blob) && len(blob) <= unpackedBytes/4 {
		blob = bytes.Clone(blob)
	}
	s.heaps.put(name, keptHeap{packed: packed, base: base, info: info, blob: blob})
}

// Heap returns a tenant's heap after checking its hash. It returns
// events.ErrNotFound for one never stored, events.ErrRemoved for one that was
// removed, and events.ErrDamaged for one whose bytes are not what the hash says. The bytes are shared: nobody may change
// them.
func (s *Store) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	if kept, ok := s.heaps.get(name); ok {
		blob, err := s.blobs.unpackKept(ctx, kept)
		if err != nil {
			return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
		}
		return blob, kept.info, nil
	}
	got, err := s.blobs.get(ctx, name, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	h := heapInfo(hash, len(got.blob), got.info)
	s.keepHeap(name, got.base, got.packed, got.blob, h)
	return got.blob, h, nil
}

// StoredHeap is Heap without the cache: it reads the blob store and keeps nothing. The
// caller owns the bytes.
func (s *Store) StoredHeap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	got, err := s.blobs.get(ctx, name, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	return got.blob, heapInfo(hash, len(got.blob), got.info), nil
}

// unpackKept returns the content of a heap in the cache. Its packed form was
// checked before it was kept.
func (b *bucket) unpackKept(ctx context.Context, kept keptHeap) ([]byte, error) {
	if kept.blob != nil {
		return kept.blob, nil
	}
	if err := budget.TakeOnce(ctx, int(kept.info.Size)); err != nil {
		return nil, err
	}
	p, err := b.unpackingFor(ctx, kept.base)
	if err != nil {
		return nil, err
	}
	return p.decompress(kept.packed, int(kept.info.Size))
}

// HeapInfo describes a tenant's heap, or returns events.ErrNotFound or
// events.ErrRemoved.
func (s *Store) HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("describe heap: %w", err)
	}
	if kept, ok := s.heaps.get(name); ok {
		return kept.info, nil
	}
	if s.blobs.isBad(name) { // unless it was repaired meanwhile
		_, info, err := s.Heap(ctx, tenant, hash)
		return info, err
	}
	info, err := s.blobs.describe(ctx, name)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("describe heap %s: %w", hash, err)
	}
	size, err := blobSize(info)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("describe heap %s: %w", hash, err)
	}
	return heapInfo(hash, size, info), nil
}

func heapInfo(hash string, size int, info *natsjs.ObjectInfo) events.HeapInfo {
	return events.HeapInfo{SHA256: hash, Size: int64(size), EngineID: info.Metadata[metaEngine]}
}

// PutText stores a text for a tenant and returns its hash. A text already there
// costs one look-up. Once it returns the text is on disk.
func (s *Store) PutText(ctx context.Context, tenant string, text []byte) (hash string, err error) {
	hash = events.Hash(text)
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store text: %w", err)
	}
	if err := s.blobs.put(ctx, name, whole.pack(text), map[string]string{}); err != nil {
		return "", fmt.Errorf("store text %s: %w", hash, err)
	}
	return hash, nil
}

// Text returns a tenant's text after checking its hash, decrypted where it is
// encrypted: events.ErrNotFound for one never stored, events.ErrShredded for one
// whose key is not there, events.ErrDamaged for one whose bytes are not what the hash
// says.
func (s *Store) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	text, keyID, err := s.storedText(ctx, tenant, hash)
	if err != nil || keyID == "" {
		return text, err
	}
	if text, err = events.OpenText(tenant, keyID, text, s.opts.Keys); err != nil {
		return nil, fmt.Errorf("read text %s: %w", hash, err)
	}
	return text, nil
}
