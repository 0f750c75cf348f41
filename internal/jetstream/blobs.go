package jetstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// blobBucket is the object store bucket of heaps and texts.
const blobBucket = "BLOBS"

// maxBlobBytes bounds a blob when unpacked, so that a tampered one cannot fill
// the memory.
const maxBlobBytes = 512 << 20

// Names of the metadata of a blob.
const (
	metaSize   = "size"
	metaEngine = "engine"
)

func (s *Store) openBlobs(ctx context.Context) error {
	var err error
	s.blobs, err = s.publishJS.ObjectStore(ctx, blobBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		s.blobs, err = s.publishJS.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: blobBucket, Description: "Daybook heaps and texts, by tenant and hash", Storage: jetstream.FileStorage, Replicas: s.opts.Replicas,
		})
	}
	if err != nil {
		return err
	}
	s.blobStream, err = s.publishJS.Stream(ctx, "OBJ_"+blobBucket)
	return err
}

// PutHeap stores a heap blob under its hash and returns the hash. A heap
// already there costs one look-up.
func (s *Store) PutHeap(ctx context.Context, tenant string, blob []byte, engineID string) (string, error) {
	hash := events.Hash(blob)
	name := heapName(tenant, hash)
	info := events.HeapInfo{SHA256: hash, Size: int64(len(blob)), EngineID: engineID}
	if _, _, ok := s.heaps.get(name); ok {
		return hash, nil
	}
	if err := s.putBlob(ctx, name, blob, map[string]string{metaEngine: engineID}); err != nil {
		return "", fmt.Errorf("store heap %s: %w", hash, err)
	}
	s.heaps.put(name, blob, info)
	return hash, nil
}

// HeapInfo describes a stored heap, or returns events.ErrNotFound.
func (s *Store) HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error) {
	name := heapName(tenant, hash)
	if _, info, ok := s.heaps.get(name); ok {
		return info, nil
	}
	object, err := s.lookUp(ctx, name)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("look up heap %s: %w", hash, err)
	}
	return heapInfo(hash, object)
}

// Heap returns a heap blob after checking its hash. It is events.ErrNotFound
// for a heap this tenant never stored, events.ErrDamaged for one that no
// longer is what its hash says. The caller must not change the bytes.
func (s *Store) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	name := heapName(tenant, hash)
	if blob, info, ok := s.heaps.get(name); ok {
		return blob, info, nil
	}
	blob, object, err := s.getBlob(ctx, name, hash)
	if err != nil {
		return nil, events.HeapInfo{}, fmt.Errorf("load heap %s: %w", hash, err)
	}
	info, err := heapInfo(hash, object)
	if err != nil {
		return nil, events.HeapInfo{}, err
	}
	s.heaps.put(name, blob, info)
	return blob, info, nil
}

// PutText stores a text under its hash and returns the hash.
func (s *Store) PutText(ctx context.Context, tenant string, text []byte) (string, error) {
	hash := events.Hash(text)
	if err := s.putBlob(ctx, textName(tenant, hash), text, nil); err != nil {
		return "", fmt.Errorf("store text %s: %w", hash, err)
	}
	return hash, nil
}

// Text returns a stored text after checking its hash; its errors are those of
// Heap.
func (s *Store) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	text, _, err := s.getBlob(ctx, textName(tenant, hash), hash)
	if err != nil {
		return nil, fmt.Errorf("load text %s: %w", hash, err)
	}
	return text, nil
}

func heapName(tenant, hash string) string { return "heap/" + tenant + "/" + hash }
func textName(tenant, hash string) string { return "text/" + tenant + "/" + hash }

func heapInfo(hash string, object *jetstream.ObjectInfo) (events.HeapInfo, error) {
	size, err := strconv.ParseInt(object.Metadata[metaSize], 10, 64)
	if err != nil {
		return events.HeapInfo{}, fmt.Errorf("%w: heap %s has no size", events.ErrDamaged, hash)
	}
	return events.HeapInfo{SHA256: hash, Size: size, EngineID: object.Metadata[metaEngine]}, nil
}

func (s *Store) putBlob(ctx context.Context, name string, raw []byte, meta map[string]string) error {
	if len(raw) > maxBlobBytes {
		return fmt.Errorf("%d bytes are more than the %d a blob may have", len(raw), maxBlobBytes)
	}
	// Putting the same name again would rewrite everything.
	if _, err := s.blobs.GetInfo(ctx, name); err == nil {
		return nil
	} else if !errors.Is(err, jetstream.ErrObjectNotFound) {
		return err
	}
	if meta == nil {
		meta = map[string]string{}
	}
	meta[metaSize] = strconv.Itoa(len(raw))
	packed := encoder().EncodeAll(raw, nil)
	_, err := s.blobs.Put(ctx, jetstream.ObjectMeta{Name: name, Metadata: meta}, bytes.NewReader(packed))
	return err
}

// lookUp finds a blob. It is events.ErrNotFound only if the store can be sure
// that the blob never was there: nothing is ever deleted from the bucket, so a
// bucket with missing messages may have lost it.
func (s *Store) lookUp(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	object, err := s.blobs.GetInfo(ctx, name)
	if !errors.Is(err, jetstream.ErrObjectNotFound) {
		return object, err
	}
	subject := "$O." + blobBucket + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
	info, err := s.blobStream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return nil, fmt.Errorf("look up blob: %w", err)
	}
	if len(info.State.Subjects) > 0 {
		return nil, fmt.Errorf("%w: the blob's entry cannot be read", events.ErrDamaged)
	}
	if err := checkWhole(info.State); err != nil {
		return nil, fmt.Errorf("blob not found, and the blob store is not whole: %w", err)
	}
	return nil, events.ErrNotFound
}

// getBlob reads a blob chunk by chunk from its subject (the object store's
// layout, NATS ADR-20). A reader of the object store would wait for a chunk
// that is missing; here that is damage, at once.
func (s *Store) getBlob(ctx context.Context, name, hash string) ([]byte, *jetstream.ObjectInfo, error) {
	info, err := s.lookUp(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if info.Size > maxBlobBytes {
		return nil, nil, fmt.Errorf("%w: it claims %d bytes", events.ErrDamaged, info.Size)
	}
	packed := make([]byte, 0, info.Size)
	subject := "$O." + blobBucket + ".C." + info.NUID
	from := uint64(1)
	for chunk := range info.Chunks {
		msg, err := s.blobStream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, nil, fmt.Errorf("%w: chunk %d of %d is missing", events.ErrDamaged, chunk+1, info.Chunks)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read chunk %d: %w", chunk+1, err)
		}
		packed = append(packed, msg.Data...)
		from = msg.Sequence + 1
	}
	raw, err := decoder().DecodeAll(packed, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: unpack: %w", events.ErrDamaged, err)
	}
	if got := events.Hash(raw); got != hash {
		return nil, nil, fmt.Errorf("%w: its bytes hash to %s", events.ErrDamaged, got)
	}
	return raw, info, nil
}

// The coders are safe for concurrent use of EncodeAll and DecodeAll, and
// expensive to make.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err) // only for invalid options
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlobBytes))
		if err != nil {
			panic(err) // only for invalid options
		}
		return d
	})
)
