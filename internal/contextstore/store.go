package contextstore

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// Store holds contexts. It is safe for concurrent use. Run records what is noted
// and lets contexts expire; what was noted when it ends is on record.
type Store struct {
	opts    Options
	cache   cache
	latency latency
	warned  rate.Sometimes // about notes that cannot be recorded
}

// New makes a Store. It starts nothing.
func New(opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{
		opts:   opts,
		warned: rate.Sometimes{Interval: warnEvery},
		cache: cache{
			entries: map[string]*entry{}, order: list.New(), dirty: map[*entry]struct{}{},
			evicted: map[Eviction]int64{EvictedIdle: 0, EvictedLRU: 0, EvictedPressure: 0},
		},
	}, nil
}

// conflicts is how often an edit is tried again that others were faster than.
const conflicts = 16

// touchEvery is how far what is on record of the last use may lag behind.
const touchEvery = time.Minute

// warnEvery is the least time between two warnings about notes that cannot be recorded.
const warnEvery = 10 * time.Second

// unrecorded logs that the notes of contexts cannot be recorded now.
func (s *Store) unrecorded(ctx context.Context, contexts int, err error) {
	s.warned.Do(func() {
		s.opts.Logger.WarnContext(ctx, "what was noted in contexts cannot be recorded now; it is tried again", "contexts", contexts, "err", err)
	})
}

// Ref names a context as it is or will be on record, for a run that is asked for
// in it.
func (s *Store) Ref(ctx context.Context, k Key) (events.ContextRef, error) {
	ctx, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return events.ContextRef{}, err
	}
	defer s.release(e)
	if err := s.open(ctx, e, ""); err != nil {
		return events.ContextRef{}, err
	}
	e.asked = s.opts.Now()
	return e.state.ContextRef, nil
}

// Get returns a context, with all that was noted in it. reader is who reads, for
// the audit: a tool's name. The maps and lists in it are not to be changed.
func (s *Store) Get(ctx context.Context, k Key, reader string) (projections.Context, error) {
	ctx, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	begun := time.Now()
	defer func() { s.latency.observe(time.Since(begun)) }()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return projections.Context{}, err
	}
	defer s.release(e)
	flushing, stopFlush := context.WithTimeout(ctx, answerWait*2/3)
	if err := s.flush(flushing, e, true); err != nil {
		// What is recorded can be read, also when nothing can be written.
		s.unrecorded(ctx, 1, err)
	}
	stopFlush()
	if traceless(ctx) {
		st, _, err := s.peek(ctx, e)
		return s.withWarnings(ctx, e, st.Context), err
	}
	if err := s.open(ctx, e, reader); err != nil {
		return projections.Context{}, err
	}
	return s.withWarnings(ctx, e, e.state.Context), nil
}

// withWarnings adds to a context why nothing is kept in it, if that is so. e.mu is held.
func (s *Store) withWarnings(ctx context.Context, e *entry, c projections.Context) projections.Context {
	if e.state == nil || e.state.Seq != 0 {
		return c
	}
	if err := s.opts.Keep(ctx, e.key.Tenant, e.text); err != nil {
		c.Warnings = []string{"nothing is kept in this context: " + err.Error()}
	}
	return c
}

// Preferences returns those of a context. Nothing set is the zero value.
func (s *Store) Preferences(ctx context.Context, k Key, reader string) (prefs events.UserPreferences, err error) {
	err = s.view(ctx, k, reader, func(st *projections.ContextState, _ *pending) { prefs = st.Context.UserPreferences })
	return prefs, err
}

// PriorCall returns what came of a call when it was made before in the context, or
// nil. sha256 is the hash of a request for a run, or CallHash.
func (s *Store) PriorCall(ctx context.Context, k Key, reader, sha256 string) (tried *projections.PriorCall, err error) {
	err = s.view(ctx, k, reader, func(st *projections.ContextState, p *pending) {
		for i := range st.PriorCalls {
			if st.PriorCalls[i].ArgsSHA256 == sha256 {
				tried = new(st.PriorCalls[i])
			}
		}
		for _, c := range p.calls { // newer than what is on record
			if c.ArgumentsSHA256 != sha256 {
				continue
			}
			times := max(c.Times, 1)
			if tried != nil {
				times += tried.Times
			}
			tried = &projections.PriorCall{
				ArgsSHA256: sha256, Tool: c.Tool, CalledAt: events.FormatTime(c.CalledAt.Time), Times: times,
				Summary: c.ResultSummary, Results: c.Results, ResultSHA256: c.ResultSHA256,
			}
		}
	})
	return tried, err
}

