package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
)

const (
	// liveBytes bounds the encoded events that Events keeps for followers that are
	// behind.
	liveBytes = 16 << 20
	// liveKeepTime is the minimum time for which Events keeps an event if there is space.
	// The maximum is twice as long, so that the memory for the events of a busy time is not
	// held until the next busy time.
	liveKeepTime = 10 * time.Second
	// deliveryBytes bounds a delivery to a follower. A delivery ends with the first event
	// that reaches this size.
	deliveryBytes = 256 << 10
	// storedBatch is the maximum number of events that are read for a page of stored events.
	storedBatch = 1000
)

// EventLog reads recorded events.
type EventLog interface {
	// Read returns at most limit events after a position. It returns fewer if they are
	// large, and none only at the end.
	Read(ctx context.Context, after uint64, limit int) ([]events.Event, error)
	// Follow calls fn with each batch of events after a position until ctx is done or fn
	// returns an error. batch is valid until fn returns.
	Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error
}

// Events follows the ledger once for all clients that follow it, and encodes each
// event once for all clients of its tenant. It reads while there are followers. No
// follower delays another one: a follower that is behind the kept events reads stored
// events until it has caught up.
//
// It is safe for concurrent use.
type Events struct {
	log   EventLog
	gate  *reads.Gate
	pages sharedPages[storedKey, StoredPage]
	limit int           // of size
	keep  time.Duration // liveKeepTime, except in tests

	mu sync.Mutex
	// The following fields are guarded by mu.
	reading   *reading // nil without followers
	audiences map[string]*audience
	lastRead  uint64      // position of the last event read
	order     []*audience // the audience of each kept event, oldest first
	size      int         // size of the kept events in bytes
	expiring  bool        // a call of expire is scheduled
}

// reading is one pass over the ledger. It ends when its last follower leaves, or with
// an error.
type reading struct {
	followers atomic.Int64
	stop      context.CancelFunc
	ended     chan struct{}
	err       error // valid once ended is closed
}

// audience counts the followers of a tenant and keeps the newest events for them.
type audience struct {
	tenant    string
	followers int
	// kept holds all events for the tenant after the position since, up to end.
	kept       []*Event
	since, end uint64
	changed    chan struct{} // closed and replaced when kept or end changes
}

// Event is an event that is encoded once for all clients. It is safe for concurrent
// use.
type Event struct {
	Event events.Event
	at    time.Time // when it was read

	once sync.Once
	// Seq is the position; JSON is the CloudEvent without a line end. Both are valid after
	// Encode.
	Seq  string
	JSON []byte
	err  error
}

// Encode sets Seq and JSON, on the first call.
func (e *Event) Encode() error {
	e.once.Do(func() {
		ce, err := events.Structured(e.Event)
		if err != nil {
			e.err = err
			return
		}
		var buf bytes.Buffer
		if err := encodeTo(&buf, ce); err != nil {
			e.err = fmt.Errorf("encode event %d: %w", e.Event.Seq, err)
			return
		}
		e.Seq, e.JSON = ce.Sequence, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	})
	return e.err
}

// visibleTo returns an encoded event as a tenant may see it, which is usually e.
func (e *Event) visibleTo(tenant string) (*Event, error) {
	seen := e.Event.VisibleTo(tenant)
	if seen.Data == e.Event.Data {
		return e, nil
	}
	part := &Event{Event: seen, at: e.at}
	return part, part.Encode()
}

// encodeTo appends v as JSON, without HTML escapes, and a line end.
func encodeTo(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(v) //nolint:wrapcheck // the callers name what they encode
}

// NewEvents returns the feed of a ledger. A read of stored events for a follower that is
// behind waits until gate admits it.
func NewEvents(log EventLog, gate *reads.Gate) *Events {
	return &Events{log: log, gate: gate, limit: liveBytes, keep: liveKeepTime, audiences: map[string]*audience{}}
}

// Follower connects one client with Events. It is not safe for concurrent use.
type Follower struct {
	feed     *Events
	reading  *reading
	audience *audience
}

// Join adds a follower of a tenant's events. after is the position that the follower
// has reached. The caller MUST call Leave.
func (f *Events) Join(ctx context.Context, tenant string, after uint64) *Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reading == nil {
		f.start(ctx, after)
	}
	a := f.audiences[tenant]
	if a == nil {
		a = &audience{tenant: tenant, since: f.lastRead, end: f.lastRead, changed: make(chan struct{})}
		f.audiences[tenant] = a
	}
	a.followers++
	f.reading.followers.Add(1)
	return &Follower{f, f.reading, a}
}

// start begins a reading after a position. The caller must hold mu.
func (f *Events) start(ctx context.Context, after uint64) {
	// The reading serves all followers: it must not end with the request of the first one.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &reading{stop: stop, ended: make(chan struct{})}
	f.reading, f.lastRead = r, after
	go func() {
		defer close(r.ended)
		r.err = f.log.Follow(ctx, after, func(batch []events.Event, _ uint64) error { return f.add(r, batch) })
	}()
}

// Pause returns the minimum time between two deliveries to the follower.
func (w *Follower) Pause() time.Duration { return livePause(w.reading.followers.Load()) }

// Ended returns a channel that is closed when the feed reads no more events for the follower.
func (w *Follower) Ended() <-chan struct{} { return w.reading.ended }

// Err returns the reason why the reading ended. It is valid once ended is closed.
func (w *Follower) Err() error { return w.reading.err }

