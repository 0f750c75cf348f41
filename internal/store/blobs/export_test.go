package blobs

import (
	"context"
	"time"

	"github.com/klauspost/compress/zstd"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Compress and Decompress encode and decode blobs without a base.
var (
	Compress   = plainCodec.compress
	Decompress = plainCodec.decompress
)

// ReadPacked reads the encoded form of a heap.
func ReadPacked(ctx context.Context, s *Store, tenant, hash string) ([]byte, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, err
	}
	info, err := s.bucket.metadata(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.bucket.read(ctx, info)
}

// ReplacePacked replaces the encoded form of a heap by the result of change, as chunks.
func ReplacePacked(ctx context.Context, s *Store, tenant, hash string, change func(packed []byte, info *natsjs.ObjectInfo) []byte) error {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return err
	}
	e, err := s.bucket.readMeta(ctx, name)
	if err != nil {
		return err
	}
	packed, err := s.bucket.read(ctx, &e.ObjectInfo)
	if err != nil {
		return err
	}
	packed = change(packed, &e.ObjectInfo)
	delete(e.Metadata, metaInline)
	e.NUID, e.Size, e.Chunks = events.NewID(time.Now()), uint64(len(packed)), uint32((len(packed)+chunkBytes-1)/chunkBytes)
	if err := s.bucket.writeChunks(ctx, e.NUID, packed); err != nil {
		return err
	}
	return s.bucket.writeMeta(ctx, e.ObjectInfo, e.seq)
}

// CompressWithWindow is Compress with references as far back as window, in bytes.
func CompressWithWindow(blob []byte, window int) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err != nil {
		panic(err)
	}
	return e.EncodeAll(blob, nil)
}

// BlobReader reads a blob in pieces.
type BlobReader = blobReader

// OpenHeap returns a reader of a heap.
func (s *Store) OpenHeap(ctx context.Context, tenant, hash string) (*BlobReader, events.HeapInfo, error) {
	return s.openHeap(ctx, tenant, hash)
}

// ListDamaged returns the number of the damaged blobs that FindLostBlobs finds if meanwhile is called
// after it has listed the metadata.
func ListDamaged(ctx context.Context, s *Store, meanwhile func()) (int, error) {
	all, err := s.bucket.readMetaTable(ctx)
	if err != nil {
		return 0, err
	}
	defer all.close()
	meanwhile()
	damaged, err := s.bucket.listDamaged(ctx, all)
	return len(damaged), err
}