// PriorRead returns what is known of a resource that was read before in the
// context, or nil.
func (s *Store) PriorRead(ctx context.Context, k Key, reader, resource string) (fetched *projections.FetchedResource, err error) {
	err = s.view(ctx, k, reader, func(st *projections.ContextState, p *pending) {
		for i := range st.Context.FetchedResources {
			if st.Context.FetchedResources[i].ResourceID == resource {
				fetched = new(st.Context.FetchedResources[i])
			}
		}
		for _, r := range p.resources {
			if r.ResourceID == resource {
				fetched = &projections.FetchedResource{
					ResourceID: resource, ResourceType: r.ResourceType, FetchedAt: events.FormatTime(r.FetchedAt.Time), ContentHash: r.ContentSHA256, Summary: r.Summary,
				}
			}
		}
	})
	return fetched, err
}

// view shows a context and what is not on record of it yet.
func (s *Store) view(ctx context.Context, k Key, reader string, at func(*projections.ContextState, *pending)) error {
	ctx, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	begun := time.Now()
	defer func() { s.latency.observe(time.Since(begun)) }()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return err
	}
	defer s.release(e)
	if traceless(ctx) {
		st, p, err := s.peek(ctx, e)
		if err == nil {
			at(&st, p)
		}
		return err
	}
	if err := s.open(ctx, e, reader); err != nil {
		return err
	}
	at(e.state, &e.pending)
	return nil
}

// open brings an entry up to date for a caller that uses its context. A context
// that was idle for too long expires first. The caller must hold e.mu.
func (s *Store) open(ctx context.Context, e *entry, reader string) error {
	if err := s.load(ctx, e); err != nil {
		return s.unavailable("read the context", err)
	}
	now := s.opts.Now()
	if s.idle(e, now) {
		if err := s.expire(ctx, e); err != nil {
			return s.unavailable("expire the context", err)
		}
		s.countExpired()
	}
	s.touch(e, now)
	if now.Sub(e.state.UsedAt) >= touchEvery || e.state.Seq == 0 && reader != "" {
		e.pending.touched = true
	}
	if e.pending.touched {
		e.pending.usedAt = now
	}
	if reader != "" && s.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		// The hash tells sessions apart as well as the id, and opens none.
		s.opts.Logger.DebugContext(ctx, "context read", "session_id_sha256", events.Hash([]byte(e.state.SessionID)), "tenant", e.key.Tenant, "kind", e.key.Kind, "tool", reader)
	}
	return nil
}

// idle reports whether a context with something in it was not used for long.
// e.mu is held.
func (s *Store) idle(e *entry, now time.Time) bool {
	return !e.state.Empty && e.state.Running == 0 && now.Sub(s.lastUse(e)) > s.opts.IdleTTL
}

func (s *Store) lastUse(e *entry) time.Time {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return e.usedAt
}

// expire records that a context begins anew, unless somebody was faster to edit
// it. e.mu is held.
func (s *Store) expire(ctx context.Context, e *entry) error {
	if err := s.flush(ctx, e, false); err != nil {
		return err
	}
	_, position, err := s.lastEdit(ctx, e)
	if err != nil {
		return err
	}
	d := &events.ContextExpired{ContextRef: e.state.ContextRef, LastUse: events.Instant{Time: s.lastUse(e).UTC()}, IdleSecs: int64(s.opts.IdleTTL / time.Second)}
	seq, err := s.append(ctx, e.key.Tenant, d, int64(position))
	if err != nil && !errors.Is(err, events.ErrConflict) {
		return err
	}
	e.fresh = time.Time{}
	return s.reload(ctx, e, seq)
}

// reload reads a context again once an event is applied.
func (s *Store) reload(ctx context.Context, e *entry, seq uint64) error {
	if err := s.opts.Views.Wait(ctx, seq); err != nil {
		return err
	}
	e.state = nil
	return s.load(ctx, e)
}

func (s *Store) append(ctx context.Context, tenant string, d events.Data, after int64) (uint64, error) {
	return s.opts.Log.Append(ctx, events.New(tenant, s.opts.Now(), d), after)
}

// lastEdit is what the last edit of a context has left, and its position.
func (s *Store) lastEdit(ctx context.Context, e *entry) (events.ContextContent, uint64, error) {
	last, err := s.opts.Log.LastContext(ctx, e.key.Tenant, e.text)
	if errors.Is(err, events.ErrNotFound) {
		return events.ContextContent{}, 0, nil
	}
	if err != nil {
		return events.ContextContent{}, 0, err
	}
	switch d := last.Data.(type) {
	case *events.ContextUpdated:
		return d.Content.Value(), last.Seq, nil
	case *events.ContextCleared, *events.ContextExpired:
		return events.ContextContent{}, last.Seq, nil
	default:
		return events.ContextContent{}, 0, &ledger.Error{Code: ledger.CodeUnavailable, Message: "the context was edited by a newer version of Daybook; upgrade this one"}
	}
}

// takeToEdit is take for an edit of a client.
func (s *Store) takeToEdit(ctx context.Context, k Key) (*entry, error) {
	if !k.IsZero() {
		if err := s.opts.Enter(ctx, k.Tenant); err != nil {
			return nil, s.unavailable("edit the context", err)
		}
	}
	return s.acquire(ctx, k)
}

