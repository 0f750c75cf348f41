package jetstream

import (
	"context"
	"log/slog"
	"time"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jet"
	"daybook/internal/store/queue"
	"daybook/internal/store/stream"
)

// Options set up a Store. The zero value works. Each part documents its own.
type Options struct {
	// Of the connection: see jet.Options.
	Replicas int
	TryWait  time.Duration
	Server   string
	Existing bool
	Sync     func() error
	Writable func() context.Context
	Stored   func(stream string, seq uint64)
	Writing  func(bytes int)
	Starved  func() error
	ReadOnly func() error
	Logger   *slog.Logger

	// Of the sequence of events: see stream.Options.
	Keeper  func(name string) (*jet.Conn, error)
	Opened  func(stream string) error
	Damaged func(err error)
	Accept  *stream.AcceptedLoss

	// Of heaps and texts: see blobs.Options.
	CacheBytes   int64
	Cached       func(bytes int64)
	Settle       time.Duration
	BlobDamaged  func(blob events.LostBlob, err error)
	BlobRepaired func(blob events.LostBlob, how string)

	// Of the queue: see queue.Options.
	AckWait time.Duration
	Hold    func() error

	// Keys and Incomplete are of the sequence and of heaps and texts, Exclusive is of
	// the sequence and of the queue.
	Keys       events.Keys
	Incomplete func(stream string) error
	Exclusive  bool
}

// Store is the ledger, its heaps and texts, and its queue. It is safe for concurrent use,
// holds nothing to close, and lives as long as the connections it was opened on.
type Store struct {
	*stream.Ledger
	*blobs.Store
	*queue.Queue
	jet *jet.Client
}

// Open makes sure that the ledger's volumes and buckets exist and are whole,
// finishes a sealing that was cut short, and returns a Store over them. Damage is events.ErrDamaged naming what is wrong.
// An existing stream that is not set up as a ledger is an error: it is never
// changed. The connections stay the caller's, to close after the last use of
// the Store; two, so that slow readers do not hold up acknowledgements.
func Open(ctx context.Context, publish, consume *jet.Conn, opts Options) (*Store, error) {
	client, err := jet.New(publish, consume, jet.Options{
		Replicas: opts.Replicas, TryWait: opts.TryWait, Server: opts.Server, ReadExisting: opts.Existing, Sync: opts.Sync, Writable: opts.Writable,
		OnStored: opts.Stored, Writing: opts.Writing, Starved: opts.Starved, ReadOnly: opts.ReadOnly, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	heaps := blobs.New(client, blobs.Options{
		CacheBytes: opts.CacheBytes, Cached: opts.Cached, BlobGracePeriod: opts.Settle, Keys: opts.Keys,
		BlobDamaged: opts.BlobDamaged, BlobRepaired: opts.BlobRepaired, Incomplete: opts.Incomplete,
	})
	s := &Store{Store: heaps, jet: client}
	s.Ledger = stream.New(client, heaps, stream.Options{
		Exclusive: opts.Exclusive, Keys: opts.Keys, OpenAdminConn: opts.Keeper, OnVolumeOpened: opts.Opened, Damaged: opts.Damaged,
		Incomplete: opts.Incomplete, Accept: opts.Accept,
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

// probe tries a full server.
type probe struct{ s *Store }

// Streams implements Probe.
func (p probe) Streams() []string {
	return []string{p.s.Active().Stream(), blobs.Stream}
}

// Rewrite implements Probe.
func (p probe) Rewrite(ctx context.Context) error { return p.s.Rewrite(ctx) }

// Unwritable is why the server can store nothing now, as *events.UnwritableError, or
// nil.
func (s *Store) Unwritable() error { return s.jet.Unwritable() }

// Silent returns a *events.NoAnswerError while an outside server does not answer, or
// nil.
func (s *Store) Silent() error { return s.jet.Silent() }

// AwaitAnswers waits 200 ms at most while an outside server does not answer. It returns a
// *events.NoAnswerError if the server does not answer by then. Nothing is sent.
func (s *Store) AwaitAnswers(ctx context.Context) error { return s.jet.AwaitAnswers(ctx) }

// Health reports why the ledger cannot be relied upon now, or nil: its
// connections are up, the stream answers and can be written, and no damage has
// been met.
func (s *Store) Health(ctx context.Context) error {
	if err := s.Ledger.Health(ctx); err != nil {
		return err
	}
	return s.Reach(ctx)
}
