package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
)

const (
	// liveBytes bounds the encoded events that a liveFeed keeps for followers
	// that are behind.
	liveBytes = 16 << 20
	// liveKept is for how long a liveFeed keeps an event at least, if there is space, and
	// twice as long at most: the memory of a busy time is not held until the next one.
	liveKept = 10 * time.Second
	// deliveryBytes bounds what a follower is given at a time: one event more
	// than this, at most.
	deliveryBytes = 256 << 10
)

// liveFeed follows the ledger once for all clients that follow it, and encodes
// each event once for all clients of its tenant. It reads while there are
// followers. No follower delays another one: a follower that is behind what the
// feed keeps reads stored events until it has caught up.
//
// It is safe for concurrent use.
type liveFeed struct {
	log   EventLog
	limit int           // of size
	keep  time.Duration // liveKept, except in tests

	mu sync.Mutex
	// The rest is guarded by mu.
	reading   *reading // nil without followers
	audiences map[string]*audience
	taken     uint64      // position of the last event that was taken up
	order     []*audience // the audience of each event kept, oldest first
	size      int         // bytes of the events kept
	expiring  bool        // expire is going to be called
}

// reading is one walk along the ledger. It ends with its last follower, or with
// an error.
type reading struct {
	followers atomic.Int64
	stop      context.CancelFunc
	ended     chan struct{}
	err       error // valid once ended is closed
}

// audience are the followers of a tenant and the newest events for them.
type audience struct {
	tenant    string
	followers int
	// kept are all events for the tenant after the position since up to end.
	kept       []*liveEvent
	since, end uint64
	changed    chan struct{} // closed and replaced when kept or end changes
}

// liveEvent is an event that is encoded at most once, for all clients. It is safe
// for concurrent use.
type liveEvent struct {
	event events.Event
	at    time.Time // when it was taken up

	once sync.Once
	// seq is the position and json the event as a CloudEvent, without a line end.
	seq  string
	json []byte
	err  error
}

// encode makes seq and json valid.
func (e *liveEvent) encode() error {
	e.once.Do(func() {
		ce, err := cloudEvent(e.event)
		if err != nil {
			e.err = err
			return
		}
		var buf bytes.Buffer
		if err := encoder(&buf).Encode(ce); err != nil {
			e.err = fmt.Errorf("encode event %d: %w", e.event.Seq, err)
			return
		}
		e.seq, e.json = ce.Sequence, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	})
	return e.err
}

func newLiveFeed(log EventLog) *liveFeed {
	return &liveFeed{log: log, limit: liveBytes, keep: liveKept, audiences: map[string]*audience{}}
}

// follower is the place of one client in a liveFeed. It belongs to one goroutine.
type follower struct {
	feed     *liveFeed
	reading  *reading
	audience *audience
}

// join adds a follower of a tenant that has reached a position. The caller MUST
// call leave.
func (f *liveFeed) join(ctx context.Context, tenant string, after uint64) *follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reading == nil {
		f.start(ctx, after)
	}
	a := f.audiences[tenant]
	if a == nil {
		a = &audience{tenant: tenant, since: f.taken, end: f.taken, changed: make(chan struct{})}
		f.audiences[tenant] = a
	}
	a.followers++
	f.reading.followers.Add(1)
	return &follower{f, f.reading, a}
}

// start begins a reading after a position. The caller must hold mu.
func (f *liveFeed) start(ctx context.Context, after uint64) {
	// The reading serves all followers: it must not end with the first one.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &reading{stop: stop, ended: make(chan struct{})}
	f.reading, f.taken = r, after
	go func() {
		defer close(r.ended)
		r.err = f.log.Follow(ctx, after, func(batch []events.Event, _ uint64) error { return f.add(r, batch) })
	}()
}

// leave removes the follower and returns when nothing of it is left.
func (w *follower) leave() {
	f, r, a := w.feed, w.reading, w.audience
	f.mu.Lock()
	last := r.followers.Add(-1) == 0
	if a.followers--; a.followers == 0 {
		f.dismiss(a)
	}
	if last && f.reading == r {
		f.reading = nil
	}
	f.mu.Unlock()
	if last {
		r.stop()
		<-r.ended
	}
}

