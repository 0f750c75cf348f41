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

// delivery is a request that was passed to a runner. Its ack deadline is extended until
// it is acknowledged or returned, or until the function of Consume returns.
type delivery struct {
	e     events.Event
	msg   *nats.Msg
	pool  string
	work  *Queue
	beat  *heartbeat
	onAck func() // called once the request is acknowledged
}

// ack reports the request as finished and waits until the server has stored that.
func (d delivery) ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.work.jet.Options.TryWait)
	defer cancel()
	if _, err := d.work.jet.WorkConn.RequestWithContext(ctx, d.msg.Reply, []byte("+ACK")); err != nil {
		return fmt.Errorf("acknowledge %s: %w", d.e.About(), err)
	}
	d.beat.stop()
	d.onAck()
	return nil
}

// nak returns the request, to be delivered again after delay, and waits until the
// server has stored that.
func (d delivery) nak(ctx context.Context, delay time.Duration) error {
	// A later heartbeat would revoke the nak.
	d.beat.stop()
	ctx, cancel := context.WithTimeout(ctx, d.work.jet.Options.TryWait)
	defer cancel()
	if _, err := d.work.jet.WorkConn.RequestWithContext(ctx, d.msg.Reply, nak(delay)); err != nil {
		return fmt.Errorf("return the request of %s: %w", d.e.About(), err)
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

// Consume calls fn for each run request of a pool, each call on a goroutine of its own.
// A call holds a slot until it calls ReleaseSlot or returns. While more calls without a
// slot run than there are slots, no further call starts. A fairness.Scheduler selects the
// tenant whose request a free slot takes. Within a tenant, sessions take turns. The
// context of fn has the values of ctx and is not canceled with it.
//
// When ctx is done, Consume takes no more requests, and naks those that have arrived and
// were not passed to fn. It returns nil after every fn has returned. An error means that
// it could not start.
//
// Requests are delivered at least once. A request that fn neither acknowledges nor
// returns, or whose process died, is delivered again after Options.AckWait.
func (s *Queue) Consume(ctx context.Context, pool string, slots fairness.Slots, fn func(ctx context.Context, d runner.Delivery)) error {
	if err := slots.Check(); err != nil {
		return fmt.Errorf("consume pool %s: %w", pool, err)
	}
	if err := jet.CheckTokens(pool); err != nil {
		return fmt.Errorf("consume pool: %w", err)
	}
	c := newPoolConsumer(s, pool, slots, fn)
	// It is no error that ctx is done.
	if err := c.run(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("consume pool %s: %w", pool, err)
	}
	return nil
}

// fromSubject returns an event with the data in the subject of a request. The server
// has matched the subject with events.PoolSubjects:
// "ledger.0001.<tenant>.run.<pool>.<id>".
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

// replyInfo is the data in the reply subject of a delivery.
type replyInfo struct {
	delivered int
	seq       uint64
	// pending is the number of messages that the consumer has never delivered.
	pending uint64
}

// parseReply parses a reply subject of this form:
//
//	$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
//
// It also parses the longer form with a domain and an account after "$JS.ACK", and
// possibly an unused token at the end.
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
	pending, _ := strconv.ParseUint(t[8], 10, 64) // without it, no requests are taken ahead
	return replyInfo{delivered: delivered, seq: seq, pending: pending}, nil
}

// heartbeat extends the ack deadline of a delivery.
type heartbeat struct {
	once    sync.Once
	quit    chan struct{}
	stopped chan struct{}
}

func (s *Queue) startHeartbeat(reply string) *heartbeat {
	h := &heartbeat{quit: make(chan struct{}), stopped: make(chan struct{})}
	go func() {
		defer close(h.stopped)
		tick := time.NewTicker(max(s.opts.AckWait*3/10, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				// The next heartbeat makes up for a lost one. If the connection is closed,
				// another runner should take the request.
				_ = s.jet.WorkConn.Publish(reply, []byte("+WPI"))
			case <-h.quit:
				return
			}
		}
	}()
	return h
}

// stop ends the heartbeats and returns when no further one will be sent.
func (h *heartbeat) stop() {
	h.once.Do(func() { close(h.quit) })
	<-h.stopped
}
