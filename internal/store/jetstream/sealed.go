package jetstream

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

// metaKey names the key that a blob is encrypted under; absent for a plain one.
const metaKey = "key"

// noKeys knows none.
type noKeys struct{}

func (noKeys) SealKey(string) ([]byte, bool) { return nil, false }

// opened decrypts the content of an event that was read, where the key is there.
func (s *Store) opened(e events.Event, err error) (events.Event, error) {
	if err != nil {
		return e, err
	}
	if err := events.Open(&e, s.opts.Keys); errors.Is(err, events.ErrDamaged) {
		return events.Event{}, s.damaged("%w", err)
	} else if err != nil {
		return events.Event{}, err
	}
	return e, nil
}

// PutSealedText is PutText for a text that is encrypted under a key, and stored
// under the hash of what that gives.
func (s *Store) PutSealedText(ctx context.Context, tenant, keyID string, text []byte) (hash string, err error) {
	sealed, err := events.SealText(tenant, keyID, text, s.opts.Keys)
	if err != nil {
		return "", fmt.Errorf("store text: %w", err)
	}
	hash = events.Hash(sealed)
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store text: %w", err)
	}
	if err := s.blobs.put(ctx, name, whole.pack(sealed), map[string]string{metaKey: keyID}); err != nil {
		return "", fmt.Errorf("store text %s: %w", hash, err)
	}
	return hash, nil
}

// StoredText is Text for a text as it is stored: one that is encrypted stays so.
func (s *Store) StoredText(ctx context.Context, tenant, hash string) ([]byte, error) {
	text, _, err := s.storedText(ctx, tenant, hash)
	return text, err
}

func (s *Store) storedText(ctx context.Context, tenant, hash string) (text []byte, keyID string, err error) {
	name, err := blobName("text", tenant, hash)
	if err != nil {
		return nil, "", fmt.Errorf("read text: %w", err)
	}
	got, err := s.blobs.get(ctx, name, hash)
	if err != nil {
		return nil, "", fmt.Errorf("read text %s: %w", hash, err)
	}
	return got.blob, got.info.Metadata[metaKey], nil
}

// PutSealedHeap is PutHeap for a heap that is stored encrypted under a key. Its
// hash is that of the heap itself. A heap that is there already, in whatever
// form can be read, is left as it is.
func (s *Store) PutSealedHeap(ctx context.Context, tenant string, blob []byte, engineID, keyID string) (hash string, err error) {
	hash = events.Hash(blob)
	pack := s.packingFor(engineID).pack(blob)
	packed := pack.bytes()
	sealed, err := events.SealText(tenant, keyID, packed, s.opts.Keys)
	if err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	pack.bytes = func() []byte { return sealed }
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return "", fmt.Errorf("store heap: %w", err)
	}
	if err := s.blobs.put(ctx, name, pack, map[string]string{metaEngine: engineID, metaKey: keyID}); err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	s.keepHeap(name, pack.base, packed, blob, events.HeapInfo{SHA256: hash, Size: int64(len(blob)), EngineID: engineID})
	s.heaps.pin(name)
	return hash, nil
}

// readable reports whether a blob is plain, or its key is there.
func (b *bucket) readable(metadata map[string]string) bool {
	id := metadata[metaKey]
	if id == "" {
		return true
	}
	_, ok := b.s.opts.Keys.SealKey(id)
	return ok
}

// ForgetHeap drops a heap from memory.
func (s *Store) ForgetHeap(tenant, hash string) {
	if name, err := blobName("heap", tenant, hash); err == nil {
		s.heaps.drop(name)
	}
}

// Shreds calls fn with every event stored before the call that says that the
// content of a session was erased, of all tenants, oldest first.
func (s *Store) Shreds(ctx context.Context, fn func(events.Event) error) error {
	_, err := s.each(ctx, onSubject(events.ShredSubjects()), 0, func(m events.Stored) error {
		e, err := s.decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
	return err
}
