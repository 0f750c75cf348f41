package jetstream

import (
	"context"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
)

const (
	// sprintFrom is how many events must be waiting for a sprint to be worth its
	// consumer.
	sprintFrom = 5 * batchMessages
	// sprintIdle is how long the server keeps the consumer of a sprint whose
	// process died.
	sprintIdle = 30 * time.Second
)

// sprint reads far more events of one volume than fit one answer, through a consumer that
// lasts as long: almost three times as fast as asking for them. It returns the
// position it came to. It decides nothing: whatever is unusual, a hole, an
// event that cannot be read, silence, ends it early, and is met again and named
// by the requests that follow. An error means that ctx is done.
func (s *Store) sprint(ctx context.Context, after, end uint64, form form, pages chan<- page) (uint64, error) {
	now := s.volumes()
	stream := now.list[now.from(after+1)].stream()
	running, stop := context.WithCancel(ctx)
	defer stop()
	c, err := s.work.OrderedConsumer(running, stream, natsjs.OrderedConsumerConfig{
		DeliverPolicy:     natsjs.DeliverByStartSequencePolicy,
		OptStartSeq:       after + 1,
		InactiveThreshold: sprintIdle,
	})
	if err != nil {
		return after, ctx.Err()
	}
	arrived := make(chan natsjs.Msg, 2*batchMessages)
	consuming, err := c.Consume(func(m natsjs.Msg) {
		select {
		case arrived <- m:
		case <-running.Done():
		}
	}, natsjs.PullMaxMessages(2*batchMessages))
	if err != nil {
		return after, ctx.Err()
	}
	defer func() {
		stop()
		consuming.Stop()
		// Without this it ends by itself, after sprintIdle.
		_ = s.work.DeleteConsumer(context.WithoutCancel(ctx), stream, c.CachedInfo().Name)
	}()
	silence := time.NewTimer(s.opts.TryWait)
	defer silence.Stop()
	for after < end {
		select {
		case m := <-arrived:
			p := newPage(form, after, min(len(arrived)+1, batchMessages))
			whole := s.gather(m, arrived, &p)
			if p.end == after {
				return after, ctx.Err()
			}
			p.last = max(end, p.end, s.last.Load())
			select {
			case pages <- p:
				after = p.end
			case <-ctx.Done():
				return after, context.Cause(ctx)
			}
			if !whole {
				return after, nil
			}
			silence.Reset(s.opts.TryWait)
		case <-silence.C:
			return after, nil
		case <-ctx.Done():
			return after, context.Cause(ctx)
		}
	}
	return after, nil
}

// gather adds to an empty page a message and those that have arrived behind it,
// up to a full batch. It reports false when it stopped at one that is not the
// next event.
func (s *Store) gather(m natsjs.Msg, arrived <-chan natsjs.Msg, p *page) (whole bool) {
	for n := 1; ; n++ {
		next, ok := sprinted(m, p.end)
		if !ok || s.add(p, next) != nil {
			return false
		}
		if n == batchMessages {
			return true
		}
		select {
		case m = <-arrived:
		default:
			return true
		}
	}
}

// sprinted is the message that follows a position, or false for any other.
func sprinted(m natsjs.Msg, after uint64) (stored, bool) {
	meta, err := m.Metadata()
	if err != nil || meta.Sequence.Stream != after+1 {
		return stored{}, false
	}
	return stored{seq: after + 1, subject: m.Subject(), header: m.Headers(), data: m.Data()}, true
}
