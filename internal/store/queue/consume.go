package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/runner"
)

// holdPause is how long a request is not delivered again that came when no work may
// be taken.
const holdPause = time.Second

// delivery is a request that was passed to a runner. Heartbeats are sent for it until it
// is acknowledged or given back, or the function it was passed to returns.
type delivery struct {
	e     events.Event
	msg   *nats.Msg
	pool  string
	work  *Queue
	beat  *heartbeat
	acked func() // called once the request is acknowledged
}

// ack reports the request as dealt with and waits until that is noted.
func (d delivery) ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.work.jet.Options.TryWait)
	defer cancel()
	if _, err := d.work.jet.WorkConn.RequestWithContext(ctx, d.msg.Reply, []byte("+ACK")); err != nil {
		return fmt.Errorf("acknowledge %s: %w", d.e.About(), err)
	}
	d.beat.stop()
	d.acked()
	return nil
}

// nak gives the request back, to be delivered again after delay, and waits
// until that is noted.
func (d delivery) nak(ctx context.Context, delay time.Duration) error {
	// A sign of life after this one would take it back.
	d.beat.stop()
	ctx, cancel := context.WithTimeout(ctx, d.work.jet.Options.TryWait)
	defer cancel()
	if _, err := d.work.jet.WorkConn.RequestWithContext(ctx, d.msg.Reply, nak(delay)); err != nil {
		return fmt.Errorf("give back %s: %w", d.e.About(), err)
	}
	d.work.announceReturned(d.pool, d.e.Tenant, delay)
	return nil
}

func nak(delay time.Duration) []byte {
	if delay <= 0 {
		return []byte("-NAK")
	}
	return fmt.Appendf(nil, `-NAK {"delay":%d}`, delay.Nanoseconds())
}

// Consume calls fn for each run request of a pool, each call on a goroutine of
// its own, at most as many at a time as there are slots, not counting one for each
// slot that gave it up with Free. Which tenant's request a free slot takes is the
// decision of a fairness.Scheduler; requests of one tenant are taken by session in
// turn. fn's context carries ctx's values but not its end. When ctx is done
// Consume takes no more, gives back what arrived meanwhile, and returns nil
// once every fn has returned. Other errors mean that it could not begin.
//
// Requests are delivered at least once. What fn neither acknowledges nor gives
// back, or whose holder dies, is delivered again after Options.AckWait.
func (s *Queue) Consume(ctx context.Context, pool string, slots fairness.Slots, fn func(ctx context.Context, d runner.Delivery)) error {
	if err := slots.Check(); err != nil {
		return fmt.Errorf("consume pool %s: %w", pool, err)
	}
	if err := jet.CheckTokens(pool); err != nil {
		return fmt.Errorf("consume pool: %w", err)
	}
	c := newConsumption(s, pool, slots, fn)
	// An end that ctx asked for is not an error.
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("consume pool %s: %w", pool, err)
	}
	return nil
}

// fromSubject is what the subject of a request says of it. The server has matched
// the subject with events.PoolSubjects: "ledger.0001.<tenant>.run.<pool>.<id>".
func fromSubject(seq uint64, subject string) events.Event {
	t := strings.Split(subject, ".")
	if len(t) != 6 {
		return events.Event{Seq: seq, Data: &events.Unknown{StoredSubject: subject}}
	}
	return events.Event{
		Seq: seq, Tenant: t[2], Type: events.TypeExecutionRequested,
		Data: &events.Unknown{Type: events.TypeExecutionRequested, StoredSubject: subject, Concerns: t[5]},
	}
}

// replyInfo is what the server writes into the reply subject of a delivery.
type replyInfo struct {
	delivered int
	seq       uint64
	// pending is how many messages the consumer has that were never delivered.
	pending uint64
}

// parseReply reads "$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.
// <consumer seq>.<time>.<pending>", or the longer form, which names a domain
// and an account after "$JS.ACK" and may end in a token of no meaning.
func parseReply(reply string) (replyInfo, error) {
	t := strings.Split(reply, ".")
	if len(t) < 9 || t[0] != "$JS" || t[1] != "ACK" || len(t) == 10 {
		return replyInfo{}, fmt.Errorf("the reply subject is %q", reply)
	}
	if len(t) > 9 {
		t = append(t[:2:2], t[4:]...)
	}
	delivered, err := strconv.Atoi(t[4])
	if err != nil || delivered < 1 {
		return replyInfo{}, fmt.Errorf("the reply subject %q counts %q deliveries", reply, t[4])
	}
	seq, err := strconv.ParseUint(t[5], 10, 64)
	if err != nil || seq == 0 {
		return replyInfo{}, fmt.Errorf("the reply subject %q names position %q", reply, t[5])
	}
	pending, _ := strconv.ParseUint(t[8], 10, 64) // without it, nothing is planned ahead
	return replyInfo{delivered: delivered, seq: seq, pending: pending}, nil
}

// heartbeat tells the server that a delivery is being worked on.
type heartbeat struct {
	once sync.Once
	quit chan struct{}
	gone chan struct{}
}

func (s *Queue) startHeartbeat(reply string) *heartbeat {
	h := &heartbeat{quit: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(h.gone)
		tick := time.NewTicker(max(s.opts.AckWait*3/10, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				// A missed one is made up for by the next, and if the connection
				// is gone somebody else should have the work.
				_ = s.jet.WorkConn.Publish(reply, []byte("+WPI"))
			case <-h.quit:
				return
			}
		}
	}()
	return h
}

// stop returns when no further sign of life will be sent.
func (h *heartbeat) stop() {
	h.once.Do(func() { close(h.quit) })
	<-h.gone
}
