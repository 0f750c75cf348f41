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
	// bulkReadThreshold is how many events must be pending for a bulk read to be worth
	// its consumer.
	bulkReadThreshold = 5 * jet.BatchMessages
	// bulkConsumerTTL is how long the server keeps the consumer of a process that died.
	bulkConsumerTTL = 30 * time.Second
	// bulkReadBytes bounds, in bytes, the messages that the server sends ahead, and
	// separately the arrived messages that are in no page yet. It is many times
	// events.MaxEventBytes, because the server does not send a message that is larger than
	// what is left of the bound.
	bulkReadBytes = 4 << 20
	// pageBytes is the size in bytes from which a page is complete.
	pageBytes = 1 << 20
)

// bulkRead reads many events of one volume through a temporary consumer. It is almost
// three times as fast as batch requests. It returns the last position that it read. A
// gap, an unreadable event or silence ends it early without an error; the next batch
// request finds and reports the problem. An error means that ctx is done.
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
	a := arrivals{messages: make(chan natsjs.Msg, 2*jet.BatchMessages), bytes: semaphore.NewWeighted(bulkReadBytes)}
	// With a limit on messages alone, 2,000 large ones could arrive at once.
	consuming, err := c.Consume(func(m natsjs.Msg) { a.put(running, m) }, natsjs.PullMaxBytes(bulkReadBytes))
	if err != nil {
		return after, ctx.Err()
	}
	defer func() {
		stop()
		consuming.Stop()
		// Otherwise the server deletes it only after bulkConsumerTTL.
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
			p.last = max(end, p.end, s.lastStored.Load())
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

// arrivals holds messages that have arrived and are in no page yet.
type arrivals struct {
	messages chan natsjs.Msg
	bytes    *semaphore.Weighted
}

// put adds a message. It blocks while too many bytes are waiting.
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

// release releases the space of a message.
func (a arrivals) release(m natsjs.Msg) { a.bytes.Release(arrivalBytes(m)) }

func arrivalBytes(m natsjs.Msg) int64 { return min(int64(len(m.Data())), bulkReadBytes) }

// drainBatch adds m and the messages that arrived after it to an empty page, up to a
// full page. It returns false if it stopped at a message that is not the next event.
func (s *Ledger) drainBatch(m natsjs.Msg, a arrivals, p *page) (whole bool) {
	for n := 1; ; n++ {
		a.release(m)
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

// nextInSequence returns the message if its position is after+1; otherwise false.
func nextInSequence(m natsjs.Msg, after uint64) (events.Stored, bool) {
	meta, err := m.Metadata()
	if err != nil || meta.Sequence.Stream != after+1 {
		return events.Stored{}, false
	}
	return events.Stored{Seq: after + 1, Subject: m.Subject(), Header: m.Headers(), Body: m.Data()}, true
}