// Set records preferences and values, and returns the context with them and the
// position of the event. What others set at the same time stays set. A patch
// that changes nothing is not recorded.
func (s *Store) Set(ctx context.Context, k Key, p Patch, actor events.Actor) (_ projections.Context, seq uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	e, err := s.takeToEdit(ctx, k)
	if err != nil {
		return projections.Context{}, 0, err
	}
	defer s.release(e)
	if err := s.open(ctx, e, "set_context"); err != nil {
		return projections.Context{}, 0, err
	}
	seq, err = s.edit(ctx, e, func(have events.ContextContent) (events.Data, error) {
		next, err := s.apply(p, have)
		if err != nil || same(next, have) {
			return nil, err
		}
		return &events.ContextUpdated{ContextRef: e.state.ContextRef, Content: events.Plain(next), Actor: actor}, nil
	})
	if err != nil {
		return projections.Context{}, 0, s.unavailable("set the context", err)
	}
	return e.state.Context, seq, nil
}

// Clear records that a context is cleared and returns it as it is then, and the position
// of the event. The ledger keeps what happened before. A context with nothing to clear
// gets no event: the position is that of the last event about it, or 0.
func (s *Store) Clear(ctx context.Context, k Key, actor events.Actor) (_ projections.Context, seq uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, answerWait)
	defer stop()
	e, err := s.takeToEdit(ctx, k)
	if err != nil {
		return projections.Context{}, 0, err
	}
	defer s.release(e)
	if err := s.load(ctx, e); err != nil {
		return projections.Context{}, 0, s.unavailable("read the context", err)
	}
	switch clear, err := s.isClear(ctx, e); {
	case err != nil:
		return projections.Context{}, 0, err
	case clear:
		return e.state.Context, e.state.Seq, nil
	}
	if err := s.open(ctx, e, "context_clear"); err != nil {
		return projections.Context{}, 0, err
	}
	switch clear, err := s.isClear(ctx, e); {
	case err != nil:
		return projections.Context{}, 0, err
	case clear: // it has expired
		return e.state.Context, e.state.Seq, nil
	}
	seq, err = s.edit(ctx, e, func(events.ContextContent) (events.Data, error) {
		return &events.ContextCleared{ContextRef: e.state.ContextRef, Actor: actor}, nil
	})
	if err != nil {
		return projections.Context{}, 0, s.unavailable("clear the context", err)
	}
	return e.state.Context, seq, nil
}

// isClear reports whether there is nothing to clear in a context, in all that the ledger
// has when it is called. e.mu is held.
func (s *Store) isClear(ctx context.Context, e *entry) (bool, error) {
	if !s.looksClear(e) {
		return false, nil
	}
	// A run or a note of another process may not be readable yet.
	wait, stop := context.WithTimeout(ctx, readYourWritesTimeout)
	defer stop()
	last, err := s.opts.Log.LastSeq(wait)
	if err == nil {
		err = s.opts.Views.Wait(wait, last)
	}
	if err != nil {
		return false, nil // it may hold something: clear it
	}
	e.state = nil
	if err := s.load(ctx, e); err != nil {
		return false, s.unavailable("read the context", err)
	}
	if !s.looksClear(e) {
		return false, nil
	}
	have, _, err := s.lastEdit(ctx, e) // of any process
	if err != nil {
		return false, s.unavailable("clear the context", err)
	}
	return same(have, events.ContextContent{}), nil
}

// looksClear reports whether nothing is in a context that can be read. A run that was
// asked for just now may not be in the ledger yet. e.mu is held.
func (s *Store) looksClear(e *entry) bool {
	return e.state.Empty && e.state.Running == 0 && len(e.pending.calls)+len(e.pending.resources) == 0 && s.opts.Now().Sub(e.asked) >= readYourWritesTimeout
}

// edit records an edit made of the one before; nil is none. What was noted before
// is recorded before. e.mu is held.
func (s *Store) edit(ctx context.Context, e *entry, next func(have events.ContextContent) (events.Data, error)) (uint64, error) {
	if err := s.flush(ctx, e, false); err != nil {
		return 0, err
	}
	for try := 0; ; try++ {
		have, position, err := s.lastEdit(ctx, e)
		if err != nil {
			return 0, err
		}
		d, err := next(have)
		if d == nil || err != nil {
			return position, err
		}
		seq, err := s.append(ctx, e.key.Tenant, d, int64(position))
		switch {
		case errors.Is(err, events.ErrConflict) && try < conflicts:
			continue
		case err != nil:
			return 0, err
		}
		return seq, s.reload(ctx, e, seq)
	}
}

func same(a, b events.ContextContent) bool {
	if a.UserPreferences != b.UserPreferences || len(a.Custom) != len(b.Custom) {
		return false
	}
	for name, v := range a.Custom {
		if old, ok := b.Custom[name]; !ok || string(old) != string(v) {
			return false
		}
	}
	return true
}
