package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Delivery is a run handed to this process. Exactly one of Ack and Nak ends
// it; without either it is delivered again after AckWait.
type Delivery struct {
	// Event is the requested event.
	Event events.Event
	// Delivered counts deliveries from 1, as far as the server remembers.
	Delivered int

	msg jetstream.Msg
}

// Ack reports the run as dealt with and waits until the server has noted it.
func (d Delivery) Ack(ctx context.Context) error {
	if err := d.msg.DoubleAck(ctx); err != nil {
		return fmt.Errorf("acknowledge run %s: %w", d.Event.About(), err)
	}
	return nil
}

// Nak gives the run back, to be delivered again after delay.
func (d Delivery) Nak(_ context.Context, delay time.Duration) error {
	if err := d.msg.NakWithDelay(delay); err != nil {
		return fmt.Errorf("give back run %s: %w", d.Event.About(), err)
	}
	return nil
}

// Consume hands the runs of a pool to fn, slots at a time, each from its own
// goroutine, and keeps the server informed that they are being worked on. When
// ctx is done it takes no more, waits for the fn that are running, and returns
// nil. fn's context is not cancelled by ctx: ending early is fn's decision.
func (s *Store) Consume(ctx context.Context, pool string, slots int, fn func(ctx context.Context, d Delivery)) error {
	consumer, err := s.workConsumer(ctx, pool)
	if err != nil {
		return fmt.Errorf("open the work of pool %s: %w", pool, err)
	}
	var running sync.WaitGroup
	for range slots {
		// A slot asks for one run at a time, so that no run waits unstarted in
		// a buffer while its acknowledgement falls due.
		running.Go(func() { s.serveSlot(ctx, consumer, fn) })
	}
	running.Wait()
	return nil
}

func (s *Store) serveSlot(ctx context.Context, consumer jetstream.Consumer, fn func(context.Context, Delivery)) {
	for ctx.Err() == nil {
		msg, err := s.nextWork(ctx, consumer)
		if err != nil {
			if ctx.Err() == nil {
				s.opts.Logger.WarnContext(ctx, "waiting for work", "error", err)
				pause(ctx, time.Second)
			}
			continue
		}
		if msg != nil {
			s.work(ctx, msg, fn)
		}
	}
}

// nextWork waits for a run; it returns nil when none came for a while.
func (s *Store) nextWork(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	waiting, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(waiting))
	if err != nil {
		return nil, err
	}
	var got jetstream.Msg
	for msg := range batch.Messages() {
		got = msg
	}
	if got != nil && ctx.Err() != nil {
		// It came as we stopped: somebody else may have it at once.
		return nil, got.Nak()
	}
	if err := batch.Error(); err != nil && got == nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return got, nil
}

// work runs fn for one message with a heartbeat beside it.
func (s *Store) work(ctx context.Context, msg jetstream.Msg, fn func(context.Context, Delivery)) {
	e, meta, err := decodeMsg(msg)
	if err != nil {
		// Nothing here can ever run it. It stays in the ledger, where the
		// projector reports it as damage.
		s.opts.Logger.ErrorContext(ctx, "a run request cannot be read and is set aside", "subject", msg.Subject(), "error", err)
		if err := msg.TermWithReason("cannot be read"); err != nil {
			s.opts.Logger.ErrorContext(ctx, "setting a run request aside", "error", err)
		}
		return
	}
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		beat := time.NewTicker(s.opts.AckWait / 3)
		defer beat.Stop()
		for {
			select {
			case <-done:
				return
			case <-beat.C:
				if err := msg.InProgress(); err != nil {
					s.opts.Logger.WarnContext(ctx, "sending a heartbeat", "execution", e.About(), "error", err)
				}
			}
		}
	})
	fn(context.WithoutCancel(ctx), Delivery{Event: e, Delivered: int(meta.NumDelivered), msg: msg})
	close(done)
	beating.Wait()
}

// workConsumer finds or creates the durable consumer of a pool.
func (s *Store) workConsumer(ctx context.Context, pool string) (jetstream.Consumer, error) {
	cfg := jetstream.ConsumerConfig{
		Durable:       WorkConsumer(pool),
		Description:   "runs of pool " + pool,
		FilterSubject: volume.PoolSubjects(pool),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       s.opts.AckWait,
		MaxDeliver:    -1, // attempts are counted from started events
		MaxAckPending: 10_000,
		MaxWaiting:    4096,
	}
	consumer, err := s.consumeJS.Consumer(ctx, volume.Stream(), cfg.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return s.consumeJS.CreateOrUpdateConsumer(ctx, volume.Stream(), cfg)
	}
	if err != nil {
		return nil, err
	}
	info := consumer.CachedInfo()
	if !s.opts.Exclusive || info.NumAckPending == 0 {
		return consumer, nil
	}
	// An earlier process died with work in hand. Nobody else can be holding it,
	// so start over after the last run that everything before is done with;
	// runs past it that had ended are recognised as such and only acknowledged.
	if err := s.consumeJS.DeleteConsumer(ctx, volume.Stream(), cfg.Durable); err != nil {
		return nil, err
	}
	cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, info.AckFloor.Stream+1
	return s.consumeJS.CreateOrUpdateConsumer(ctx, volume.Stream(), cfg)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
