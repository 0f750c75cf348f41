package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
)

// lookAhead and lookAheadBytes bound the requests of a tenant that a runner takes ahead
// at once. It takes several, so that the sessions of the tenant can take turns. It takes
// none ahead while it holds maxHeldBytes or more of all tenants.
const (
	lookAhead      = 128
	lookAheadBytes = 1 << 20
	maxHeldBytes   = 32 << 20
)

// tenantQueue holds the consumers of one tenant and the requests taken ahead.
type tenantQueue struct {
	c      *poolConsumer
	tenant string
	// users is the number of slots taken for the tenant. idleSince is when a look first
	// found that the queue has nothing to do, or zero. Both are guarded by c.mu.
	users     int
	idleSince time.Time

	// pulling guards the fields up to wasRedelivered, and is held during requests to
	// consumers.
	pulling sync.Mutex
	sub     *nats.Subscription
	// sources are the consumers of the tenant, oldest volume first.
	sources []*source
	// active is the volume that was active during the last fill.
	active events.Volume
	// pending is the number of further requests of the consumer that was asked last.
	// hasUnasked reports whether another consumer may have some.
	pending    uint64
	hasUnasked bool
	// wasRedelivered reports whether the last request taken had been delivered before. There
	// may be more such requests, which pending does not count.
	wasRedelivered bool

	// mu guards the following fields. It is never held during requests to the server.
	mu   sync.Mutex
	held fairness.Window[takenRequest]
	// inFlight is the number of requests that are held or passed to the function.
	inFlight int
	// looks are the volumes to ask again. The key 0 stands for all volumes.
	looks map[events.Volume]bool
	// isConsumerFull reports whether the consumer of the active volume had the maximum number of
	// unacknowledged requests. Until one is acknowledged it delivers no new one. ackedAt
	// is the time of the last acknowledgement, and warnedAt that of the last log message
	// about the tenant.
	isConsumerFull    bool
	ackedAt, warnedAt time.Time
}

// source is the consumer of the tenant in a volume.
type source struct {
	v    stream.LiveVolume
	name string
	// exists reports whether the consumer exists. createdAt is the last position of the
	// volume when it was created.
	exists    bool
	createdAt uint64
}

// takenRequest is a request that was delivered to this process.
type takenRequest struct {
	msg *nats.Msg
	at  replyInfo
	e   events.Event
	// unreadable is the reason why e has only the data of the subject, or nil.
	unreadable error
}

func (t takenRequest) size() int64 { return int64(len(t.msg.Data)) }

// noteConsumer records the state of the consumer of the tenant in a volume and returns the
// number of waiting requests, at most lookAhead+1. asked is when the server was asked
// for info.
func (q *tenantQueue) noteConsumer(v stream.LiveVolume, info *natsjs.ConsumerInfo, asked time.Time) (waiting int) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	src := q.source(v)
	src.exists, src.createdAt = true, createdAt(info)
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting = int(min(info.NumPending, lookAhead))
	full := isFull(info) && q.ackedAt.Before(asked)
	if full {
		waiting = 0
	}
	if v.Number == q.c.work.ledger.Active().Number {
		q.isConsumerFull = full
	}
	if info.NumAckPending > q.inFlight {
		waiting++ // another runner has it, or its runner died
	}
	if waiting > 0 {
		q.looks[v.Number] = true
	}
	return waiting
}

// isFull reports whether a consumer delivers no new request because too many are
// unacknowledged.
func isFull(info *natsjs.ConsumerInfo) bool {
	return info.Config.MaxAckPending > 0 && info.NumAckPending >= info.Config.MaxAckPending
}

// noteAck records an acknowledgement. It reports whether the consumer was full, so
// that requests may be delivered again.
func (q *tenantQueue) noteAck() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.isConsumerFull
	q.isConsumerFull, q.ackedAt = false, time.Now()
	return was
}

func (q *tenantQueue) isFull() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.isConsumerFull
}

// drop removes the source of a sealed volume without unfinished requests.
func (q *tenantQueue) drop(v stream.LiveVolume) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	q.sources = slices.DeleteFunc(q.sources, func(src *source) bool { return src.v.Number == v.Number })
}

