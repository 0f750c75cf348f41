// Package jetstream is the only part of Daybook that talks to NATS as a
// client: it keeps the ledger in a stream, hands out its work through a
// durable consumer, stores blobs in the object store, and carries cancel
// requests. The same code serves an embedded server and an outside cluster.
//
// It decides nothing: rules live in package ledger.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// volume is the stretch of the ledger written now.
const volume events.Volume = 1

// Streams and WorkConsumers name what a Store keeps on the server, for access
// rules.
func Streams() []string { return []string{volume.Stream()} }

// WorkConsumer is the durable consumer that hands out the runs of a pool.
func WorkConsumer(pool string) string { return "runners-" + pool }

// Options set up a Store. The zero value works.
type Options struct {
	// Replicas is the number of copies on a cluster; default 1.
	Replicas int
	// AckWait is how long work may go without a sign of life before it is
	// delivered again; default 10 s.
	AckWait time.Duration
	// Exclusive promises that no other process does this ledger's work: what an
	// earlier process left unacknowledged is then delivered again at once
	// instead of after AckWait.
	Exclusive bool
	// CacheBytes bounds the heap blobs kept in memory; default 64 MiB, negative
	// keeps none.
	CacheBytes int64
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// Store is a ledger on a NATS server. It is safe for concurrent use. The
// connections it was opened with stay the caller's.
type Store struct {
	opts Options
	// A slow consumer callback would hold up acknowledgements of appends, so
	// the two directions have a connection each.
	publish, consume     *nats.Conn
	publishJS, consumeJS jetstream.JetStream
	stream               jetstream.Stream
	blobs                jetstream.ObjectStore
	blobStream           jetstream.Stream // the bucket's own stream
	heaps                *blobCache
}

// Open connects a Store to its stream and blob bucket, and creates them on a
// new server. A stream with missing events is events.ErrDamaged.
func Open(ctx context.Context, publish, consume *nats.Conn, opts Options) (*Store, error) {
	if opts.Replicas == 0 {
		opts.Replicas = 1
	}
	if opts.AckWait == 0 {
		opts.AckWait = 10 * time.Second
	}
	if opts.CacheBytes == 0 {
		opts.CacheBytes = 64 << 20
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	s := &Store{opts: opts, publish: publish, consume: consume, heaps: newBlobCache(opts.CacheBytes)}
	var err error
	if s.publishJS, err = jetstream.New(publish, jetstream.WithDefaultTimeout(requestTimeout)); err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	if s.consumeJS, err = jetstream.New(consume, jetstream.WithDefaultTimeout(requestTimeout)); err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	if s.stream, err = s.openStream(ctx); err != nil {
		return nil, fmt.Errorf("open stream %s: %w", volume.Stream(), err)
	}
	if err := s.openBlobs(ctx); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	return s, nil
}

// requestTimeout bounds one request to the server.
const requestTimeout = 5 * time.Second

// openStream finds or creates the stream of the current volume. An existing
// stream is never reconfigured: it is checked, and refused when it could lose
// events or has lost some.
func (s *Store) openStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := s.publishJS.Stream(ctx, volume.Stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return s.publishJS.CreateStream(ctx, s.streamConfig())
	}
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	if c := info.Config; !c.DenyDelete || !c.DenyPurge || c.MaxAge != 0 || c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0 || c.Retention != jetstream.LimitsPolicy {
		return nil, errors.New("its configuration lets events be removed; it was changed by somebody else")
	}
	return stream, checkWhole(info.State)
}

// checkWhole reports missing events: an append-only stream without limits
// starts at 1 and has as many messages as its last position says.
func checkWhole(st jetstream.StreamState) error {
	switch {
	case st.LastSeq == 0:
		return nil
	case st.FirstSeq != 1:
		return fmt.Errorf("%w: events 1 to %d are missing", events.ErrDamaged, st.FirstSeq-1)
	case st.NumDeleted != 0 || st.Msgs != st.LastSeq:
		return fmt.Errorf("%w: %d of %d events are missing", events.ErrDamaged, st.LastSeq-st.Msgs, st.LastSeq)
	default:
		return nil
	}
}

func (s *Store) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        volume.Stream(),
		Description: "Daybook ledger: append-only",
		Subjects:    []string{volume.Subjects()},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Replicas:    s.opts.Replicas,
		DenyDelete:  true,
		DenyPurge:   true,
		AllowDirect: true,
		// Long enough for every retry of an append; what is older is found by
		// reading the subject.
		Duplicates: 2 * time.Minute,
		MaxMsgSize: events.MaxEventBytes + 16<<10, // body and headers
		// Subscribers follow the republished events: on the subjects of the
		// stream itself they would see events that it then rejects.
		RePublish: &jetstream.RePublish{
			Source:      fmt.Sprintf("ledger.%04d.*.>", int(volume)),
			Destination: "events.{{wildcard(1)}}.>",
		},
	}
}

// LastSeq is the position of the newest event, 0 in an empty ledger.
func (s *Store) LastSeq(ctx context.Context) (uint64, error) {
	info, err := s.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the ledger's last position: %w", err)
	}
	return info.State.LastSeq, nil
}

// Health reports whether the ledger can be read and written now.
func (s *Store) Health(ctx context.Context) error {
	for _, nc := range []*nats.Conn{s.publish, s.consume} {
		if !nc.IsConnected() {
			return fmt.Errorf("NATS connection is %s", nc.Status())
		}
	}
	info, err := s.stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("reach the ledger: %w", err)
	}
	return checkWhole(info.State)
}
