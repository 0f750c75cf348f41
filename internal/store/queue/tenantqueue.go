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

// A runner looks ahead at this many requests of a tenant and bytes of them, to
// take them by session in turn, while it holds less than maxHeldBytes of all
// tenants.
const (
	lookAhead      = 128
	lookAheadBytes = 1 << 20
	maxHeldBytes   = 32 << 20
)

// tenantQueue holds the consumers of one tenant and the requests taken ahead.
type tenantQueue struct {
	c      *poolConsumer
	tenant string
	// users are the slots taken for the tenant; idleSince is when a look first found
	// that the queue has nothing to do, or zero. Both are guarded by c.mu.
	users     int
	idleSince time.Time

	// pulling is held while the consumers are asked.
	pulling sync.Mutex
	sub     *nats.Subscription
	// sources are the tenant's consumers, oldest volume first.
	sources []*source
	// active is the volume that was written when the consumers were asked last.
	active events.Volume
	// pending is how many requests the consumer asked last had besides; unasked is
	// whether another consumer may have some.
	pending uint64
	unasked bool
	// returned is whether the last request taken had been delivered before. There may
	// be more of those; pending does not count them.
	returned bool

	// mu guards what follows and is never held while the server is asked.
	mu   sync.Mutex
	held fairness.Window[taken]
	// inFlight is how many requests are held or passed to the function.
	inFlight int
	// looks are the volumes to be asked again although they are sealed.
	looks map[events.Volume]bool
	// full is whether the consumer of the active volume had as many unacknowledged
	// requests as it may have: until one is acknowledged it delivers no new one.
	// ackedAt is when a request was acknowledged last, warnedAt when the log named
	// the tenant last.
	full              bool
	ackedAt, warnedAt time.Time
}

// source is the tenant's consumer of a volume.
type source struct {
	v    stream.LiveVolume
	name string
	// known is whether the consumer exists; createdAt is the volume's last position
	// when it was created.
	known     bool
	createdAt uint64
}

// taken is a request that was delivered to this process.
type taken struct {
	msg *nats.Msg
	at  replyInfo
	e   events.Event
	// unreadable is why e has only what the subject says, or nil.
	unreadable error
}

func (t taken) size() int64 { return int64(len(t.msg.Data)) }

// see notes that the tenant has a consumer in a volume, as the server was asked for
// it at a time.
func (q *tenantQueue) see(v stream.LiveVolume, info *natsjs.ConsumerInfo, asked time.Time) (waiting int) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	src := q.source(v)
	src.known, src.createdAt = true, createdAt(info)
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting = int(min(info.NumPending, lookAhead))
	full := isFull(info) && q.ackedAt.Before(asked)
	if full {
		waiting = 0
	}
	if v.Number == q.c.work.ledger.Active().Number {
		q.full = full
	}
	if info.NumAckPending > q.inFlight {
		waiting++ // in another runner's hands, or its holder is dead
	}
	if waiting > 0 {
		q.looks[v.Number] = true
	}
	return waiting
}

// isFull reports whether a consumer delivers no request for the first time because
// too many are unacknowledged.
func isFull(info *natsjs.ConsumerInfo) bool {
	return info.Config.MaxAckPending > 0 && info.NumAckPending >= info.Config.MaxAckPending
}

// acknowledged notes that a request was acknowledged, and reports whether that is
// why requests may be delivered again.
func (q *tenantQueue) acknowledged() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	was := q.full
	q.full, q.ackedAt = false, time.Now()
	return was
}

func (q *tenantQueue) isFull() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.full
}

// drop removes the source of a sealed volume that has nothing left to do.
func (q *tenantQueue) drop(v stream.LiveVolume) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	q.sources = slices.DeleteFunc(q.sources, func(src *source) bool { return src.v.Number == v.Number })
}

// source is that of a volume; it is added if it is missing.
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