// source returns the source of a volume. It adds one if there is none.
func (q *tenantQueue) source(v stream.LiveVolume) *source {
	i, ok := slices.BinarySearchFunc(q.sources, v.Number, func(src *source, n events.Volume) int { return int(src.v.Number - n) })
	if !ok {
		q.sources = slices.Insert(q.sources, i, &source{v: v, name: WorkConsumer(q.c.pool, q.tenant)})
	}
	return q.sources[i]
}

// lookAgain makes next ask the sealed volumes too.
func (q *tenantQueue) lookAgain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks[0] = true
}

// next takes the next request of the tenant and returns how many more are known to
// wait. It returns false if there is none. If announced is true, it waits announcedTimeout
// for one.
func (q *tenantQueue) next(ctx context.Context, announced bool) (t takenRequest, more int, ok bool, err error) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	q.mu.Lock()
	n := q.held.Len()
	q.mu.Unlock()
	if n == 0 || n < lookAhead/2 && (q.pending > 0 || q.wasRedelivered) {
		err = q.fill(ctx, lookAhead-n, announced && n == 0)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok = q.held.Take()
	if ok {
		q.c.heldBytes.Add(-t.size())
		err = nil // the next call meets the error again
	}
	more = q.held.Len() + int(min(q.pending, lookAhead))
	if q.hasUnasked || q.wasRedelivered {
		more++
	}
	return t, more, ok, err
}

// fill asks the consumers of the tenant, oldest volume first, until one has requests,
// and takes up to size of them. If announced is true, it waits announcedTimeout for one.
func (q *tenantQueue) fill(ctx context.Context, size int, announced bool) error {
	active := q.c.work.ledger.Active()
	q.source(active)
	q.mu.Lock()
	looks := q.looks
	looks[0] = looks[0] || q.active != active.Number // the previous active volume may have some left
	q.looks = map[events.Volume]bool{}
	q.mu.Unlock()
	q.active, q.pending, q.hasUnasked, q.wasRedelivered = active.Number, 0, false, false
	var full error
	for i := 0; i < len(q.sources); i++ {
		src := q.sources[i]
		if src.v.Number != active.Number && !looks[src.v.Number] && !looks[0] {
			continue
		}
		wait := announced && src.v.Number == active.Number
		err := q.ask(ctx, src, size, wait)
		if errors.Is(err, errNoConsumer) {
			if !q.c.work.ledger.IsLive(src.v.Number) {
				q.sources = slices.Delete(q.sources, i, i+1)
				i--
				continue
			}
			src.exists = false
			q.c.work.prepared.Delete(workKey{src.v.Stream(), src.name})
			err = q.ask(ctx, src, size, wait)
		}
		if jet.IsStreamGone(err) && src.v.Number != active.Number {
			// Another process archived or removed the volume.
			if q.c.work.ledger.Reload(ctx); !q.c.work.ledger.IsLive(src.v.Number) {
				q.sources = slices.Delete(q.sources, i, i+1)
				i--
				continue
			}
		}
		if errors.Is(err, errFull) {
			full, err = err, nil // the other volumes may have some
		}
		q.mu.Lock()
		some := q.held.Len() > 0
		if err != nil || some {
			maps.Copy(q.looks, looks) // not all of them were asked
		}
		q.mu.Unlock()
		q.hasUnasked = i < len(q.sources)-1
		if err != nil || some {
			return err
		}
	}
	return full
}

// ask takes one request from a consumer and, if there are more, up to size. If wait is
// true, it waits announcedTimeout for the first one.
func (q *tenantQueue) ask(ctx context.Context, src *source, size int, wait bool) error {
	if !src.exists {
		info, err := q.c.work.ensureWork(ctx, src.v, q.c.pool, q.tenant)
		if err != nil {
			return err
		}
		src.exists, src.createdAt = true, createdAt(info)
	}
	first := request{Batch: 1, NoWait: true}
	if wait {
		first = request{Batch: 1, Expires: announcedTimeout}
	}
	got, err := q.pull(ctx, src, first)
	if err != nil || got == 0 {
		return err
	}
	ahead := min(int(min(q.pending, lookAhead)), size-1)
	if q.wasRedelivered {
		ahead = size - 1
	}
	if ahead > 0 && q.c.heldBytes.Load() < maxHeldBytes {
		_, err = q.pull(ctx, src, request{Batch: ahead, NoWait: true, MaxBytes: lookAheadBytes})
	}
	return err
}