// dismiss drops what is kept for an audience. The caller must hold mu.
func (f *liveFeed) dismiss(a *audience) {
	if f.audiences[a.tenant] == a {
		delete(f.audiences, a.tenant)
	}
	for _, e := range a.kept {
		f.size -= len(e.json)
	}
	a.kept = nil
	f.order = slices.DeleteFunc(f.order, func(of *audience) bool { return of == a })
}

// add encodes a batch for the tenants that have followers.
func (f *liveFeed) add(r *reading, batch []events.Event) error {
	last := batch[len(batch)-1].Seq
	f.mu.Lock()
	if f.reading != r {
		f.mu.Unlock()
		return context.Canceled
	}
	f.taken = last // an audience that is made from here on starts after the batch
	there := maps.Clone(f.audiences)
	f.mu.Unlock()

	list, now := make([]*liveEvent, 0, len(batch)), time.Now()
	for _, e := range batch {
		if there[e.Tenant] == nil && e.Tenant != events.LedgerTenant {
			continue
		}
		l := &liveEvent{event: e, at: now}
		if err := l.encode(); err != nil {
			return err
		}
		list = append(list, l)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	for tenant, a := range there {
		if f.audiences[tenant] != a {
			continue // its last follower has left
		}
		some := false
		for _, l := range list {
			if l.event.Tenant == tenant || l.event.Tenant == events.LedgerTenant {
				a.kept, f.order, f.size, some = append(a.kept, l), append(f.order, a), f.size+len(l.json), true
			}
		}
		a.end = last
		if some {
			close(a.changed)
			a.changed = make(chan struct{})
		}
	}
	for f.size > f.limit {
		f.drop()
	}
	f.expireLater()
	return nil
}

// drop drops the oldest event that is kept. The caller must hold mu.
func (f *liveFeed) drop() {
	a := f.order[0]
	oldest := a.kept[0]
	f.order[0], a.kept[0] = nil, nil // the arrays behind the slices stay
	f.order, a.kept = f.order[1:], a.kept[1:]
	f.size -= len(oldest.json)
	a.since = oldest.event.Seq
}

// expireLater makes sure that what is kept is dropped later. The caller must hold mu.
func (f *liveFeed) expireLater() {
	if !f.expiring && len(f.order) > 0 {
		f.expiring = true
		time.AfterFunc(f.keep, f.expire)
	}
}

// expire drops the events that were kept for long enough.
func (f *liveFeed) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.order) > 0 && time.Since(f.order[0].kept[0].at) >= f.keep {
		f.drop()
	}
	f.order = slices.Clone(f.order) // the array of a busy time goes
	for _, a := range f.audiences {
		a.kept = slices.Clone(a.kept)
	}
	f.expiring = false
	f.expireLater()
}

// next returns events after a position that the follower has reached, and the
// position that it reaches with them. Without events, changed is closed when
// there are some. It reports false when the follower is behind what is kept:
// then it must read stored events up to the position returned.
func (w *follower) next(after uint64) (list []*liveEvent, end uint64, changed <-chan struct{}, ok bool) {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	a := w.audience
	if after < a.since {
		return nil, a.since, nil, false
	}
	from, _ := slices.BinarySearchFunc(a.kept, after+1, func(e *liveEvent, seq uint64) int {
		switch {
		case e.event.Seq < seq:
			return -1
		case e.event.Seq > seq:
			return 1
		default:
			return 0
		}
	})
	size := 0
	for _, e := range a.kept[from:] {
		if size >= deliveryBytes {
			break
		}
		size += len(e.json)
		list = append(list, e)
	}
	if from+len(list) < len(a.kept) {
		return list, list[len(list)-1].event.Seq, a.changed, true
	}
	return list, max(after, a.end), a.changed, true
}
