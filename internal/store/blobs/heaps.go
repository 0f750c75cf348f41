package blobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// PutHeap stores a heap for a tenant and returns its hash. It costs one lookup if the
// heap exists. The heap is on disk on return. It is not removed before the event that
// references it, if that follows within half of Options.BlobGracePeriod.
func (s *Store) PutHeap(ctx context.Context, tenant string, blob []byte, engineID string) (hash string, err error) {
	pack := s.bases.encoderFor(engineID).encodeAsync(blob)
	hash = events.Hash(blob)
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store heap: %w", err)
	}
	if s.cache.recentlyPinned(name, s.opts.BlobGracePeriod/4) {
		return hash, nil
	}
	if err := s.bucket.put(ctx, name, pack, map[string]string{metaEngine: engineID}); err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	s.cacheHeap(name, pack.base, pack.bytes(), blob, events.HeapInfo{SHA256: hash, Size: int64(len(blob)), EngineID: engineID})
	s.cache.pin(name)
	return hash, nil
}

// cacheHeap puts a heap into the cache. It copies slices with much unused capacity.
func (s *Store) cacheHeap(name, base string, packed, blob []byte, info events.HeapInfo) {
	if cap(packed)-len(packed) > len(packed)/8 {
		packed = bytes.Clone(packed)
	}
	if cap(blob) > 2*len(blob) && len(blob) <= unpackedBytes/4 {
		blob = bytes.Clone(blob)
	}
	s.cache.put(name, cachedHeap{packed: packed, base: base, info: info, blob: blob})
}

// Heap returns a heap of a tenant after it verified its hash. It returns
// events.ErrNotFound for a heap that was never stored, events.ErrRemoved for a removed
// one, and events.ErrDamaged for one whose bytes do not match the hash. The bytes are
// shared; the caller MUST NOT change them.
func (s *Store) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	if kept, ok := s.cache.get(name); ok {
		blob, err := s.decodeCached(ctx, kept)
		if err != nil {
			return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
		}
		return blob, kept.info, nil
	}
	got, err := s.get(ctx, name, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	h := heapInfo(hash, len(got.blob), got.info)
	s.cacheHeap(name, got.base, got.packed, got.blob, h)
	return got.blob, h, nil
}

// StoredHeap is Heap without the cache: it reads from the blob store. The caller owns
// the bytes.
func (s *Store) StoredHeap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap: %w", err)
	}
	got, err := s.get(ctx, name, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("read heap %s: %w", hash, err)
	}
	return got.blob, heapInfo(hash, len(got.blob), got.info), nil
}

// decodeCached returns the content of a heap in the cache, whose hash was verified
// before.
func (s *Store) decodeCached(ctx context.Context, kept cachedHeap) ([]byte, error) {
	if kept.blob != nil {
		return kept.blob, nil
	}
	if err := budget.TakeOnce(ctx, int(kept.info.Size)); err != nil {
		return nil, err
	}
	p, err := s.bases.decoderFor(ctx, kept.base)
	if err != nil {
		return nil, err
	}
	return p.decompress(kept.packed, int(kept.info.Size))
}

// HeapInfo returns the metadata of a heap of a tenant. It returns the errors of Heap
// for a heap that was never stored, was removed or is known to be damaged.
func (s *Store) HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("describe heap: %w", err)
	}
	if kept, ok := s.cache.get(name); ok {
		return kept.info, nil
	}
	if s.bucket.isDamaged(name) { // unless it was repaired since
		_, info, err := s.Heap(ctx, tenant, hash)
		return info, err
	}
	info, err := s.bucket.metadata(ctx, name)
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

// PutText stores a text for a tenant and returns its hash. It costs one lookup if the
// text exists. The text is on disk on return.
func (s *Store) PutText(ctx context.Context, tenant string, text []byte) (hash string, err error) {
	hash = events.Hash(text)
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store text: %w", err)
	}
	if err := s.bucket.put(ctx, name, plainCodec.encodeAsync(text), map[string]string{}); err != nil {
		return "", fmt.Errorf("store text %s: %w", hash, err)
	}
	return hash, nil
}