// next takes the tenant's request whose turn it is, and returns how many more are
// known to wait. It reports false when there is none. A request that was announced just
// now is waited for a moment.
func (q *tenantQueue) next(ctx context.Context, announced bool) (t taken, more int, ok bool, err error) {
	q.pulling.Lock()
	defer q.pulling.Unlock()
	q.mu.Lock()
	n := q.held.Len()
	q.mu.Unlock()
	if n == 0 || n < lookAhead/2 && (q.pending > 0 || q.returned) {
		err = q.fill(ctx, lookAhead-n, announced && n == 0)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t, ok = q.held.Take()
	if ok {
		q.c.heldBytes.Add(-t.size())
		err = nil // what went wrong is met again
	}
	more = q.held.Len() + int(min(q.pending, lookAhead))
	if q.unasked || q.returned {
		more++
	}
	return t, more, ok, err
}

// fill asks the tenant's consumers, oldest volume first, until one has requests,
// and takes up to size of them. It waits a moment for a request that was announced.
func (q *tenantQueue) fill(ctx context.Context, size int, announced bool) error {
	active := q.c.work.ledger.Active()
	q.source(active)
	q.mu.Lock()
	looks := q.looks
	looks[0] = looks[0] || q.active != active.Number // the one before may have some left
	q.looks = map[events.Volume]bool{}
	q.mu.Unlock()
	q.active, q.pending, q.unasked, q.returned = active.Number, 0, false, false
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
			src.known = false
			q.c.work.prepared.Delete(workKey{src.v.Stream(), src.name})
			err = q.ask(ctx, src, size, wait)
		}
		if errors.Is(err, errFull) {
			full, err = err, nil // the other volumes may have some
		}
		q.mu.Lock()
		some := q.held.Len() > 0
		if err != nil || some {
			maps.Copy(q.looks, looks) // they were not all asked
		}
		q.mu.Unlock()
		q.unasked = i < len(q.sources)-1
		if err != nil || some {
			return err
		}
	}
	return full
}

// ask takes one request from a consumer, for which it may wait a moment, and if there
// are more, up to size.
func (q *tenantQueue) ask(ctx context.Context, src *source, size int, wait bool) error {
	if !src.known {
		info, err := q.c.work.ensureWork(ctx, src.v, q.c.pool, q.tenant)
		if err != nil {
			return err
		}
		src.known, src.createdAt = true, createdAt(info)
	}
	first := request{Batch: 1, NoWait: true}
	if wait {
		first = request{Batch: 1, Expires: announcedWait}
	}
	got, err := q.pull(ctx, src, first)
	if err != nil || got == 0 {
		return err
	}
	ahead := min(int(min(q.pending, lookAhead)), size-1)
	if q.returned {
		ahead = size - 1
	}
	if ahead > 0 && q.c.heldBytes.Load() < maxHeldBytes {
		_, err = q.pull(ctx, src, request{Batch: ahead, NoWait: true, MaxBytes: lookAheadBytes})
	}
	return err
}

// request asks a consumer for messages.
type request struct {
	Batch    int  `json:"batch"`
	MaxBytes int  `json:"max_bytes,omitempty"`
	NoWait   bool `json:"no_wait,omitempty"`
	// Expires is how long the consumer waits for a message, in nanoseconds.
	Expires time.Duration `json:"expires,omitempty"`
}

// announcedWait is how long a request is waited for that was announced just now: the
// announcement often arrives before the consumer has learned of the request. Asking
// again after a pause would delay each run of an idle server.
const announcedWait = 5 * time.Millisecond

// errNoConsumer reports that a consumer or its stream does not exist.
var errNoConsumer = errors.New("the consumer does not exist")

// errFull reports a consumer that delivers nothing because too many requests are
// unacknowledged.
var errFull = errors.New("too many requests of the tenant are unacknowledged")

// fullCheck is how long a consumer is waited for before it is asked whether it is
// full: a full one leaves a request for messages unanswered.
const fullCheck = 50 * time.Millisecond

// pull sends a request to a consumer, holds what it has now and returns how many
// that is.
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
		// The server that has the request may be replaced.
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
				q.close() // takes back what was asked for
				if src.v.Number == q.active && !q.noteFull(asked) {
					q.c.expect(q.tenant, 1)
				}
				return got, errFull
			}
			continue // what went wrong is met by the request
		}
		if errors.Is(err, nats.ErrNoResponders) {
			return got, errNoConsumer
		}
		if err != nil {
			q.close()
			return got, fmt.Errorf("ask consumer %s: %w", src.name, err)
		}
		code, reason := jet.HeaderValue(m.Header, jet.HeaderStatus), jet.HeaderValue(m.Header, jet.HeaderReason)
		switch {
		case code == "":
			q.hold(src, m)
			got++
		case code == "404", code == "408":
			q.returned = false // there is no more now
			return got, nil
		case code == "409" && strings.HasPrefix(reason, "Message Size Exceeds MaxBytes"):
			return got, nil
		case code == "409" && strings.EqualFold(reason, "Consumer Deleted"):
			return got, errNoConsumer
		case code == "409" && reason == "Batch Completed":
			// It ends the request before this one.
		default:
			return got, fmt.Errorf("ask consumer %s: the server answered %s %s", src.name, code, reason)
		}
	}
	return got, nil
}

