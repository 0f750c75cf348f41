package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
	"daybook/runner"
)

// holdPause is the delay of a request that arrived while no requests may be taken. The
// queue delivers it again after that delay.
const holdPause = time.Second

const (
	// lookInterval is the maximum interval at which a runner looks at the consumers of its
	// pool for requests that it was not notified of.
	lookInterval = 5 * time.Second
	// secondLookDelay is the time after its start at which a runner looks a second time. A
	// request that was stored just before the start may reach its consumer only after the
	// first look.
	secondLookDelay = 250 * time.Millisecond
	// hungryInterval is the minimum interval at which a runner announces free slots.
	hungryInterval = 250 * time.Millisecond
	// failurePause is how long a runner waits after the server did not answer.
	failurePause = 200 * time.Millisecond
)

// poolConsumer is one call of Consume. A request that is stored or returned counts for
// its tenant in the scheduler. A free slot that the scheduler gives to a tenant takes
// one request from the consumers of the tenant.
type poolConsumer struct {
	work  *Queue
	pool  string
	slots fairness.Slots
	fn    func(ctx context.Context, d runner.Delivery)
	// id distinguishes the announcements of this runner from those of others.
	id  string
	ctx context.Context //nolint:containedctx // it ends when no more work is to be taken

	looking chan struct{}
	// heldBytes is the size of the requests taken ahead, in bytes.
	heldBytes atomic.Int64
	running   sync.WaitGroup
	// idleAfter is how long the queue of a tenant without requests is kept.
	idleAfter time.Duration
	// finishedVolumes holds the sealed volumes without unfinished requests. Only look uses it.
	finishedVolumes map[events.Volume]bool

	mu     sync.Mutex
	sched  *fairness.Scheduler
	queues map[string]*tenantQueue
	// announced counts the announced requests of each tenant that are not found yet.
	announced map[string]announcements
	// reclaiming holds the tenants whose in-flight requests of an earlier process are
	// being returned, with the number of waiting requests. These tenants get no slot until
	// all are returned.
	reclaiming map[string]int
	// releasedSlots is the number of calls of fn that released their slot.
	releasedSlots int
	// isTaking reports whether requests may be taken: after the first look, which finds the
	// requests in flight, and before the end.
	isTaking bool
	extra    *time.Timer
	// hungryAt is when a free slot was last announced. isHungryPending reports whether an
	// announcement is scheduled, and hasServed whether a request was taken since the last
	// one.
	hungryAt        time.Time
	isHungryPending bool
	hasServed       bool
	// isOnHold reports whether a call of schedule is pending because no requests may be
	// taken.
	isOnHold bool
}

// announcements counts the announced requests of a tenant.
type announcements struct {
	// generation counts the announcements. owed counts the announced requests that were
	// not found yet. retries counts how often the tenant was asked again after the last
	// announcement.
	generation, owed, retries int
}

func newPoolConsumer(s *Queue, pool string, slots fairness.Slots, fn func(context.Context, runner.Delivery)) *poolConsumer {
	return &poolConsumer{
		work: s, pool: pool, slots: slots, fn: fn, id: events.NewID(time.Now()), looking: make(chan struct{}, 1),
		finishedVolumes: map[events.Volume]bool{}, sched: fairness.New(slots), queues: map[string]*tenantQueue{}, announced: map[string]announcements{},
		reclaiming: map[string]int{}, idleAfter: s.forgetAfter,
	}
}

// run takes requests until ctx is done.
func (c *poolConsumer) run(ctx context.Context) error {
	c.ctx = ctx
	c.extra = time.AfterFunc(time.Hour, c.schedule)
	defer c.extra.Stop()
	// Listening comes first: the look then finds all requests that were stored before.
	stop, err := c.listen()
	if err != nil {
		return fmt.Errorf("listen for requests: %w", err)
	}
	defer stop()
	left, err := c.look(ctx, true)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.isTaking = true
	c.mu.Unlock()
	c.schedule()
	c.running.Go(func() { c.reclaimAll(ctx, left) })
	again := time.AfterFunc(secondLookDelay, c.lookSoon)
	defer again.Stop()
	c.watch(ctx)
	c.mu.Lock()
	c.isTaking = false
	queues := make([]*tenantQueue, 0, len(c.queues))
	for _, q := range c.queues {
		queues = append(queues, q)
	}
	c.mu.Unlock()
	for _, q := range queues {
		q.nakNewest(func(held int) int { return held })
	}
	// Ack deadlines of held requests are extended until here. Each call of fn extends its
	// own.
	c.running.Wait()
	for _, q := range queues {
		q.nakNewest(func(held int) int { return held }) // requests taken ahead since the first nakNewest
		q.close()
	}
	return nil
}

