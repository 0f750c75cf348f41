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

// Store reads and edits conversation contexts. It is safe for concurrent use. Run records
// notes and expires idle contexts. Before it returns, it tries to record all notes.
type Store struct {
	opts        Options
	cache       cache
	latency     latency
	warnLimiter rate.Sometimes // limits warnings about notes that cannot be recorded
}

// New returns a Store. It starts no goroutines; call Run.
func New(opts Options) (*Store, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Store{
		opts:        opts,
		warnLimiter: rate.Sometimes{Interval: warnInterval},
		cache: cache{
			entries: map[string]*entry{}, order: list.New(), dirty: map[*entry]struct{}{},
			evicted: map[Eviction]int64{EvictedIdle: 0, EvictedLRU: 0, EvictedPressure: 0},
		},
	}, nil
}

// maxEditTries bounds the tries of an edit that conflicts with other edits.
const maxEditTries = 16

// touchEvery is the age of the recorded time of the last use from which a use is
// recorded again.
const touchEvery = time.Minute

// warnInterval is the minimum time between two warnings about notes that cannot be
// recorded.
const warnInterval = 10 * time.Second

func (s *Store) warnUnrecorded(ctx context.Context, contexts int, err error) {
	s.warnLimiter.Do(func() {
		s.opts.Logger.WarnContext(ctx, "cannot record the notes of contexts now; will retry", "contexts", contexts, "err", err)
	})
}

// Ref returns the reference to a context that the request of a run records. The
// context need not be recorded yet.
func (s *Store) Ref(ctx context.Context, k Key) (events.ContextRef, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return events.ContextRef{}, err
	}
	defer s.release(e)
	if err := s.open(ctx, e, ""); err != nil {
		return events.ContextRef{}, err
	}
	e.lastRefAt = s.opts.Now()
	return e.state.ContextRef, nil
}

// Get records the notes of a context and returns it. reader is the name of the reading
// tool, for the audit log. The caller MUST NOT modify the maps and slices of the result.
func (s *Store) Get(ctx context.Context, k Key, reader string) (projections.Context, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	start := time.Now()
	defer func() { s.latency.observe(time.Since(start)) }()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return projections.Context{}, err
	}
	defer s.release(e)
	flushing, stopFlush := context.WithTimeout(ctx, callTimeout*2/3)
	if err := s.flush(flushing, e, true); err != nil {
		// Recorded content stays readable while writes fail.
		s.warnUnrecorded(ctx, 1, err)
	}
	stopFlush()
	if isTraceless(ctx) {
		st, _, err := s.peek(ctx, e)
		return s.withWarnings(ctx, e, st.Context), err
	}
	if err := s.open(ctx, e, reader); err != nil {
		return projections.Context{}, err
	}
	return s.withWarnings(ctx, e, e.state.Context), nil
}

// withWarnings adds a warning if the tenant cannot record this context. The caller must
// hold e.mu.
func (s *Store) withWarnings(ctx context.Context, e *entry, c projections.Context) projections.Context {
	if e.state == nil || e.state.Seq != 0 {
		return c
	}
	if err := s.opts.Keep(ctx, e.key.Tenant, e.text); err != nil {
		c.Warnings = []string{"nothing is kept in this context: " + err.Error()}
	}
	return c
}

// Preferences returns the preferences of a context. The zero value means that none are
// set.
func (s *Store) Preferences(ctx context.Context, k Key, reader string) (prefs events.UserPreferences, err error) {
	err = s.view(ctx, k, reader, func(st *projections.ContextState, _ *pending) { prefs = st.Context.UserPreferences })
	return prefs, err
}

