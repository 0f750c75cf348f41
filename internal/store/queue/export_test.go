package queue

import (
	"context"
	"time"

	"daybook/internal/resources/fairness"
	"daybook/runner"
)

// ParseReply parses the reply subject of a delivery.
func ParseReply(reply string) (delivered int, seq uint64, err error) {
	r, err := parseReply(reply)
	return r.delivered, r.seq, err
}

// Announce notifies the runners of a pool of a request, which need not exist.
func Announce(s *Queue, pool, tenant string) { s.announceReturned(pool, tenant, 0) }

// ReleaseUnannounced is Queue.Release for a request in the active volume, without a
// notification of the runners.
func ReleaseUnannounced(ctx context.Context, s *Queue, pool, tenant string, position uint64) error {
	got, err := s.jet.WorkJS.Consumer(ctx, s.ledger.Active().Stream(), WorkConsumer(pool, tenant))
	if err != nil {
		return err
	}
	_, err = s.jet.WorkConn.RequestWithContext(ctx, workReply(got.CachedInfo(), position), nak(0))
	return err
}

// WaitingBeforeLook returns how many of the announced requests of a tenant wait when a
// runner has not looked at its consumers yet.
func WaitingBeforeLook(ctx context.Context, s *Queue, pool, tenant string, announced int) int {
	c := newPoolConsumer(s, pool, fairness.Slots{Total: announced}, func(context.Context, runner.Delivery) {})
	c.ctx, c.extra = ctx, time.NewTimer(time.Hour)
	defer c.extra.Stop()
	c.expect(tenant, announced)
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sched.Waiting(tenant)
}

// ConsumeSeen is Queue.Consume. waiting returns how many requests of a tenant the
// runner expects.
func ConsumeSeen(s *Queue, pool string, slots fairness.Slots, fn func(context.Context, runner.Delivery)) (run func(context.Context) error, waiting func(tenant string) int) {
	c := newPoolConsumer(s, pool, slots, fn)
	waiting = func(tenant string) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sched.Waiting(tenant)
	}
	return c.run, waiting
}

// SetForgetAfter sets how long the queues of idle tenants are kept.
func SetForgetAfter(s *Queue, d time.Duration) { s.forgetAfter = d }

// SetLookInterval sets the interval at which a runner looks for requests that it was not
// notified of. The caller MUST call it before Consume.
func SetLookInterval(s *Queue, d time.Duration) { s.lookInterval = d }

// SetCancelTimeout sets how long a runner may take to answer. The caller MUST call it before
// RequestCancel.
func SetCancelTimeout(s *Queue, d time.Duration) { s.cancelTimeout = d }

// Subscriptions returns the number of subscriptions of the work connection.
func Subscriptions(s *Queue) int { return s.jet.WorkConn.NumSubscriptions() }

// QueueLen returns how many messages a subscription of the work connection holds.
func QueueLen(s *Queue) int { return s.jet.WorkConn.Opts.SubChanLen }
