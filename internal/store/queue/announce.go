package queue

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Runners of a pool notify each other of two facts that no event records: a request was
// returned, and a slot is free without a request for it. Announcements are sent at most
// once and are not stored. If one is lost, the next look at the consumers finds the
// request.
const announcePrefix = "work."

func returnedSubject(pool, tenant string) string {
	return announcePrefix + pool + ".returned." + tenant
}

func hungrySubject(pool string) string { return announcePrefix + pool + ".hungry" }

// announceReturned notifies the runners of a pool that a request of a tenant was
// returned and is available after delay.
func (s *Queue) announceReturned(pool, tenant string, delay time.Duration) {
	if delay > lookInterval {
		return // the next look finds the request in time
	}
	// If the announcement is lost, the next look finds the request.
	_ = s.jet.WorkConn.Publish(returnedSubject(pool, tenant), strconv.AppendInt(nil, delay.Milliseconds(), 10))
}

// listen subscribes to the requests of the pool as they are stored, and to
// announcements of other runners.
func (c *poolConsumer) listen() (stop func(), err error) {
	nc := c.work.jet.WorkConn
	var subs []*nats.Subscription
	stop = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // fails only if the connection is closed
		}
	}
	for subject, heard := range map[string]nats.MsgHandler{
		"events.*.run." + c.pool + ".*": c.onRequest,
		returnedSubject(c.pool, "*"):    c.onReturned,
		hungrySubject(c.pool):           c.onHungry,
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

// onRequest counts a request that was stored.
func (c *poolConsumer) onRequest(m *nats.Msg) {
	t := strings.Split(m.Subject, ".")
	if len(t) < 2 {
		return
	}
	if v, ok := events.VolumeOf(jet.DeliveryValue(m.Header, jet.HeaderStream)); ok && v > c.work.ledger.Active().Number {
		c.lookSoon() // another process opened a volume
	}
	if c.queue(t[1]).isFull() {
		return // it is delivered after an acknowledgement
	}
	c.expect(t[1], 1)
}

// onReturned counts a request that was returned.
func (c *poolConsumer) onReturned(m *nats.Msg) {
	t := strings.Split(m.Subject, ".")
	delay, err := strconv.ParseInt(string(m.Data), 10, 32)
	if err != nil || delay < 0 || len(t) != 4 {
		return
	}
	c.expectAfter(t[3], time.Duration(delay)*time.Millisecond)
}

// onHungry returns requests taken ahead for a runner that has none.
func (c *poolConsumer) onHungry(m *nats.Msg) {
	if string(m.Data) != c.id {
		c.share()
	}
}