// request is a request to a consumer for messages.
type request struct {
	Batch    int  `json:"batch"`
	MaxBytes int  `json:"max_bytes,omitempty"`
	NoWait   bool `json:"no_wait,omitempty"`
	// Expires is how long the consumer waits for a message, in nanoseconds.
	Expires time.Duration `json:"expires,omitempty"`
}

// announcedTimeout is how long a consumer waits for an announced request: the announcement
// often arrives before the consumer has learned of the request. Asking again after a
// pause would delay each run of an idle server.
const announcedTimeout = 5 * time.Millisecond

// errNoConsumer is returned if a consumer or its stream does not exist.
var errNoConsumer = errors.New("the consumer does not exist")

// errFull is returned if a consumer delivers nothing because too many requests are
// unacknowledged.
var errFull = errors.New("too many requests of the tenant are unacknowledged")

// fullCheckDelay is how long pull waits for a consumer before it checks whether the consumer
// is full: a full consumer does not answer a request for messages.
const fullCheckDelay = 50 * time.Millisecond

// pull sends a request to a consumer, holds the messages that it returns and returns
// their number.
func (q *tenantQueue) pull(ctx context.Context, src *source, r request) (got int, err error) {
	s := q.c.work
	if q.sub == nil {
		if q.sub, err = s.jet.WorkConn.SubscribeSync(s.jet.WorkConn.NewInbox()); err != nil {
			q.sub = nil
			return 0, err
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	if err := s.jet.WorkConn.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+src.v.Stream()+"."+src.name, q.sub.Subject, body); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	if s.jet.Options.Writable != nil {
		// The server may be replaced while it has the request.
		defer context.AfterFunc(s.jet.Options.Writable(), cancel)()
	}
	checked := false
	for got < r.Batch {
		m, err := q.nextMsg(ctx, checked)
		if errors.Is(err, nats.ErrTimeout) && !checked {
			checked = true
			asked := time.Now()
			info, err := s.jet.WorkJS.Consumer(ctx, src.v.Stream(), src.name)
			if err == nil && isFull(info.CachedInfo()) {
				q.close() // cancels the request for messages
				if src.v.Number == q.active && !q.noteFull(asked) {
					q.c.expect(q.tenant, 1)
				}
				return got, errFull
			}
			continue // another failure shows in the next answer
		}
		if errors.Is(err, nats.ErrNoResponders) {
			return got, errNoConsumer
		}
		if err != nil {
			q.close()
			return got, fmt.Errorf("ask consumer %s: %w", src.name, err)
		}
		switch code, reason := jet.Status(m); {
		case code == "":
			q.hold(src, m)
			got++
		case code == "404", code == "408":
			q.wasRedelivered = false // no more requests now
			return got, nil
		case code == "409" && strings.HasPrefix(reason, "Message Size Exceeds MaxBytes"):
			return got, nil
		case code == "409" && strings.EqualFold(reason, "Consumer Deleted"):
			return got, errNoConsumer
		case code == "409" && reason == "Batch Completed":
			// It ends the previous request for messages.
		default:
			return got, fmt.Errorf("ask consumer %s: the server answered %s %s", src.name, code, reason)
		}
	}
	return got, nil
}

// nextMsg waits for an answer of a consumer until ctx is done. If checked is false, it
// waits at most fullCheckDelay.
func (q *tenantQueue) nextMsg(ctx context.Context, checked bool) (*nats.Msg, error) {
	if checked {
		return q.sub.NextMsgWithContext(ctx)
	}
	short, cancel := context.WithTimeout(ctx, fullCheckDelay)
	defer cancel()
	m, err := q.sub.NextMsgWithContext(short)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nats.ErrTimeout
	}
	return m, err
}

// fullWarningInterval is the minimum interval of log messages about a tenant whose consumer is
// full.
const fullWarningInterval = time.Minute

// noteFull records that the consumer of the active volume was full at the time asked.
// It returns false if a request was acknowledged since.
func (q *tenantQueue) noteFull(asked time.Time) bool {
	q.mu.Lock()
	if !q.ackedAt.Before(asked) {
		q.mu.Unlock()
		return false
	}
	q.isConsumerFull = true
	warn := time.Since(q.warnedAt) >= fullWarningInterval
	if warn {
		q.warnedAt = time.Now()
	}
	q.mu.Unlock()
	if warn {
		q.c.work.jet.Options.Logger.Warn("a tenant has the maximum number of unacknowledged run requests; its further requests wait for an acknowledgement", "tenant", q.tenant, "pool", q.c.pool)
	}
	return true
}

