package queue

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Runners of a pool announce to each other what no event says, at most once and
// outside of the ledger: that a request was given back, and that a slot is free for
// which there is no request. What an announcement that is lost was about is found
// by the next look at the consumers.
const announcePrefix = "work."

func returnedSubject(pool, tenant string) string {
	return announcePrefix + pool + ".returned." + tenant
}

func hungrySubject(pool string) string { return announcePrefix + pool + ".hungry" }

// announceReturned lets the runners of a pool know that a request of a tenant was
// given back and is available after a delay.
func (s *Queue) announceReturned(pool, tenant string, delay time.Duration) {
	if delay > lookEvery {
		return // the next look finds it early enough
	}
	// Lost, it costs the time until the next look.
	_ = s.jet.WorkConn.Publish(returnedSubject(pool, tenant), strconv.AppendInt(nil, delay.Milliseconds(), 10))
}

// listen subscribes to the requests of the pool as they are stored, and to what
// other runners announce.
func (c *poolConsumer) listen() (stop func(), err error) {
	nc := c.work.jet.WorkConn
	var subs []*nats.Subscription
	stop = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // fails only when the connection is gone
		}
	}
	for subject, heard := range map[string]nats.MsgHandler{
		"events.*.run." + c.pool + ".*": c.heardRequest,
		returnedSubject(c.pool, "*"):    c.heardReturned,
		hungrySubject(c.pool):           c.heardHungry,
	} {
		sub, err := nc.Subscribe(subject, heard)
		if err != nil {
			stop()
			return nil, err
		}
		subs = append(subs, sub)
	}
	if err := nc.FlushTimeout(c.work.jet.Options.TryWait); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// heardRequest notes a request that was stored just now.
func (c *poolConsumer) heardRequest(m *nats.Msg) {
	t := strings.Split(m.Subject, ".")
	if len(t) < 2 {
		return
	}
	if v, ok := events.VolumeOf(jet.HeaderValue(m.Header, jet.HeaderStream)); ok && v > c.work.ledger.Active().Number {
		c.lookSoon() // another process has opened a volume
	}
	if c.queue(t[1]).isFull() {
		return // it is delivered once another one is acknowledged
	}
	c.expect(t[1], 1)
}

// heardReturned notes a request that was given back.
func (c *poolConsumer) heardReturned(m *nats.Msg) {
	t := strings.Split(m.Subject, ".")
	delay, err := strconv.ParseInt(string(m.Data), 10, 32)
	if err != nil || delay < 0 || len(t) != 4 {
		return
	}
	c.expectAfter(t[3], time.Duration(delay)*time.Millisecond)
}

// heardHungry gives requests taken ahead to a runner that has none.
func (c *poolConsumer) heardHungry(m *nats.Msg) {
	if string(m.Data) != c.id {
		c.share()
	}
}