// Leave removes the follower. If it was the last one, Leave stops the reading and waits
// for its end.
func (w *Follower) Leave() {
	f, r, a := w.feed, w.reading, w.audience
	f.mu.Lock()
	last := r.followers.Add(-1) == 0
	if a.followers--; a.followers == 0 {
		f.removeAudience(a)
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

// removeAudience removes an audience and its kept events. The caller must hold mu.
func (f *Events) removeAudience(a *audience) {
	if f.audiences[a.tenant] == a {
		delete(f.audiences, a.tenant)
	}
	for _, e := range a.kept {
		f.size -= len(e.JSON)
	}
	a.kept = nil
	f.order = slices.DeleteFunc(f.order, func(of *audience) bool { return of == a })
}

// add encodes a batch for the tenants that have followers.
func (f *Events) add(r *reading, batch []events.Event) error {
	last := batch[len(batch)-1].Seq
	f.mu.Lock()
	if f.reading != r {
		f.mu.Unlock()
		return context.Canceled
	}
	f.lastRead = last // an audience created from here on starts after the batch
	audiences := maps.Clone(f.audiences)
	f.mu.Unlock()

	list, now := make([]*Event, 0, len(batch)), time.Now()
	for _, e := range batch {
		if audiences[e.Tenant] == nil && e.Tenant != events.LedgerTenant {
			continue
		}
		l := &Event{Event: e, at: now}
		if err := l.Encode(); err != nil {
			return err
		}
		list = append(list, l)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	for tenant, a := range audiences {
		if f.audiences[tenant] != a {
			continue // its last follower has left
		}
		hasNew := false
		for _, l := range list {
			if l.Event.Tenant == tenant || l.Event.Tenant == events.LedgerTenant {
				var err error
				if l, err = l.visibleTo(tenant); err != nil {
					return err
				}
				a.kept, f.order, f.size, hasNew = append(a.kept, l), append(f.order, a), f.size+len(l.JSON), true
			}
		}
		a.end = last
		if hasNew {
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

// drop removes the oldest kept event. The caller must hold mu.
func (f *Events) drop() {
	a := f.order[0]
	oldest := a.kept[0]
	f.order[0], a.kept[0] = nil, nil // the arrays of the slices keep the pointers otherwise
	f.order, a.kept = f.order[1:], a.kept[1:]
	f.size -= len(oldest.JSON)
	a.since = oldest.Event.Seq
}

// Forget drops all events that are kept for followers of a tenant and all pages. It is called
// after content was shredded: they hold it decrypted. Followers that are behind read stored
// events.
func (f *Events) Forget(tenant string) {
	f.pages.forget()
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.audiences[tenant]
	if a == nil {
		return
	}
	for _, e := range a.kept {
		f.size -= len(e.JSON)
	}
	a.kept, a.since = nil, a.end
	f.order = slices.DeleteFunc(f.order, func(of *audience) bool { return of == a })
}

// expireLater schedules a call of expire if events are kept. The caller must hold mu.
func (f *Events) expireLater() {
	if !f.expiring && len(f.order) > 0 {
		f.expiring = true
		time.AfterFunc(f.keep, f.expire)
	}
}

// expire removes the events that were kept for f.keep.
func (f *Events) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.order) > 0 && time.Since(f.order[0].kept[0].at) >= f.keep {
		f.drop()
	}
	f.order = slices.Clone(f.order) // frees the long array of a busy time
	for _, a := range f.audiences {
		a.kept = slices.Clone(a.kept)
	}
	f.expiring = false
	f.expireLater()
}

// Next returns the next delivery of kept events. after is the position that the follower has
// reached, and end the position that it has reached after the delivery. If there are no
// events, changed is closed when there are new ones. ok is false if the follower is behind
// the kept events: then the caller MUST read stored events up to the position end.
func (w *Follower) Next(after uint64) (list []*Event, end uint64, changed <-chan struct{}, ok bool) {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	a := w.audience
	if after < a.since {
		return nil, a.since, nil, false
	}
	from, _ := slices.BinarySearchFunc(a.kept, after+1, func(e *Event, seq uint64) int {
		switch {
		case e.Event.Seq < seq:
			return -1
		case e.Event.Seq > seq:
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
		size += len(e.JSON)
		list = append(list, e)
	}
	if from+len(list) < len(a.kept) {
		return list, list[len(list)-1].Event.Seq, a.changed, true
	}
	return list, max(after, a.end), a.changed, true
}

// storedKey identifies a page of stored events by its tenant and the position before it.
type storedKey struct {
	tenant string
	after  uint64
}

// StoredPage has all events for a tenant up to the position End. The caller MUST NOT
// change it.
type StoredPage struct {
	Events []*Event
	End    uint64
}

// Stored returns a shared page of stored events after a position, or
// ErrNothingStored if there are none.
func (f *Events) Stored(ctx context.Context, tenant string, after uint64) (StoredPage, error) {
	return f.pages.get(ctx, storedKey{tenant, after}, func() (StoredPage, error) {
		ctx, leave, err := f.gate.Enter(ctx, tenant)
		if err != nil {
			return StoredPage{}, err
		}
		defer leave()
		batch, err := f.log.Read(ctx, after, storedBatch)
		if err == nil && len(batch) == 0 {
			err = ErrNothingStored
		}
		if err != nil {
			return StoredPage{}, err
		}
		page := StoredPage{End: batch[len(batch)-1].Seq}
		for _, e := range batch {
			if e.Tenant == tenant || e.Tenant == events.LedgerTenant {
				page.Events = append(page.Events, &Event{Event: e.VisibleTo(tenant)})
			}
		}
		return page, nil
	})
}
