package blobs

import (
	"cmp"
	"context"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Options configure a Store. The zero value works.
type Options struct {
	// CacheBytes bounds the encoded heaps kept in memory, in bytes. Default: 64 MiB. A
	// negative value keeps none. OnCacheSize, if set, is called with the size of the cache
	// after each change, in bytes. It MUST NOT block.
	CacheBytes  int64
	OnCacheSize func(bytes int64)
	// BlobGracePeriod protects a blob from removal after it was stored or pinned. The
	// event that references the blob MUST be appended within half of it. Default: 1 h.
	BlobGracePeriod time.Duration
	// Keys are the content keys. Default: none; encrypted content can then be neither
	// read nor stored.
	Keys events.Keys
	// OnBlobDamaged, if set, is called when a blob is found damaged. The zero blob stands
	// for the blob store as a whole. OnBlobRepaired, if set, is called with a sentence when
	// a damaged blob is intact again or was removed.
	OnBlobDamaged  func(blob events.LostBlob, err error)
	OnBlobRepaired func(blob events.LostBlob, how string)
	// CheckComplete, if set, returns the reason why a stream may lack messages, or nil. A
	// blob that is not found may then have been lost.
	CheckComplete func(stream string) error
}

// Store stores heaps and long texts by tenant and hash. It is safe for concurrent use
// and needs no closing.
type Store struct {
	opts   Options
	bucket *bucket
	cache  *blobCache
	bases  baseHeaps
}

// New returns a Store. The caller MUST call Open before any other method.
func New(client *jet.Client, opts Options) *Store {
	if opts.Keys == nil {
		opts.Keys = noKeys{}
	}
	opts.BlobGracePeriod = cmp.Or(opts.BlobGracePeriod, time.Hour)
	opts.CacheBytes = cmp.Or(opts.CacheBytes, 64<<20)
	s := &Store{opts: opts, cache: newBlobCache(opts.CacheBytes, opts.OnCacheSize)}
	s.bucket = &bucket{jet: client, opts: opts, onDamaged: s.cache.drop, writing: map[string]*blobWrite{}}
	s.bases = baseHeaps{ofEngine: map[string]*blobCodec{}, byHash: map[string]*blobCodec{}, load: s.loadBase}
	return s
}

// Open creates the blob store unless it exists, and reports whether it did. Further
// calls do nothing.
func (s *Store) Open(ctx context.Context) (made bool, err error) { return s.bucket.open(ctx) }

// Ping returns an error if the blob store does not answer.
func (s *Store) Ping(ctx context.Context) error { return s.bucket.ping(ctx) }

// Rewrite stores the count of purged chunks again, unchanged.
func (s *Store) Rewrite(ctx context.Context) error {
	purged, seq, err := s.bucket.purgedCount(ctx)
	if err != nil {
		return err
	}
	return s.bucket.setPurged(ctx, purged, seq)
}

// noKeys holds no content key.
type noKeys struct{}

func (noKeys) ContentKey(string) ([]byte, bool) { return nil, false }