// nextMsg waits for an answer of a consumer, until ctx ends or, unless it is
// known not to be full, for fullCheck.
func (q *tenantQueue) nextMsg(ctx context.Context, checked bool) (*nats.Msg, error) {
	if checked {
		return q.sub.NextMsgWithContext(ctx)
	}
	short, cancel := context.WithTimeout(ctx, fullCheck)
	defer cancel()
	m, err := q.sub.NextMsgWithContext(short)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, nats.ErrTimeout
	}
	return m, err
}

// fullWarning is how often at most the log names a tenant whose consumer is full.
const fullWarning = time.Minute

// noteFull notes that the consumer of the active volume was full when the server was
// asked at a time. It reports false if a request was acknowledged since.
func (q *tenantQueue) noteFull(asked time.Time) bool {
	q.mu.Lock()
	if !q.ackedAt.Before(asked) {
		q.mu.Unlock()
		return false
	}
	q.full = true
	warn := time.Since(q.warnedAt) >= fullWarning
	if warn {
		q.warnedAt = time.Now()
	}
	q.mu.Unlock()
	if warn {
		q.c.work.jet.Options.Logger.Warn("a tenant has as many unacknowledged run requests as it may have: its further requests wait until some are acknowledged", "tenant", q.tenant, "pool", q.c.pool)
	}
	return true
}

// hold keeps a request until its turn.
func (q *tenantQueue) hold(src *source, m *nats.Msg) {
	s := q.c.work
	at, err := parseReply(m.Reply)
	if err != nil {
		s.jet.Options.Logger.Error("a message on the work queue is not a delivery", "subject", m.Subject, "err", err)
		return
	}
	q.pending, q.returned = at.pending, at.delivered > 1
	e, unreadable := s.ledger.DecryptEvent(events.Decode(at.seq, events.Message{Subject: m.Subject, Header: m.Header, Body: m.Data}))
	if unreadable == nil && s.ledger.Lost().Unreadable(at.seq) {
		unreadable = fmt.Errorf("the event was accepted as lost: %w", events.ErrDamaged)
	}
	if unreadable != nil {
		s.jet.Options.Logger.Error("a run request cannot be read", "position", at.seq, "subject", m.Subject, "err", unreadable)
		e = fromSubject(at.seq, m.Subject)
	}
	if at.seq <= src.createdAt {
		at.delivered = max(at.delivered, 2) // perhaps by a consumer before this one
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight++
	t := taken{msg: m, at: at, e: e, unreadable: unreadable}
	q.c.heldBytes.Add(t.size())
	q.held.Add(sessionOf(e), t)
}

// sessionOf is what requests of a tenant are taken in turn by: the session, and
// without one who asked for the run.
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

// done notes that a request is no longer in flight.
func (q *tenantQueue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight--
}

// beat extends the ack deadlines of the requests taken ahead.
func (q *tenantQueue) beat() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held.Each(func(t taken) {
		_ = q.c.work.jet.WorkConn.Publish(t.msg.Reply, []byte("+WPI")) // the next one makes up for it
	})
}

// share gives back some of the requests taken ahead.
func (q *tenantQueue) share(n func(held int) int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.held.Newest(n(q.held.Len()))
	q.inFlight -= len(list)
	slices.Reverse(list) // so that they come again in their order
	for _, t := range list {
		q.c.heldBytes.Add(-t.size())
		q.c.giveBack(t, 0)
	}
}

// close ends the subscription, and gives back what the server sent before it
// noticed. A server that is silent has sent nothing.
func (q *tenantQueue) close() {
	if q.sub == nil {
		return
	}
	sub := q.sub
	q.sub = nil
	answering := q.c.work.jet.Answering()
	if answering.Err() != nil {
		_ = sub.Unsubscribe() // the server reads it once it answers
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
		if m.Reply != "" && jet.HeaderValue(m.Header, jet.HeaderStatus) == "" {
			_ = q.c.work.jet.WorkConn.Publish(m.Reply, nak(0)) // else it comes again when its time is up
			q.c.work.announceReturned(q.c.pool, q.tenant, 0)
		}
	}
}

// nextBefore returns the next message of a subscription, or an error when ctx ends or
// after a time.
func nextBefore(ctx context.Context, sub *nats.Subscription, within time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// giveBack returns a request that was taken and not passed to the function.
func (c *poolConsumer) giveBack(t taken, delay time.Duration) {
	// If it is lost, the request comes again when its ack deadline has passed.
	_ = c.work.jet.WorkConn.Publish(t.msg.Reply, nak(delay))
	c.work.announceReturned(c.pool, t.e.Tenant, delay)
}

// retryAfter are the pauses after which a tenant is asked again whose request was
// announced and not found: the consumer may learn of it after the runner.
var retryAfter = [...]time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}
