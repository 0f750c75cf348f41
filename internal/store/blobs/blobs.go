package blobs

import (
	"cmp"
	"context"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Options set up a Store. The zero value works.
type Options struct {
	// CacheBytes bounds the heaps kept in memory, packed; default 64 MiB, negative
	// keeps none. Cached, if set, receives what they take after each change, in
	// bytes; it must not block.
	CacheBytes int64
	Cached     func(bytes int64)
	// BlobGracePeriod is how long a blob cannot be removed after somebody has relied on
	// storing it; default 1 h. An event must name it within half of that.
	BlobGracePeriod time.Duration
	// Keys are those that content is encrypted under; without, content that is
	// encrypted cannot be read, and none can be encrypted.
	Keys events.Keys
	// BlobDamaged, if set, is called when a blob is found damaged; the zero blob
	// stands for the blob store as a whole. BlobRepaired is called when a blob that
	// was found damaged is intact again, or was removed, with a sentence.
	BlobDamaged  func(blob events.LostBlob, err error)
	BlobRepaired func(blob events.LostBlob, how string)
	// Incomplete, if set, is why messages may be missing from a stream, or nil: then a
	// blob that is not found may have been lost.
	Incomplete func(stream string) error
}

// Store keeps heaps and long texts, by tenant and hash. It is safe for concurrent
// use, and holds nothing to close.
type Store struct {
	opts   Options
	bucket *bucket
	cache  *blobCache
	bases  baseHeaps
}

// New makes a Store. The caller MUST call Open before any other method.
func New(client *jet.Client, opts Options) *Store {
	if opts.Keys == nil {
		opts.Keys = noKeys{}
	}
	opts.BlobGracePeriod = cmp.Or(opts.BlobGracePeriod, time.Hour)
	opts.CacheBytes = cmp.Or(opts.CacheBytes, 64<<20)
	s := &Store{opts: opts, cache: newBlobCache(opts.CacheBytes, opts.Cached)}
	s.bucket = &bucket{jet: client, opts: opts, onBad: s.cache.drop, writing: map[string]*blobWrite{}}
	s.bases = baseHeaps{ofEngine: map[string]*blobCodec{}, byHash: map[string]*blobCodec{}, load: s.loadBase}
	return s
}

// Open makes sure that the blob store exists, and reports whether it was made. Further
// calls do nothing.
func (s *Store) Open(ctx context.Context) (made bool, err error) { return s.bucket.open(ctx) }

// Reach returns why the blob store does not answer, or nil.
func (s *Store) Reach(ctx context.Context) error { return s.bucket.ping(ctx) }

// Rewrite stores the count of purged chunks again as it is.
func (s *Store) Rewrite(ctx context.Context) error {
	purged, seq, err := s.bucket.purged(ctx)
	if err != nil {
		return err
	}
	return s.bucket.setPurged(ctx, purged, seq)
}

// noKeys knows none.
type noKeys struct{}

func (noKeys) ContentKey(string) ([]byte, bool) { return nil, false }