// watch looks at the consumers at intervals, until ctx is done.
func (c *poolConsumer) watch(ctx context.Context) {
	var beating sync.WaitGroup
	defer beating.Wait()
	beating.Go(func() { c.beat(ctx) })
	look := time.NewTicker(min(c.work.lookInterval, max(c.work.opts.AckWait/2, 50*time.Millisecond)))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-c.looking:
		}
		if _, err := c.look(ctx, false); err != nil && ctx.Err() == nil {
			c.work.jet.Options.Logger.WarnContext(ctx, "cannot look for run requests", "pool", c.pool, "err", err)
		}
		c.schedule()
		c.forgetIdle(time.Now())
	}
}

// beat extends the ack deadlines of the requests taken ahead, until ctx is done.
func (c *poolConsumer) beat(ctx context.Context) {
	tick := time.NewTicker(max(c.work.opts.AckWait*3/10, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			for _, q := range c.all() {
				q.beat()
			}
		}
	}
}

// lookSoon makes watch look immediately.
func (c *poolConsumer) lookSoon() {
	select {
	case c.looking <- struct{}{}:
	default:
	}
}

func (c *poolConsumer) all() []*tenantQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*tenantQueue, 0, len(c.queues))
	for _, q := range c.queues {
		list = append(list, q)
	}
	return list
}

// look finds tenants and requests through the existing consumers. If no other process
// can have requests in flight, the first look returns the consumers with requests that
// an earlier process had in flight.
func (c *poolConsumer) look(ctx context.Context, atStart bool) (left map[string][]inFlight, err error) {
	s := c.work
	if err := s.ledger.Refresh(ctx); err != nil {
		return nil, err
	}
	left = map[string][]inFlight{}
	volumes, active := s.ledger.Live()
	waiting := map[string]int{}
	for _, v := range volumes {
		if c.finishedVolumes[v.Number] {
			continue
		}
		asked := time.Now()
		list, err := s.workConsumers(ctx, v)
		if jet.IsStreamGone(err) && v.Number != active.Number {
			s.ledger.Reload(ctx) // another process archived or removed the volume
			continue
		}
		if err != nil {
			return nil, err
		}
		adopted, err := s.adoptFormer(ctx, v, c.pool, list)
		if adopted && err == nil {
			list, err = s.workConsumers(ctx, v)
		}
		if err != nil {
			return nil, err
		}
		some := false
		for tenant, info := range byTenant(list, v, c.pool) {
			if info.Config.AckWait != s.opts.AckWait {
				config := info.Config
				config.AckWait = s.opts.AckWait
				if _, err := s.jet.WorkJS.UpdateConsumer(ctx, v.Stream(), config); err != nil {
					return nil, err
				}
			}
			if atStart && s.opts.Exclusive && info.NumAckPending > 0 {
				left[tenant] = append(left[tenant], inFlight{v, info})
			}
			if info.NumPending == 0 && info.NumAckPending == 0 {
				c.noteEmptyConsumer(tenant, v, info, asked, v.Number == active.Number)
				continue
			}
			some = true
			waiting[tenant] += c.queue(tenant).noteConsumer(v, info, asked)
		}
		if v.Number != active.Number && !some {
			c.finishedVolumes[v.Number] = true // nothing is added to it
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for tenant := range left {
		c.reclaiming[tenant] = 0
	}
	for tenant, n := range waiting {
		if _, reclaims := c.reclaiming[tenant]; reclaims {
			c.reclaiming[tenant] = max(n, c.reclaiming[tenant])
			continue
		}
		c.sched.SetWaiting(tenant, max(n, c.sched.Waiting(tenant)), time.Now())
	}
	return left, nil
}

// noteEmptyConsumer records that a consumer of a tenant has no request.
func (c *poolConsumer) noteEmptyConsumer(tenant string, v stream.LiveVolume, info *natsjs.ConsumerInfo, asked time.Time, active bool) {
	c.mu.Lock()
	q := c.queues[tenant]
	c.mu.Unlock()
	switch {
	case q == nil:
	case active:
		q.noteConsumer(v, info, asked)
	default:
		q.drop(v)
	}
}

// queue returns the queue of a tenant. It creates one if there is none.
func (c *poolConsumer) queue(tenant string) *tenantQueue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queueLocked(tenant)
}

func (c *poolConsumer) queueLocked(tenant string) *tenantQueue {
	q := c.queues[tenant]
	if q == nil {
		q = &tenantQueue{c: c, tenant: tenant, looks: map[events.Volume]bool{}}
		c.queues[tenant] = q
	}
	return q
}

// expect counts announced requests of a tenant.
func (c *poolConsumer) expect(tenant string, n int) {
	if jet.CheckTokens(tenant) != nil {
		return
	}
	c.mu.Lock()
	c.queueLocked(tenant)
	if _, reclaims := c.reclaiming[tenant]; reclaims {
		c.reclaiming[tenant] += n
	} else {
		c.sched.Expect(tenant, n, time.Now())
	}
	a := c.announced[tenant]
	c.announced[tenant] = announcements{generation: a.generation + 1, owed: a.owed + n}
	c.mu.Unlock()
	c.schedule()
}

// expectAfter counts a request that was returned with a delay. Its volume is unknown.
func (c *poolConsumer) expectAfter(tenant string, delay time.Duration) {
	again := func() {
		c.queue(tenant).lookAgain()
		c.expect(tenant, 1)
	}
	if delay <= 0 {
		again()
		return
	}
	if delay <= lookInterval {
		time.AfterFunc(delay, again)
	}
}

// schedule gives free slots to the tenants that the scheduler selects.
func (c *poolConsumer) schedule() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isTaking || c.ctx.Err() != nil {
		return
	}
	if c.work.holdReason() != nil {
		if !c.isOnHold {
			c.isOnHold = true
			time.AfterFunc(failurePause, func() {
				c.mu.Lock()
				c.isOnHold = false
				c.mu.Unlock()
				c.schedule()
			})
		}
		return
	}
	now := time.Now()
	for c.releasedSlots <= c.slots.Total {
		slot := c.sched.Next(now)
		if slot == nil {
			break
		}
		q, a := c.queueLocked(slot.Tenant), c.announced[slot.Tenant]
		q.users++
		c.running.Go(func() {
			c.serve(slot, q, a)
			c.mu.Lock()
			defer c.mu.Unlock()
			q.users--
		})
	}
	if c.hasServed && c.sched.IsIdle() {
		c.announceHungry(now)
	}
	if at, ok := c.sched.NextExtra(); ok {
		c.extra.Reset(max(at.Sub(now), 10*time.Millisecond))
	}
}