// hold keeps a request until a slot takes it.
func (q *tenantQueue) hold(src *source, m *nats.Msg) {
	s := q.c.work
	at, err := parseReply(m.Reply)
	if err != nil {
		s.jet.Options.Logger.Error("a message on the work queue is not a delivery", "subject", m.Subject, "err", err)
		return
	}
	q.pending, q.wasRedelivered = at.pending, at.delivered > 1
	e, unreadable := s.ledger.DecryptEvent(events.Decode(at.seq, events.Message{Subject: m.Subject, Header: m.Header, Body: m.Data}))
	if unreadable == nil && s.ledger.Lost().Unreadable(at.seq) {
		unreadable = fmt.Errorf("the event was accepted as lost: %w", events.ErrDamaged)
	}
	if unreadable != nil {
		s.jet.Options.Logger.Error("a run request cannot be read", "position", at.seq, "subject", m.Subject, "err", unreadable)
		e = fromSubject(at.seq, m.Subject)
	}
	if at.seq <= src.createdAt {
		at.delivered = max(at.delivered, 2) // an earlier consumer may have delivered it
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight++
	t := takenRequest{msg: m, at: at, e: e, unreadable: unreadable}
	q.c.heldBytes.Add(t.size())
	q.held.Add(sessionOf(e), t)
}

// sessionOf returns the key by which requests of a tenant take turns: the session or,
// without one, the actor of the request.
func sessionOf(e events.Event) string {
	d, ok := e.Data.(*events.ExecutionRequested)
	switch {
	case !ok:
		return ""
	case d.Turn != nil:
		return "turn " + d.Turn.SessionID
	case d.SessionID != "":
		return "named " + d.SessionID
	}
	return "actor " + d.Actor.Principal + " " + d.Actor.Transport + " " + d.Actor.Client
}

func (q *tenantQueue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
}

// beat extends the ack deadlines of the requests taken ahead.
func (q *tenantQueue) beat() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held.Each(func(t takenRequest) {
		_ = q.c.work.jet.WorkConn.Publish(t.msg.Reply, []byte("+WPI")) // the next heartbeat makes up for a lost one
	})
}

// nakNewest returns the newest requests taken ahead. n computes their number.
func (q *tenantQueue) nakNewest(n func(held int) int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.held.Newest(n(q.held.Len()))
	q.inFlight -= len(list)
	slices.Reverse(list) // so that they are delivered again in order
	for _, t := range list {
		q.c.heldBytes.Add(-t.size())
		q.c.nakTaken(t, 0)
	}
}

// close ends the subscription and returns the requests that the server sent before it
// processed the end of the subscription. A silent server has sent none, so close does not
// wait for it.
func (q *tenantQueue) close() {
	if q.sub == nil {
		return
	}
	sub := q.sub
	q.sub = nil
	answering := q.c.work.jet.Answering()
	if answering.Err() != nil {
		_ = sub.Unsubscribe() // the server processes this once it answers again
		return
	}
	if err := sub.Drain(); err != nil {
		return
	}
	for {
		m, err := nextBefore(answering, sub, q.c.work.jet.Options.TryWait)
		if err != nil {
			return
		}
		if code, _ := jet.Status(m); m.Reply != "" && code == "" {
			_ = q.c.work.jet.WorkConn.Publish(m.Reply, nak(0)) // if it is lost, the request is delivered again after its ack deadline
			q.c.work.announceReturned(q.c.pool, q.tenant, 0)
		}
	}
}

// nextBefore returns the next message of a subscription, or an error if ctx is done or
// the duration within has passed.
func nextBefore(ctx context.Context, sub *nats.Subscription, within time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// nakTaken returns a request to the queue that was taken and not passed to the
// function.
func (c *poolConsumer) nakTaken(t takenRequest, delay time.Duration) {
	// If the nak is lost, the request is delivered again after its ack deadline.
	_ = c.work.jet.WorkConn.Publish(t.msg.Reply, nak(delay))
	c.work.announceReturned(c.pool, t.e.Tenant, delay)
}

// retryAfter are the pauses before a tenant is asked again if its announced request was
// not found: a consumer may learn of a request later than the runner.
var retryAfter = [...]time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}