// Text returns a text of a tenant after it verified its hash, decrypted if it is
// encrypted. It returns events.ErrNotFound for a text that was never stored,
// events.ErrShredded for one whose content key is missing, and events.ErrDamaged for
// one whose bytes do not match the hash.
func (s *Store) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	text, keyID, err := s.storedText(ctx, tenant, hash)
	if err != nil || keyID == "" {
		return text, err
	}
	if text, err = events.DecryptBlob(tenant, keyID, text, s.opts.Keys); err != nil {
		return nil, fmt.Errorf("read text %s: %w", hash, err)
	}
	return text, nil
}

// blobContent is a complete blob.
type blobContent struct {
	blob, packed []byte
	base         string // hash of the base heap; empty for none
	info         *natsjs.ObjectInfo
}

// get reads a blob and verifies it against its hash. Damage is reported and returned as
// *events.BlobDamagedError. The memory is taken from the account in ctx.
func (s *Store) get(ctx context.Context, name, hash string) (blobContent, error) {
	info, err := s.bucket.metadata(ctx, name)
	for err == nil {
		var got blobContent
		if got, err = s.readContent(ctx, name, hash, info); err == nil {
			s.bucket.reportIntact(name, "it was read again and is intact")
			return got, nil
		}
		if !errors.Is(err, events.ErrDamaged) {
			break
		}
		if err = s.bucket.confirmDamaged(ctx, name, info, err); errors.Is(err, errReplaced) {
			info, err = s.bucket.metadata(ctx, name)
		}
	}
	return blobContent{}, err
}

// readContent reads a blob as its metadata describes it.
func (s *Store) readContent(ctx context.Context, name, hash string, info *natsjs.ObjectInfo) (blobContent, error) {
	got := blobContent{info: info}
	size, err := blobSize(info)
	if err != nil {
		return blobContent{}, err
	}
	if err := budget.Take(ctx, size); err != nil {
		return blobContent{}, err
	}
	if got.base, err = baseOf(name, info); err != nil {
		return blobContent{}, err
	}
	if got.packed, err = s.readPacked(ctx, name, info); err != nil {
		return blobContent{}, err
	}
	p, err := s.bases.decoderFor(ctx, got.base)
	if err != nil {
		return blobContent{}, err
	}
	if got.blob, err = p.decompress(got.packed, size); err != nil {
		return blobContent{}, fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	if sum := events.Hash(got.blob); sum != hash {
		return blobContent{}, fmt.Errorf("%w: its bytes have the hash %s", events.ErrDamaged, sum)
	}
	return got, nil
}

// SetBase makes heap the base heap of an engine: further heaps of the engine are
// encoded against it. It is the heap of an isolate in which no script ran. It belongs
// to no tenant and is stored like other blobs. The caller MUST NOT change heap
// afterwards.
func (s *Store) SetBase(ctx context.Context, engineID string, heap []byte) error {
	hash := events.Hash(heap)
	if err := s.bucket.put(ctx, baseName(hash), plainCodec.encodeAsync(heap), map[string]string{metaEngine: engineID}); err != nil {
		return fmt.Errorf("store the base heap of engine %s: %w", engineID, err)
	}
	p := newBlobCodec(hash, heap)
	s.bases.mu.Lock()
	defer s.bases.mu.Unlock()
	s.bases.ofEngine[engineID], s.bases.byHash[hash] = p, p
	return nil
}

func (s *Store) loadBase(ctx context.Context, hash string) ([]byte, error) {
	got, err := s.get(ctx, baseName(hash), hash)
	return got.blob, err
}

// ClearCache removes all heaps from memory, and the tables of encoders and decoders. Heaps are
// read again when a run needs them, and the first heap that is stored then takes some
// milliseconds longer.
func (s *Store) ClearCache() {
	s.cache.clear()
	s.bases.expireCoders(0)
}

// DropUnusedHeaps is ClearCache for what was not used for a duration.
func (s *Store) DropUnusedHeaps(unused time.Duration) {
	s.cache.expire(unused)
	s.bases.expireCoders(unused)
}
