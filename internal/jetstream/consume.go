package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

const (
	// pullExpires is how long the server keeps a request for work; pullBeat how
	// often it shows meanwhile that it has not forgotten it.
	pullExpires = 30 * time.Second
	pullBeat    = 5 * time.Second
	// maxAckPending is how many runs of a pool may be in hand at once, over all
	// runners.
	maxAckPending = 100_000
	// holdPause is how long a request is not delivered again that came when no work may
	// be taken.
	holdPause = time.Second
	// maxReclaim bounds how many positions are looked through for the work of
	// an earlier process.
	maxReclaim = 200_000
)

// Delivery is a run request in a runner's hands. Signs of life are sent for it
// until it is acknowledged or given back, or the function it was passed to
// returns.
type Delivery struct {
	// Event is the requested event.
	Event events.Event
	// Delivered counts deliveries from 1.
	Delivered int

	msg   *nats.Msg
	store *Store
	beat  *heartbeat
	free  func()
}

// Free gives up the slot: the next request may be taken although the function
// that the delivery was passed to still has something to do. It may be called
// more than once.
func (d Delivery) Free() { d.free() }

// Ack reports the request as dealt with and waits until that is noted.
func (d Delivery) Ack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.store.opts.TryWait)
	defer cancel()
	if _, err := d.store.consume.RequestWithContext(ctx, d.msg.Reply, []byte("+ACK")); err != nil {
		return fmt.Errorf("acknowledge %s: %w", d.Event.About(), err)
	}
	d.beat.stop()
	return nil
}

// Nak gives the request back, to be delivered again after delay, and waits
// until that is noted.
func (d Delivery) Nak(ctx context.Context, delay time.Duration) error {
	// A sign of life after this one would take it back.
	d.beat.stop()
	ctx, cancel := context.WithTimeout(ctx, d.store.opts.TryWait)
	defer cancel()
	if _, err := d.store.consume.RequestWithContext(ctx, d.msg.Reply, nak(delay)); err != nil {
		return fmt.Errorf("give back %s: %w", d.Event.About(), err)
	}
	return nil
}

func nak(delay time.Duration) []byte {
	if delay <= 0 {
		return []byte("-NAK")
	}
	return fmt.Appendf(nil, `-NAK {"delay":%d}`, delay.Nanoseconds())
}

// WorkConsumer is the name of the durable consumer that hands out the runs of a
// pool, for access rules.
func WorkConsumer(pool string) string { return "runners-" + pool }

// Consume calls fn for each run request of a pool, each call on a goroutine of
// its own, at most slots at a time, not counting one for each slot that gave it
// up with Free. It takes a request only when a slot is free. fn's context carries ctx's values but not its end. When ctx is done
// Consume takes no more, gives back what arrived meanwhile, and returns nil
// once every fn has returned. Other errors mean that it could not begin.
//
// Requests are delivered at least once. What fn neither acknowledges nor gives
// back, or whose holder dies, is delivered again after Options.AckWait. A
// request that cannot be read will not become readable: it is logged and never
// delivered again.
func (s *Store) Consume(ctx context.Context, pool string, slots int, fn func(ctx context.Context, d Delivery)) error {
	if slots < 1 {
		return fmt.Errorf("consume pool %s: %d slots", pool, slots)
	}
	if err := checkTokens(pool); err != nil {
		return fmt.Errorf("consume pool: %w", err)
	}
	c := &consumption{store: s, pool: pool, fn: fn}
	switch _, err := c.arrange(ctx); {
	case err == nil:
	case ctx.Err() != nil:
		return nil //nolint:nilerr // it was told to end, which is not an error
	default:
		return fmt.Errorf("consume pool %s: %w", pool, err)
	}
	if s.opts.Exclusive {
		for _, v := range append(c.unfinished(), s.volumes().active()) {
			if err := c.reclaim(ctx, v); err != nil {
				s.log.WarnContext(ctx, "work of an earlier process is only taken over when its time is up", "pool", pool, "volume", v.number, "err", err)
			}
		}
	}
	var running sync.WaitGroup
	for range slots {
		running.Go(func() { c.slot(ctx) })
	}
	running.Wait()
	return nil
}

// consumption is one call of Consume.
type consumption struct {
	store *Store
	pool  string
	fn    func(ctx context.Context, d Delivery)
	backlog
}

func (c *consumption) config(v volume) natsjs.ConsumerConfig {
	return natsjs.ConsumerConfig{
		Durable:       WorkConsumer(c.pool),
		Description:   "run requests of pool " + c.pool,
		FilterSubject: v.number.PoolSubjects(c.pool),
		DeliverPolicy: natsjs.DeliverAllPolicy,
		AckPolicy:     natsjs.AckExplicitPolicy,
		AckWait:       c.store.opts.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
		// Every slot of every runner has a request waiting.
		MaxWaiting: 10_000,
	}
}

