package ledger

import (
	"context"
	"strconv"
	"sync"

	"daybook/events"
)

// AssignRef returns the short name of a session for a holder, for example a connection.
// It assigns a name if there is none: "s0" for the holder's first session, "s1" for the
// next. Short names survive restarts. seq is the position of the new event; 0 if the
// name was assigned before.
func (l *Ledger) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	err = retry(ctx, "name session "+session, func() error {
		var found bool
		var newer *events.Event
		var last uint64
		err := l.useRefs(ctx, tenant, holder, func(h *holderRefs) {
			if ref, found = h.refs[session]; !found {
				ref = "s" + strconv.Itoa(h.count)
			}
			newer, last = h.newer, h.last
		})
		switch {
		case err != nil:
			return err
		case newer != nil:
			return newerSessionError(session, *newer)
		case found:
			seq = 0
			return nil
		}
		seq, err = l.store.Append(ctx, l.newEvent(tenant, "", &events.SessionRefAssigned{Holder: holder, Ref: ref, SessionID: session}), int64(last))
		return err
	})
	if err != nil {
		return "", 0, err
	}
	return ref, seq, nil
}

// ResolveRef returns the session of a short name, or CodeNotFound.
func (l *Ledger) ResolveRef(ctx context.Context, tenant, holder, ref string) (session string, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	found := false
	err = l.useRefs(ctx, tenant, holder, func(h *holderRefs) { session, found = h.sessions[ref] })
	switch {
	case err != nil:
		return "", unavailable("look up session "+Excerpt(ref), err)
	case !found:
		return "", unknownSessionError(ref)
	}
	return session, nil
}

// useRefs calls fn with the short names of a holder. It reads only the events that are stored
// after those that this process knows. fn MUST NOT keep h.
func (l *Ledger) useRefs(ctx context.Context, tenant, holder string, fn func(h *holderRefs)) error {
	key := tenant + " " + holder
	for {
		after := l.refs.last(key)
		var list []events.Event
		last, err := l.store.Each(ctx, events.RefSubject(tenant, holder), after, func(e events.Event) error {
			list = append(list, e)
			return nil
		})
		if err != nil {
			return err
		}
		if l.refs.advance(key, after, last, list, fn) {
			return nil
		}
	}
}

// maxCachedRefs is the maximum number of short names in a refCache: about 20 MiB.
const maxCachedRefs = 50_000

// refCache caches the short names of holders, which never change. It keeps none of a holder
// with more than maxCachedRefs. The zero value is ready to use.
type refCache struct {
	mu       sync.Mutex
	byHolder map[string]*holderRefs // guarded by mu
	size     int                    // guarded by mu: the short names in byHolder
}

// holderRefs are the short names of a holder.
type holderRefs struct {
	// last is the position of the last event that was read, and count the number of events.
	last  uint64
	count int
	// sessions has the session of each short name, and refs the short name of each session.
	sessions, refs map[string]string
	// newer is an event of a type that this version does not know, or nil.
	newer *events.Event
}

// last returns the position up to which the short names of a holder are known.
func (c *refCache) last(key string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.byHolder[key]; h != nil {
		return h.last
	}
	return 0
}

// advance adds the events of a holder that are stored after one position and up to another
// one, and calls fn. It returns false if earlier events are not known any more.
func (c *refCache) advance(key string, after, last uint64, list []events.Event, fn func(*holderRefs)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.byHolder[key]
	if h == nil {
		if after > 0 {
			return false
		}
		h = &holderRefs{sessions: map[string]string{}, refs: map[string]string{}}
	}
	for _, e := range list {
		if e.Seq > h.last { // otherwise another call has added it
			h.add(e)
			c.size++
		}
	}
	h.last = max(h.last, last)
	if fn(h); h.count == 0 {
		return true
	}
	if c.byHolder == nil || c.size > maxCachedRefs {
		c.byHolder, c.size = map[string]*holderRefs{}, h.count
	}
	if c.byHolder[key] = h; c.size > maxCachedRefs { // the holder alone has too many
		c.byHolder, c.size = nil, 0
	}
	return true
}

func (h *holderRefs) add(e events.Event) {
	h.last = e.Seq
	h.count++
	d, ok := e.Data.(*events.SessionRefAssigned)
	if !ok {
		h.newer = &e
		return
	}
	if _, ok := h.sessions[d.Ref]; !ok {
		h.sessions[d.Ref] = d.SessionID
	}
	if _, ok := h.refs[d.SessionID]; !ok {
		h.refs[d.SessionID] = d.Ref
	}
}
