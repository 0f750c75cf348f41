package jetstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/blobs"
	"daybook/internal/store/jet"
	"daybook/internal/store/queue"
	"daybook/internal/store/stream"
)

// Options set up a Store. The zero value works.
type Options struct {
	// Replicas is the number of copies of a new stream or bucket; default 1. It
	// does not change existing ones.
	Replicas int
	// AckWait is how long a runner may be silent before its work goes to
	// another; default 10 s. Living runners make a sign three times as often.
	AckWait time.Duration
	// TryWait bounds one try of a request to the server; default 5 s.
	TryWait time.Duration
	// Exclusive promises that no other process runs work of this ledger: what an
	// earlier process left unacknowledged is handed out again at once, not after
	// AckWait.
	Exclusive bool
	// Server, if set, is the HOST:PORT of an outside server, for errors: requests then
	// fail with a *events.NoAnswerError when it does not answer.
	Server string
	// Existing refuses to make what does not exist: the ledger is only to be read.
	Existing bool
	// CacheBytes bounds the heaps kept in memory, packed; default 64 MiB, negative
	// keeps none. Cached, if set, receives what they take after each change, in
	// bytes; it must not block.
	CacheBytes int64
	Cached     func(bytes int64)
	// Settle is how long a blob cannot be removed after somebody has relied on
	// storing it; default 1 h. An event must name it within half of that.
	Settle time.Duration
	// Keys are those that content is encrypted under; without, content that is
	// encrypted cannot be read, and none can be encrypted.
	Keys events.Keys
	// Sync, if set, is called after a stream or consumer was made: the server
	// writes their descriptions without waiting for the disk. An embedded
	// server's own Sync belongs here.
	Sync func() error
	// Keeper, if set, opens a connection that may seal and remove volumes, which
	// the others need not. An embedded server's own Keeper belongs here.
	Keeper func(name string) (*nats.Conn, error)
	// Opened, if set, is told of the stream of each volume, more than once. An
	// embedded server's own Offer belongs here.
	Opened func(stream string) error
	// Writable, if set, returns a context that ends when the server can write no more,
	// with the reason as its cause: an embedded server leaves writes unanswered then.
	// Its own Writable belongs here.
	Writable func() context.Context
	// Stored, if set, is told the stream and position of what this process stored,
	// each time before whoever stored it is.
	Stored func(stream string, seq uint64)
	// Writing, if set, is called with the size of each message, in bytes, before it is
	// sent to be stored.
	Writing func(bytes int)
	// Damaged, if set, is told of damage whenever it is met, perhaps more than
	// once. Open then goes on with what is sound.
	Damaged func(err error)
	// Starved, if set, is why the server cannot open its files now, or nil: it then
	// answers that there is nothing where it cannot read.
	Starved func() error
	// BlobDamaged, if set, is called when a blob is found damaged; the zero blob
	// stands for the blob store as a whole. BlobRepaired is called when a blob that
	// was found damaged is intact again, or was removed, with a sentence.
	BlobDamaged  func(blob events.LostBlob, err error)
	BlobRepaired func(blob events.LostBlob, how string)
	// ReadOnly, if set, is why nothing may be stored now, or nil.
	ReadOnly func() error
	// Hold, if set, is why no work may be taken now, or nil.
	Hold func() error
	// Incomplete, if set, is why messages may be missing from a stream, or nil:
	// then what is looked up in it by subject is not answered, because an answer
	// that leaves something out would be wrong.
	Incomplete func(stream string) error
	// Accept, if set, is a loss that is not on record yet: Open takes it for granted,
	// and makes the volume to go on with. RecordLoss must follow.
	Accept *stream.Acceptance
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// Store is the ledger. It is safe for concurrent use, holds nothing to close,
// and lives as long as the connections it was opened on.
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
func Open(ctx context.Context, publish, consume *nats.Conn, opts Options) (*Store, error) {
	client, err := jet.New(publish, consume, jet.Options{
		Replicas: opts.Replicas, TryWait: opts.TryWait, Server: opts.Server, Existing: opts.Existing, Sync: opts.Sync, Writable: opts.Writable,
		Stored: opts.Stored, Writing: opts.Writing, Starved: opts.Starved, ReadOnly: opts.ReadOnly, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	blobs := blobs.New(client, blobs.Options{
		CacheBytes: opts.CacheBytes, Cached: opts.Cached, Settle: opts.Settle, Keys: opts.Keys,
		BlobDamaged: opts.BlobDamaged, BlobRepaired: opts.BlobRepaired, Incomplete: opts.Incomplete,
	})
	s := &Store{Store: blobs, jet: client}
	s.Ledger = stream.New(client, blobs, stream.Options{
		Exclusive: opts.Exclusive, Keys: opts.Keys, Keeper: opts.Keeper, Opened: opts.Opened, Damaged: opts.Damaged,
		Incomplete: opts.Incomplete, Accept: opts.Accept,
		Prepare: func(ctx context.Context, v stream.LiveVolume, e events.Event) { s.Prepare(ctx, v, e) },
	})
	s.Queue = queue.New(client, s.Ledger, queue.Options{AckWait: opts.AckWait, Exclusive: opts.Exclusive, Hold: opts.Hold})
	made, err := s.Ledger.Open(ctx)
	if err != nil {
		return nil, err
	}
	fresh, err := blobs.Open(ctx)
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
	return []string{p.s.Active().Stream(), p.s.BlobStream()}
}

// Rewrite implements Probe.
func (p probe) Rewrite(ctx context.Context) error { return p.s.Store.Rewrite(ctx) }

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