// serve takes one request of a tenant for a slot. a is the state of its announcements
// when the slot was taken.
func (c *poolConsumer) serve(slot *fairness.Slot, q *tenantQueue, a announcements) {
	t, more, ok, err := q.next(c.ctx, a.owed > 0 && a.retries == 0)
	switch {
	case !ok:
	case c.ctx.Err() != nil:
		c.nakTaken(t, 0)
		q.done()
		ok = false
	case c.work.holdReason() != nil:
		c.nakTaken(t, holdPause)
		q.done()
		ok = false
	}
	c.mu.Lock()
	switch {
	case ok:
		c.hasServed = true
		c.sched.SetWaiting(slot.Tenant, max(more, c.sched.Waiting(slot.Tenant)), time.Now())
		c.noteFound(slot.Tenant)
	default:
		c.returnSlot(slot, a.generation, more, err)
	}
	c.mu.Unlock()
	switch {
	case ok:
		c.handle(slot, q, t)
	case err != nil && !errors.Is(err, errFull) && c.ctx.Err() == nil:
		c.work.jet.Options.Logger.Warn("cannot take run requests", "pool", c.pool, "tenant", slot.Tenant, "err", err)
	}
	c.schedule()
}

// returnSlot returns a slot that got no request. generation is
// announcements.generation of the tenant when the slot was taken, and more the number of
// requests known to wait. The caller must hold mu.
func (c *poolConsumer) returnSlot(slot *fairness.Slot, generation, more int, err error) {
	now := time.Now()
	if err != nil {
		c.sched.Release(slot, now) // the time until the failure counts for the tenant
	} else {
		c.sched.Cancel(slot)
	}
	full := errors.Is(err, errFull)
	newer := c.announced[slot.Tenant].generation != generation
	if newer && full {
		return // an acknowledgement may have made space
	}
	if !newer || err != nil {
		c.sched.SetWaiting(slot.Tenant, more, now)
	}
	c.noteMissed(slot.Tenant, err)
}

