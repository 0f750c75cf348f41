package blobs

import (
	"context"
	"fmt"

	"daybook/events"
)

// PutEncryptedText is PutText for a text that is encrypted under a content key. The
// returned hash is that of the encrypted text, under which it is stored.
func (s *Store) PutEncryptedText(ctx context.Context, tenant, keyID string, text []byte) (hash string, err error) {
	sealed, err := events.EncryptBlob(tenant, keyID, text, s.opts.Keys)
	if err != nil {
		return "", fmt.Errorf("store text: %w", err)
	}
	hash = events.Hash(sealed)
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store text: %w", err)
	}
	if err := s.bucket.put(ctx, name, plainCodec.encodeAsync(sealed), map[string]string{metaKey: keyID}); err != nil {
		return "", fmt.Errorf("store text %s: %w", hash, err)
	}
	return hash, nil
}

// RawText is Text without decryption.
func (s *Store) RawText(ctx context.Context, tenant, hash string) ([]byte, error) {
	text, _, err := s.storedText(ctx, tenant, hash)
	return text, err
}

func (s *Store) storedText(ctx context.Context, tenant, hash string) (text []byte, keyID string, err error) {
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return nil, "", fmt.Errorf("read text: %w", err)
	}
	got, err := s.get(ctx, name, hash)
	if err != nil {
		return nil, "", fmt.Errorf("read text %s: %w", hash, err)
	}
	return got.blob, got.info.Metadata[metaKey], nil
}

// PutEncryptedHeap is PutHeap for a heap that is stored encrypted under a content key.
// The returned hash is that of the plain heap. An existing heap that can be read is
// left as it is, encrypted or not.
func (s *Store) PutEncryptedHeap(ctx context.Context, tenant string, blob []byte, engineID, keyID string) (hash string, err error) {
	hash = events.Hash(blob)
	pack := s.bases.encoderFor(engineID).encodeAsync(blob)
	packed := pack.bytes()
	sealed, err := events.EncryptBlob(tenant, keyID, packed, s.opts.Keys)
	if err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	pack.bytes = func() []byte { return sealed }
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store heap: %w", err)
	}
	if err := s.bucket.put(ctx, name, pack, map[string]string{metaEngine: engineID, metaKey: keyID}); err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	s.cacheHeap(name, pack.base, packed, blob, events.HeapInfo{SHA256: hash, Size: int64(len(blob)), EngineID: engineID})
	s.cache.pin(name)
	return hash, nil
}

// EvictHeaps removes the heaps of a tenant from the cache.
func (s *Store) EvictHeaps(tenant string) { s.cache.dropPrefix("heap/" + tenant + "/") }
