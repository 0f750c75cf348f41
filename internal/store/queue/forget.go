package queue

import (
	"time"

	"daybook/events"
	"daybook/internal/store/stream"
)

// forgetAfter is how long the queue of a tenant without requests is kept. The next
// request of the tenant then costs one more request to the server.
const forgetAfter = time.Minute

// forgetIdle drops the queues of tenants that had no requests for idleAfter. Otherwise
// each tenant that ever requested a run would cost a subscription.
func (c *poolConsumer) forgetIdle(now time.Time) {
	active := c.work.ledger.Active()
	var idle []*tenantQueue
	c.mu.Lock()
	for tenant, q := range c.queues {
		_, reclaims := c.reclaiming[tenant]
		switch {
		case reclaims || q.users > 0 || c.sched.Waiting(tenant) > 0 || c.announced[tenant].owed > 0 || !q.isIdle(active, c.finishedVolumes):
			q.idleSince = time.Time{}
		case q.idleSince.IsZero():
			q.idleSince = now
		case now.Sub(q.idleSince) >= c.idleAfter:
			delete(c.queues, tenant)
			delete(c.announced, tenant)
			idle = append(idle, q)
		}
	}
	c.mu.Unlock()
	for _, q := range idle {
		q.pulling.Lock()
		q.close()
		q.pulling.Unlock()
	}
}

// isIdle reports whether the queue holds no request and no sealed volume can have one for
// it. done holds the sealed volumes without unfinished requests.
func (q *tenantQueue) isIdle(active stream.LiveVolume, done map[events.Volume]bool) bool {
	if !q.pulling.TryLock() {
		return false
	}
	defer q.pulling.Unlock()
	for _, src := range q.sources {
		if src.v.Number != active.Number && !done[src.v.Number] {
			return false
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held.Len() == 0 && q.inFlight == 0 && !q.isConsumerFull
}
