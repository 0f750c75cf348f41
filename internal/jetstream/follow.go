package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// followBatch bounds a batch given to a follower.
const followBatch = 1000

// Follow calls fn with every event after a position, in order, as they are
// recorded: in batches as large as are at hand, never waiting to fill one. last
// is the newest position known to exist. It blocks until ctx is done or fn
// returns an error. A missing position is events.ErrDamaged: it is never
// skipped.
func (s *Store) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	consumer, err := s.consumeJS.OrderedConsumer(ctx, volume.Stream(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:   after + 1,
	})
	if err != nil {
		return fmt.Errorf("follow the ledger after %d: %w", after, err)
	}
	incoming := make(chan jetstream.Msg, 2*followBatch)
	failed := make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case incoming <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxMessages(2*followBatch), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrNoHeartbeat) {
			return // an ordered consumer replaces itself
		}
		select {
		case failed <- err:
		default:
		}
	}))
	if err != nil {
		return fmt.Errorf("follow the ledger after %d: %w", after, err)
	}
	defer consuming.Stop()
	batch := make([]events.Event, 0, followBatch)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			s.opts.Logger.WarnContext(ctx, "following the ledger", "error", err)
			continue
		case <-consuming.Closed():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("follow the ledger after %d: the server ended the subscription", after)
		case m := <-incoming:
			batch = batch[:0]
			var last uint64
			for more := true; more; {
				e, meta, err := decodeMsg(m)
				if err != nil {
					return fmt.Errorf("%w: %w", events.ErrDamaged, err)
				}
				if e.Seq != after+1 {
					return fmt.Errorf("%w: event %d is followed by %d", events.ErrDamaged, after, e.Seq)
				}
				after, last = e.Seq, e.Seq+meta.NumPending
				batch = append(batch, e)
				more = false
				if len(batch) < followBatch {
					select {
					case m = <-incoming:
						more = true
					default:
					}
				}
			}
			if err := fn(batch, last); err != nil {
				return err
			}
		}
	}
}