// noteFound counts a request of a tenant as found. It need not be an announced request: if
// announced ones were not found yet, the tenant is asked again. The caller must hold mu.
func (c *poolConsumer) noteFound(tenant string) {
	a := c.announced[tenant]
	if a.owed == 0 {
		return
	}
	a.owed--
	c.announced[tenant] = a
	if a.owed > 0 && c.sched.Waiting(tenant) == 0 {
		c.retry(tenant, 0)
	}
}

// noteMissed schedules the next try for a tenant and announces the free slot to other
// runners. The caller must hold mu.
func (c *poolConsumer) noteMissed(tenant string, err error) {
	if !c.isTaking || c.ctx.Err() != nil {
		return
	}
	switch {
	case errors.Is(err, errFull):
		// An acknowledgement or a look triggers the next try.
		a := c.announced[tenant]
		a.owed = 0
		c.announced[tenant] = a
	case err != nil:
		c.retry(tenant, failurePause)
	default:
		c.retry(tenant, 0)
	}
	if c.sched.HasFreeSlot() {
		c.announceHungry(time.Now())
	}
}

// retry asks for requests of a tenant again after pause. If pause is 0, it does so only
// as long as an announced request may still be found. The caller must hold mu.
func (c *poolConsumer) retry(tenant string, pause time.Duration) {
	a := c.announced[tenant]
	failed := pause > 0
	switch {
	case failed:
	case a.owed > 0 && a.retries < len(retryAfter):
		pause = retryAfter[a.retries]
	default:
		a.owed = 0 // another runner has it
	}
	a.retries++
	c.announced[tenant] = a
	if pause == 0 {
		return
	}
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		now := c.announced[tenant]
		if c.sched.Waiting(tenant) == 0 && now.generation == a.generation && now.retries == a.retries && (failed || now.owed > 0) {
			c.sched.SetWaiting(tenant, 1, time.Now())
		}
		c.mu.Unlock()
		c.schedule()
	})
}

// announceHungry announces a free slot to other runners, now or after hungryInterval. The
// caller must hold mu.
func (c *poolConsumer) announceHungry(now time.Time) {
	if wait := hungryInterval - now.Sub(c.hungryAt); wait > 0 {
		if !c.isHungryPending {
			c.isHungryPending = true
			time.AfterFunc(wait, func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.isHungryPending = false
				if c.isTaking && c.sched.HasFreeSlot() {
					c.announceHungry(time.Now())
				}
			})
		}
		return
	}
	c.hungryAt, c.hasServed = now, false
	_ = c.work.jet.WorkConn.Publish(hungrySubject(c.pool), []byte(c.id)) // if it is lost, the next look makes up for it
}

// share returns half of the requests taken ahead, for other runners, unless this runner
// has a free slot for them.
func (c *poolConsumer) share() {
	c.mu.Lock()
	free := c.sched.HasFreeSlot()
	c.mu.Unlock()
	if free {
		return
	}
	for _, q := range c.all() {
		q.nakNewest(func(held int) int { return (held + 1) / 2 })
	}
}

// handle calls fn with a request and extends the ack deadline of the request during the
// call.
func (c *poolConsumer) handle(slot *fairness.Slot, q *tenantQueue, t takenRequest) {
	var once sync.Once
	freed := false
	give := func(tail bool) {
		once.Do(func() {
			c.mu.Lock()
			c.sched.Release(slot, time.Now())
			if freed = tail; tail {
				c.releasedSlots++
			}
			c.mu.Unlock()
			c.schedule()
		})
	}
	d := delivery{
		e: t.e, msg: t.msg, pool: c.pool, work: c.work, beat: c.work.startHeartbeat(t.msg.Reply),
		onAck: func() {
			if q.noteAck() {
				c.expect(q.tenant, 1)
			}
		},
	}
	defer func() {
		d.beat.stop()
		q.done()
		give(false)
		c.mu.Lock()
		defer c.mu.Unlock()
		if freed {
			c.releasedSlots--
		}
	}()
	c.fn(context.WithoutCancel(c.ctx), runner.Delivery{
		Event: t.e, Unreadable: t.unreadable, Delivered: t.at.delivered,
		ReleaseSlot: func() { give(true) }, Ack: d.ack, Nak: d.nak,
	})
}