// ensure makes the pool's consumer of a volume unless it exists, and describes
// it. It forgets nothing: what was dealt with stays so.
func (c *consumption) ensure(ctx context.Context, v volume) (*natsjs.ConsumerInfo, error) {
	s := c.store
	got, err := s.work.Consumer(ctx, v.stream(), WorkConsumer(c.pool))
	made := errors.Is(err, natsjs.ErrConsumerNotFound)
	switch {
	case made:
		got, err = s.work.CreateConsumer(ctx, v.stream(), c.config(v))
	case err == nil && got.CachedInfo().Config.AckWait != s.opts.AckWait:
		got, err = s.work.UpdateConsumer(ctx, v.stream(), c.config(v))
	}
	if err != nil {
		return nil, err
	}
	if made {
		if err := s.sync(); err != nil {
			return nil, err
		}
	}
	return got.CachedInfo(), nil
}

// reclaim has everything in hand delivered again. The consumer's state names
// what was delivered and not acknowledged only as a range of positions; giving
// back a position that is not in hand does nothing.
func (c *consumption) reclaim(ctx context.Context, v volume) error {
	s := c.store
	ctx, cancel := context.WithTimeout(ctx, s.opts.TryWait) // the flush insists on one
	defer cancel()
	got, err := s.work.Consumer(ctx, v.stream(), WorkConsumer(c.pool))
	if err != nil {
		return err
	}
	info := got.CachedInfo()
	if info.NumAckPending == 0 {
		return nil
	}
	first, last := max(info.AckFloor.Stream+1, v.first), info.Delivered.Stream
	if last-first >= maxReclaim {
		return fmt.Errorf("positions %d to %d are too many to look through", first, last)
	}
	for seq := first; seq <= last; seq++ {
		if err := s.consume.Publish(workReply(info, seq), nak(0)); err != nil {
			return err
		}
	}
	return s.consume.FlushWithContext(ctx)
}

// slot runs one request after the other, each beside what the one before it
// still has to do.
func (c *consumption) slot(ctx context.Context) {
	p := &puller{consumption: c}
	defer p.close()
	before := make(chan struct{})
	close(before)
	defer func() { <-before }()
	for ctx.Err() == nil {
		if c.store.hold() != nil {
			p.close()
			_ = wait(ctx, retryPause) // the loop looks at ctx
			continue
		}
		m, err := p.next(ctx)
		switch {
		case err == nil && c.store.hold() != nil:
			_ = c.store.consume.Publish(m.Reply, nak(holdPause)) // else it comes again when its time is up
		case err == nil:
			freed, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				c.run(ctx, m, sync.OnceFunc(func() { close(freed) }))
			}()
			select {
			case <-freed:
			case <-ended:
			}
			<-before
			before = ended
		case ctx.Err() != nil:
			// Done: see close for what arrives meanwhile.
		case errors.Is(err, errNextVolume):
			p.close()
		default:
			c.store.log.WarnContext(ctx, "asking for work", "pool", c.pool, "err", err)
			p.close()
			if errors.Is(err, natsjs.ErrConsumerDeleted) || errors.Is(err, nats.ErrNoResponders) {
				c.forget()
			}
			_ = wait(ctx, retryPause) // the loop looks at ctx
		}
	}
}

// run passes one message to the function, with signs of life meanwhile.
func (c *consumption) run(ctx context.Context, m *nats.Msg, free func()) {
	s := c.store
	at, err := parseReply(m.Reply)
	if err != nil {
		s.log.ErrorContext(ctx, "a message on the work queue is not a delivery", "subject", m.Subject, "err", err)
		return
	}
	e, err := s.opened(events.Decode(at.seq, events.Message{Subject: m.Subject, Header: m.Header, Body: m.Data}))
	if err != nil {
		s.log.ErrorContext(ctx, "a run request cannot be read and will never run", "position", at.seq, "subject", m.Subject, "err", err)
		reason := strings.Join(strings.Fields(err.Error()), " ")
		if err := s.consume.Publish(m.Reply, []byte("+TERM "+reason)); err != nil {
			s.log.WarnContext(ctx, "setting aside a run request", "position", at.seq, "err", err)
		}
		return
	}
	d := Delivery{Event: e, Delivered: at.delivered, msg: m, store: s, beat: s.startHeartbeat(m.Reply), free: free}
	defer d.beat.stop()
	c.fn(context.WithoutCancel(ctx), d)
}

// replyInfo is what the server writes into the reply subject of a delivery.
type replyInfo struct {
	delivered int
	seq       uint64
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
	return replyInfo{delivered: delivered, seq: seq}, nil
}

// heartbeat tells the server that a delivery is being worked on.
type heartbeat struct {
	once sync.Once
	quit chan struct{}
	gone chan struct{}
}

func (s *Store) startHeartbeat(reply string) *heartbeat {
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
				_ = s.consume.Publish(reply, []byte("+WPI"))
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
