package stream

import (
	"context"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"daybook/events"
	"daybook/internal/store/jet"
)

const (
	// bulkReadThreshold is how many events must be waiting for a sprint to be worth its
	// consumer.
	bulkReadThreshold = 5 * jet.BatchMessages
	// bulkConsumerTTL is how long the server keeps the consumer of a sprint whose
	// process died.
	bulkConsumerTTL = 30 * time.Second
	// sprintBytes bounds the messages that the server sends before a sprint has
	// taken others, and likewise those that have arrived. It is many times
	// events.MaxEventBytes: the server sends no message that is larger than what it
	// may send.
	sprintBytes = 4 << 20
	// pageBytes is from which size on a page is complete, in bytes.
	pageBytes = 1 << 20
)

// bulkRead reads far more events of one volume than fit one answer, through a consumer that
// lasts as long: almost three times as fast as asking for them. It returns the
// position it came to. It decides nothing: whatever is unusual, a hole, an
// event that cannot be read, silence, ends it early, and is met again and named
// by the requests that follow. An error means that ctx is done.
func (s *Ledger) bulkRead(ctx context.Context, after, end uint64, form pageContent, pages chan<- page) (uint64, error) {
	now := s.volumes()
	stream := now.list[now.indexOf(after+1)].stream()
	running, stop := context.WithCancel(ctx)
	defer stop()
	c, err := s.jet.WorkJS.OrderedConsumer(running, stream, natsjs.OrderedConsumerConfig{
		DeliverPolicy:     natsjs.DeliverByStartSequencePolicy,
		OptStartSeq:       after + 1,
		InactiveThreshold: bulkConsumerTTL,
	})
	if err != nil {
		return after, ctx.Err()
	}
	a := arrivals{messages: make(chan natsjs.Msg, 2*jet.BatchMessages), bytes: semaphore.NewWeighted(sprintBytes)}
	// A limit of messages alone would let 2,000 large ones arrive at once.
	consuming, err := c.Consume(func(m natsjs.Msg) { a.put(running, m) }, natsjs.PullMaxBytes(sprintBytes))
	if err != nil {
		return after, ctx.Err()
	}
	defer func() {
		stop()
		consuming.Stop()
		// Without this it ends by itself, after bulkConsumerTTL.
		_ = s.jet.WorkJS.DeleteConsumer(context.WithoutCancel(ctx), stream, c.CachedInfo().Name)
	}()
	silence := time.NewTimer(s.jet.Options.TryWait)
	defer silence.Stop()
	for after < end {
		select {
		case m := <-a.messages:
			p := newPage(form, after, min(len(a.messages)+1, jet.BatchMessages))
			whole := s.drainBatch(m, a, &p)
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
			silence.Reset(s.jet.Options.TryWait)
		case <-silence.C:
			return after, nil
		case <-ctx.Done():
			return after, context.Cause(ctx)
		}
	}
	return after, nil
}

// arrivals are messages that have arrived and that no page holds yet.
type arrivals struct {
	messages chan natsjs.Msg
	bytes    *semaphore.Weighted
}

// put adds a message, and waits while there are too many.
func (a arrivals) put(ctx context.Context, m natsjs.Msg) {
	n := arrivalBytes(m)
	if a.bytes.Acquire(ctx, n) != nil {
		return
	}
	select {
	case a.messages <- m:
	case <-ctx.Done():
	}
}

// taken lets others arrive in place of a message.
func (a arrivals) taken(m natsjs.Msg) { a.bytes.Release(arrivalBytes(m)) }

func arrivalBytes(m natsjs.Msg) int64 { return min(int64(len(m.Data())), sprintBytes) }

// drainBatch adds to an empty page a message and those that have arrived behind it,
// up to a full page. It reports false when it stopped at one that is not the
// next event.
func (s *Ledger) drainBatch(m natsjs.Msg, a arrivals, p *page) (whole bool) {
	for n := 1; ; n++ {
		a.taken(m)
		next, ok := nextInSequence(m, p.end)
		if !ok || s.Lost().Unreadable(next.Seq) || s.add(p, next) != nil {
			return false
		}
		if n == jet.BatchMessages || p.held >= pageBytes {
			return true
		}
		select {
		case m = <-a.messages:
		default:
			return true
		}
	}
}

// nextInSequence is the message that follows a position, or false for any other.
func nextInSequence(m natsjs.Msg, after uint64) (events.Stored, bool) {
	meta, err := m.Metadata()
	if err != nil || meta.Sequence.Stream != after+1 {
		return events.Stored{}, false
	}
	return events.Stored{Seq: after + 1, Subject: m.Subject(), Header: m.Headers(), Body: m.Data()}, true
}