// PriorCall returns the result of an earlier equal call in the context, or nil. sha256
// is the hash of a run request, or from CallHash.
func (s *Store) PriorCall(ctx context.Context, k Key, reader, sha256 string) (tried *projections.PriorCall, err error) {
	err = s.view(ctx, k, reader, func(st *projections.ContextState, p *pending) {
		for i := range st.PriorCalls {
			if st.PriorCalls[i].ArgsSHA256 == sha256 {
				tried = new(st.PriorCalls[i])
			}
		}
		for _, c := range p.calls { // newer than the recorded calls
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

// PriorRead returns the last read of a resource in the context, or nil if the resource was
// not read.
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

// view calls at with the state of a context and its unrecorded notes.
func (s *Store) view(ctx context.Context, k Key, reader string, at func(*projections.ContextState, *pending)) error {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	start := time.Now()
	defer func() { s.latency.observe(time.Since(start)) }()
	e, err := s.acquire(ctx, k)
	if err != nil {
		return err
	}
	defer s.release(e)
	if isTraceless(ctx) {
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
		return s.clientError("read the context", err)
	}
	now := s.opts.Now()
	if s.isIdle(e, now) {
		if err := s.expire(ctx, e); err != nil {
			return s.clientError("expire the context", err)
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
		// The hash identifies the session in the log but cannot be used to open it.
		s.opts.Logger.DebugContext(ctx, "context read", "session_id_sha256", events.Hash([]byte(e.state.SessionID)), "tenant", e.key.Tenant, "kind", e.key.Kind, "tool", reader)
	}
	return nil
}

// isIdle reports whether a context with content was unused for longer than IdleTTL. The
// caller must hold e.mu.
func (s *Store) isIdle(e *entry, now time.Time) bool {
	return !e.state.Empty && e.state.Running == 0 && now.Sub(s.lastUse(e)) > s.opts.IdleTTL
}

func (s *Store) lastUse(e *entry) time.Time {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return e.usedAt
}

// expire records that a context expired. If another edit was recorded first, expire
// only reloads the context. The caller must hold e.mu.
func (s *Store) expire(ctx context.Context, e *entry) error {
	if err := s.flush(ctx, e, false); err != nil {
		return err
	}
	_, _, position, err := s.lastEdit(ctx, e)
	if err != nil {
		return err
	}
	d := &events.ContextExpired{ContextRef: e.state.ContextRef, LastUse: events.Instant{Time: s.lastUse(e).UTC()}, IdleSecs: int64(s.opts.IdleTTL / time.Second)}
	seq, err := s.opts.Log.Append(ctx, events.New(e.key.Tenant, s.opts.Now(), d), int64(position))
	if err != nil && !errors.Is(err, events.ErrConflict) {
		return err
	}
	e.fresh = time.Time{}
	return s.reload(ctx, e, seq)
}

// reload reads a context again after the event at seq is applied.
func (s *Store) reload(ctx context.Context, e *entry, seq uint64) error {
	if err := s.opts.Views.Wait(ctx, seq); err != nil {
		return err
	}
	e.state = nil
	return s.load(ctx, e)
}

// append records an edit. earlier is the key of the content before it, or empty.
func (s *Store) append(ctx context.Context, tenant, earlier string, d events.Data, after int64) (uint64, error) {
	e := events.New(tenant, s.opts.Now(), d)
	if _, hasContent := d.(*events.ContextUpdated); hasContent {
		keyID, done, err := s.opts.Encrypt(tenant, earlier)
		if err != nil {
			return 0, err
		}
		defer done()
		e.EncryptWithKey = keyID
	}
	return s.opts.Log.Append(ctx, e, after)
}

// lastEdit returns the content after the last edit of a context, the key that encrypts it
// or empty, and the position of that edit. Content whose key was destroyed is empty.
func (s *Store) lastEdit(ctx context.Context, e *entry) (content events.ContextContent, keyID string, position uint64, err error) {
	last, err := s.opts.Log.Last(ctx, events.ContextSubject(e.key.Tenant, e.text))
	if errors.Is(err, events.ErrNotFound) {
		return content, "", 0, nil
	}
	if err != nil {
		return content, "", 0, err
	}
	switch d := last.Data.(type) {
	case *events.ContextUpdated:
		if d.Content.Plain == nil {
			return content, "", last.Seq, nil
		}
		return *d.Content.Plain, events.ContentKeyID(d), last.Seq, nil
	case *events.ContextCleared, *events.ContextExpired:
		return content, "", last.Seq, nil
	default:
		return content, "", 0, &ledger.Error{Code: ledger.CodeUnavailable, Message: "the context was edited by a newer version of Daybook; upgrade this one"}
	}
}

// acquireToEdit waits for the permission to edit, then acquires the entry.
func (s *Store) acquireToEdit(ctx context.Context, k Key) (*entry, error) {
	if !k.IsZero() {
		if err := s.opts.Enter(ctx, k.Tenant); err != nil {
			return nil, s.clientError("edit the context", err)
		}
	}
	return s.acquire(ctx, k)
}

// Set records preferences and values. It returns the resulting context and the position
// of the event. Concurrent edits of other members are kept. A patch that changes
// nothing is not recorded.
func (s *Store) Set(ctx context.Context, k Key, p Patch, actor events.Actor) (_ projections.Context, seq uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	e, err := s.acquireToEdit(ctx, k)
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
		return projections.Context{}, 0, s.clientError("set the context", err)
	}
	return e.state.Context, seq, nil
}

// Clear records that a context is cleared. It returns the cleared context and the
// position of the event. The ledger keeps the earlier events. If there is nothing to
// clear, Clear records no event and returns the position of the last event about the
// context, or 0.
func (s *Store) Clear(ctx context.Context, k Key, actor events.Actor) (_ projections.Context, seq uint64, err error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	e, err := s.acquireToEdit(ctx, k)
	if err != nil {
		return projections.Context{}, 0, err
	}
	defer s.release(e)
	if err := s.load(ctx, e); err != nil {
		return projections.Context{}, 0, s.clientError("read the context", err)
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
	case clear: // the context has expired
		return e.state.Context, e.state.Seq, nil
	}
	seq, err = s.edit(ctx, e, func(events.ContextContent) (events.Data, error) {
		return &events.ContextCleared{ContextRef: e.state.ContextRef, Actor: actor}, nil
	})
	if err != nil {
		return projections.Context{}, 0, s.clientError("clear the context", err)
	}
	return e.state.Context, seq, nil
}

// isClear reports whether the context is empty, after all events that are in the ledger
// at the time of the call. The caller must hold e.mu.
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
		return false, nil // the context may have content, so clear it
	}
	e.state = nil
	if err := s.load(ctx, e); err != nil {
		return false, s.clientError("read the context", err)
	}
	if !s.looksClear(e) {
		return false, nil
	}
	have, _, _, err := s.lastEdit(ctx, e) // from any process
	if err != nil {
		return false, s.clientError("clear the context", err)
	}
	return same(have, events.ContextContent{}), nil
}

// looksClear reports whether the readable state of the context is empty. A run that was
// requested a moment ago may not be in the ledger yet. The caller must hold e.mu.
func (s *Store) looksClear(e *entry) bool {
	return e.state.Empty && e.state.Running == 0 && len(e.pending.calls)+len(e.pending.resources) == 0 && s.opts.Now().Sub(e.lastRefAt) >= readYourWritesTimeout
}

// edit records the edit that next derives from the content after the last edit. If
// next returns nil, edit records no edit. Before that, it records the unrecorded
// notes. The caller must hold e.mu.
func (s *Store) edit(ctx context.Context, e *entry, next func(have events.ContextContent) (events.Data, error)) (uint64, error) {
	if err := s.flush(ctx, e, false); err != nil {
		return 0, err
	}
	for try := 0; ; try++ {
		have, earlier, position, err := s.lastEdit(ctx, e)
		if err != nil {
			return 0, err
		}
		d, err := next(have)
		if d == nil || err != nil {
			return position, err
		}
		seq, err := s.append(ctx, e.key.Tenant, earlier, d, int64(position))
		switch {
		case (errors.Is(err, events.ErrConflict) || errors.Is(err, events.ErrShredded)) && try < maxEditTries:
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

type tracelessKey struct{}

// WithoutTrace returns a context.Context under which the Store records nothing:
// neither the use of a conversation context nor notes, new conversation contexts and
// expiries. It is for callers that may only read.
func WithoutTrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, tracelessKey{}, true)
}

func isTraceless(ctx context.Context) bool {
	set, _ := ctx.Value(tracelessKey{}).(bool)
	return set
}

// peek returns the state that open would produce, without recording anything. The
// caller must hold e.mu.
func (s *Store) peek(ctx context.Context, e *entry) (projections.ContextState, *pending, error) {
	if err := s.load(ctx, e); err != nil {
		return projections.ContextState{}, nil, s.clientError("read the context", err)
	}
	now := s.opts.Now()
	if !s.isIdle(e, now) {
		return *e.state, &e.pending, nil
	}
	st := projections.ContextState{ContextRef: e.state.ContextRef, UsedAt: e.state.UsedAt, Empty: true}
	st.Context = projections.NewContext(st.SessionID, events.FormatTime(now))
	return st, &pending{}, nil
}
