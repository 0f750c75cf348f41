package jetstream

import (
	"context"
	"time"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jet"
	"daybook/internal/store/queue"
	"daybook/internal/store/stream"
)

// Options configure a Store. The zero value works. The Options of each part document
// their fields.
type Options struct {
	// Client is for the connections.
	Client jet.Options

	// For the sequence of events; see stream.Options.
	OpenAdminConn  func(name string) (*jet.Conn, error)
	OnVolumeOpened func(stream string) error
	OnDamage       func(err error)
	MayDelete      func(newest events.Removal) bool
	Accept         *stream.AcceptedLoss

	// For heaps and texts; see blobs.Options.
	CacheBytes      int64
	OnCacheSize     func(bytes int64)
	BlobGracePeriod time.Duration
	OnBlobDamaged   func(blob events.LostBlob, err error)
	OnBlobRepaired  func(blob events.LostBlob, how string)

	// For the queue; see queue.Options.
	AckWait time.Duration
	Hold    func() error

	// Keys and CheckComplete are for the sequence and the blobs, Exclusive is for the
	// sequence and the queue.
	Keys          events.Keys
	CheckComplete func(stream string) error
	Exclusive     bool
}

// Store is the ledger with its heaps, texts and queue. It is safe for concurrent use
// and needs no closing. It is valid as long as the connections it was opened on.
type Store struct {
	*stream.Ledger
	*blobs.Store
	*queue.Queue
	jet *jet.Client
}

// Open creates the volumes and buckets of the ledger unless they exist, checks them,
// completes an interrupted rotation or removal, and returns a Store. Damage is
// events.ErrDamaged with a description. An existing stream that is not configured as a
// ledger is an error, and is never changed. The caller owns both connections and closes
// them after the last use of the Store. There are two, so that slow readers do not delay
// acknowledgements.
func Open(ctx context.Context, publish, consume *jet.Conn, opts Options) (*Store, error) {
	client, err := jet.New(publish, consume, opts.Client)
	if err != nil {
		return nil, err
	}
	heaps := blobs.New(client, blobs.Options{
		CacheBytes: opts.CacheBytes, OnCacheSize: opts.OnCacheSize, BlobGracePeriod: opts.BlobGracePeriod, Keys: opts.Keys,
		OnBlobDamaged: opts.OnBlobDamaged, OnBlobRepaired: opts.OnBlobRepaired, CheckComplete: opts.CheckComplete,
	})
	s := &Store{Store: heaps, jet: client}
	s.Ledger = stream.New(client, heaps, stream.Options{
		Exclusive: opts.Exclusive, Keys: opts.Keys, OpenAdminConn: opts.OpenAdminConn, OnVolumeOpened: opts.OnVolumeOpened, OnDamage: opts.OnDamage,
		CheckComplete: opts.CheckComplete, MayDelete: opts.MayDelete, Accept: opts.Accept,
		Prepare: func(ctx context.Context, v stream.LiveVolume, e events.Event) { s.Prepare(ctx, v, e) },
	})
	s.Queue = queue.New(client, s.Ledger, queue.Options{AckWait: opts.AckWait, Exclusive: opts.Exclusive, Hold: opts.Hold})
	made, err := s.Ledger.Open(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := heaps.Open(ctx)
	if err != nil {
		return nil, err
	}
	if made || fresh {
		if err := s.jet.Sync(); err != nil {
			return nil, err
		}
	}
	s.jet.Ready(probe{s})
	return s, nil
}

// probe tries a full server by storing an existing message again.
type probe struct{ s *Store }

// Streams implements jet.Probe.
func (p probe) Streams() []string {
	return []string{p.s.Active().Stream(), blobs.Stream}
}

// Rewrite implements jet.Probe.
func (p probe) Rewrite(ctx context.Context) error { return p.s.Rewrite(ctx) }

// ClearCache frees the memory of heaps and of parts of archives, which are read again when they
// are needed, and that of their encoders and decoders.
func (s *Store) ClearCache() {
	s.Store.ClearCache()
	s.Ledger.ClearCache()
}

// DropUnused is ClearCache for what was not used for a duration.
func (s *Store) DropUnused(unused time.Duration) {
	s.DropUnusedHeaps(unused)
	s.DropUnusedParts(unused)
}

// Unwritable returns an *events.UnwritableError while the server can store nothing, or
// nil.
func (s *Store) Unwritable() error { return s.jet.Unwritable() }

// Silent returns an *events.NoAnswerError while an outside server does not answer, or
// nil.
func (s *Store) Silent() error { return s.jet.Silent() }

// AwaitAnswers waits up to 200 ms while an outside server does not answer. If it still
// does not answer, AwaitAnswers returns an *events.NoAnswerError. It sends nothing.
func (s *Store) AwaitAnswers(ctx context.Context) error { return s.jet.AwaitAnswers(ctx) }

// Health returns an error if the ledger is not usable: damage was found, a connection
// is down, or a stream or the blob store does not answer. Otherwise it returns nil. The number
// of its requests does not depend on the number of volumes: see stream.Ledger.Health.
func (s *Store) Health(ctx context.Context) error {
	if err := s.Ledger.Health(ctx); err != nil {
		return err
	}
	return s.Ping(ctx)
}

// HealthOfAll is Health with the streams of all volumes.
func (s *Store) HealthOfAll(ctx context.Context) error {
	if err := s.Ledger.HealthOfAll(ctx); err != nil {
		return err
	}
	return s.Ping(ctx)
}
