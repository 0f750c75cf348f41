package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"daybook/events"
)

// Reset holds the arguments of ResetSession.
type Reset struct {
	Tenant string
	// Name is the name of a named session. If it is empty, SessionID is the id of a
	// logical or ACP session.
	Name, SessionID string
	// Heap is the new session head. A run of the session MUST have left it or started
	// from it, or the session was opened with it. Empty means a fresh isolate.
	Heap string
	// IdempotencyKey, if set, makes a repeated reset return the first one.
	IdempotencyKey string
	Actor          events.Actor
	Traceparent    string
}

// ResetResult is the result of ResetSession.
type ResetResult struct {
	SessionID string
	Kind      events.SessionKind
	// Seq is the position of the reset. Repeated reports whether an earlier call with the
	// same idempotency key recorded it.
	Seq      uint64
	Repeated bool
}

// ResetSession records that a session continues from a heap of its own lineage, or from
// a fresh isolate. In a logical or ACP session the reset is ordered among the turns.
// Runs accepted before it keep the state that they have or wait for. Runs accepted after
// it start from the reset head, once the earlier runs have ended.
//
// Errors are CodeInvalid for a heap of another lineage, CodeNotFound for an unknown
// session or heap, CodeGone for a collected or lost heap, CodeConflict for a heap of
// another engine that cannot be migrated or a reused idempotency key, CodeExhausted and CodeUnavailable.
func (l *Ledger) ResetSession(ctx context.Context, r Reset) (_ ResetResult, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := l.checkReset(r); err != nil {
		return ResetResult{}, err
	}
	var place resetTarget = namedReset{l, r}
	if r.Name == "" {
		place = turnReset{l, r}
	}
	return l.reset(ctx, r, place)
}

// SetSessionHeap sets the session head of a logical or ACP session to any recorded heap
// of the tenant that this engine can restore; empty means a fresh isolate. It returns
// the position of the reset.
func (l *Ledger) SetSessionHeap(ctx context.Context, tenant, session, heap string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	r := Reset{Tenant: tenant, SessionID: session, Heap: heap, Actor: actor}
	if err := l.checkReset(r); err != nil {
		return 0, err
	}
	done, err := l.reset(ctx, r, anyHeap{turnReset{l, r}})
	return done.Seq, err
}

func (l *Ledger) checkReset(r Reset) error {
	checks := []error{checkTenant(r.Tenant), checkIdempotencyKey(r.IdempotencyKey)}
	if l.opts.Stateless {
		checks = append(checks, Invalid("session", "sessions are not available: this server runs in stateless mode, where no heap is kept"))
	}
	if r.Heap != "" {
		checks = append(checks, checkHeap(r.Heap))
	}
	if r.Name != "" {
		checks = append(checks, checkVisible("session", "session", r.Name, maxSessionChars))
	} else {
		checks = append(checks, checkSessionID("session", r.SessionID))
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// resetTarget gives access to the subject on which a reset is recorded.
type resetTarget interface {
	// session returns the session's id.
	session() string
	// each calls fn for the session's events after a position, oldest first.
	each(ctx context.Context, after uint64, fn func(events.Event) error) error
	// notFoundError returns the error for a session without events.
	notFoundError() error
	// last returns the session's newest event. The error is CodeNotFound if there is
	// none.
	last(ctx context.Context) (events.Event, error)
	// next returns the reset event that follows the newest event.
	next(ctx context.Context, last events.Event) (*events.SessionReset, error)
	// owns reports whether the session's lineage holds the reset heap.
	owns(ctx context.Context, past *resetHistory) (bool, error)
}

// resetHistory collects from the events of a session what a reset depends on. It stays
// small for long sessions, because many clients may hold one while they wait for the
// session's lock.
type resetHistory struct {
	heap string
	// key is the hash of the idempotency key, or empty. keyedHash returns the keyed hash
	// that an event has instead.
	key       string
	keyedHash func(keyID, hash string) (string, error)
	// firstSeq and lastSeq are the positions of the first and the last event.
	firstSeq, lastSeq uint64
	// earlier is the earlier reset with the same hash of the idempotency key, or nil;
	// earlierSeq is its position.
	earlier    *events.SessionReset
	earlierSeq uint64
	// isNamed reports whether an event names the heap. If not, runs are the session's runs
	// in order, and parent is the session that it was forked from.
	isNamed bool
	runs    []string
	parent  string
}

// add adds the session's next event.
func (p *resetHistory) add(e events.Event) error {
	if p.firstSeq == 0 {
		p.firstSeq = e.Seq
	}
	p.lastSeq = e.Seq
	names := func(heaps ...string) { p.isNamed = p.isNamed || p.heap != "" && slices.Contains(heaps, p.heap) }
	switch d := e.Data.(type) {
	case *events.SessionOpened:
		p.parent = d.Parent
		names(d.Head)
	case *events.SessionTurnQueued:
		names(d.Heap)
		if p.heap != "" && !p.isNamed {
			p.runs = append(p.runs, d.ExecutionID)
		}
	case *events.SessionRebound:
		names(d.PreviousHeap, d.Next.Heap)
	case *events.SessionEntryRecorded:
		names(d.InputHeap, d.OutputHeap)
	case *events.SessionReset:
		names(d.Heap)
		if p.key == "" || p.earlier != nil {
			return nil
		}
		key, err := p.keyedHash(d.IdempotencyKeyID, p.key)
		if errors.Is(err, events.ErrShredded) {
			return nil
		}
		if err == nil && d.IdempotencySHA256 == key {
			p.earlier, p.earlierSeq = d, e.Seq
		}
		return err
	}
	return nil
}

func (l *Ledger) reset(ctx context.Context, r Reset, place resetTarget) (done ResetResult, err error) {
	past := &resetHistory{heap: r.Heap, keyedHash: l.keyedHash}
	if r.IdempotencyKey != "" {
		past.key = events.Hash([]byte("daybook reset\x00" + r.Tenant + "\x00" + r.IdempotencyKey))
	}
	// The whole session is read once, without the lock. Under the lock, only the newest
	// event is read, so that the lock is held briefly even for long sessions.
	if past.key != "" || r.Heap != "" {
		if err := place.each(ctx, 0, past.add); err != nil {
			return done, unavailable("read session "+cmp.Or(r.Name, r.SessionID), err)
		}
		if past.lastSeq == 0 {
			return done, place.notFoundError()
		}
	}
	if past.earlier == nil && r.Heap != "" {
		if err := l.checkResetHeap(ctx, r, place, past); err != nil {
			return done, err
		}
	}
	past.heap, past.runs = "", nil
	const doing = "reset the session"
	unlock, err := l.sessions.lock(ctx, sessionLock(r.Tenant, place.session()))
	if err != nil {
		return done, lockError(doing, err)
	}
	defer unlock()
	err = retry(ctx, doing, func() error {
		last, err := place.last(ctx)
		if err != nil {
			return err
		}
		if past.key != "" && last.Seq != past.lastSeq {
			err := place.each(ctx, past.lastSeq, func(e events.Event) error {
				last = e
				return past.add(e)
			})
			if err != nil {
				return err
			}
		}
		if first := past.earlier; first != nil {
			if first.Heap != r.Heap {
				return &Error{Code: CodeConflict, Field: "idempotency_key", Message: "idempotency_key was already used to reset this session to another heap; use a new key"}
			}
			done = ResetResult{SessionID: first.SessionID, Kind: first.Kind, Seq: past.earlierSeq, Repeated: true}
			return nil
		}
		d, err := place.next(ctx, last)
		if err != nil {
			return err
		}
		d.Heap, d.Actor = r.Heap, sanitizeActor(r.Actor)
		if past.key != "" {
			keyID, done, err := l.useContentKey(r.Tenant, place.session())
			if err != nil {
				return err
			}
			defer done()
			d.IdempotencyKeyID = keyID
			if d.IdempotencySHA256, err = l.keyedHash(keyID, past.key); err != nil {
				return err
			}
		}
		seq, err := l.store.Append(ctx, l.newEvent(r.Tenant, validTraceparent(r.Traceparent), d), int64(last.Seq))
		done = ResetResult{SessionID: d.SessionID, Kind: d.Kind, Seq: seq}
		return err
	})
	return done, err
}

// checkResetHeap refuses a heap of another lineage, and one that cannot be restored.
func (l *Ledger) checkResetHeap(ctx context.Context, r Reset, place resetTarget, past *resetHistory) error {
	owned, err := place.owns(ctx, past)
	if err != nil {
		return err
	}
	if !owned {
		return Invalid("heap", "heap %s is not of this session: no run of it left or started from that heap; the session's runs and their heaps are in its log", r.Heap)
	}
	unknown, err := l.checkInputHeap(ctx, r.Tenant, r.Heap, false)
	if err != nil {
		return err
	}
	if unknown != nil {
		return &Error{Code: CodeNotFound, Field: "heap", Message: "heap " + r.Heap + " is not in the ledger"}
	}
	switch _, err := l.store.VerifyHeap(ctx, r.Tenant, r.Heap); {
	case errors.Is(err, events.ErrDamaged):
		return &Error{Code: CodeGone, Field: "heap", Message: "heap " + r.Heap + " is damaged in the blob store; reset the session to another heap", Err: err}
	case err != nil:
		return unavailable("read heap "+r.Heap, err)
	}
	return nil
}

// turnReset resets a logical or ACP session.
type turnReset struct {
	l *Ledger
	r Reset
}

func (t turnReset) session() string { return t.r.SessionID }

func (t turnReset) each(ctx context.Context, after uint64, fn func(events.Event) error) error {
	_, err := t.l.store.Each(ctx, events.LogicalSubject(t.r.Tenant, t.r.SessionID), after, fn)
	return err
}

func (t turnReset) notFoundError() error { return unknownTurnsError(t.r.SessionID) }

func (t turnReset) last(ctx context.Context) (events.Event, error) {
	e, err := t.l.store.Last(ctx, events.LogicalSubject(t.r.Tenant, t.r.SessionID))
	if errors.Is(err, events.ErrNotFound) {
		return e, unknownTurnsError(t.r.SessionID)
	}
	return e, err
}

func unknownTurnsError(session string) error {
	return &Error{Code: CodeNotFound, Field: "session", Message: "there is no session '" + Excerpt(session) + "'"}
}

func (t turnReset) next(ctx context.Context, last events.Event) (*events.SessionReset, error) {
	next, err := nextTurn(last)
	if err != nil {
		return nil, err
	}
	first, err := t.l.store.Next(ctx, events.LogicalSubject(t.r.Tenant, t.r.SessionID), 0)
	if err != nil {
		return nil, err
	}
	d := &events.SessionReset{SessionID: t.r.SessionID, Kind: events.SessionLogical, Next: &next}
	if opened, ok := first.Data.(*events.SessionOpened); ok {
		d.Kind = opened.Kind
	}
	if d.Kind == events.SessionACP {
		if _, err := t.l.agentSession(ctx, t.r.Tenant, t.r.SessionID); err != nil {
			return nil, err
		}
	}
	next.Reset, next.Heap = true, t.r.Heap
	return d, nil
}

// owns reports whether the heap to reset to belongs to the session. It first checks the
// heaps that the events of the session name. Then it reads the runs of the session, newest
// first, and then does both for the session that it was forked from.
func (t turnReset) owns(ctx context.Context, past *resetHistory) (bool, error) {
	for !past.isNamed {
		for _, id := range slices.Backward(past.runs) {
			h, _, err := t.l.loadExecution(ctx, t.r.Tenant, id)
			if err != nil {
				return false, err
			}
			if h != nil && h.terminal != nil {
				if end := events.EndingOf(h.terminal.Data); end.Heap != nil && end.Heap.SHA256 == t.r.Heap {
					return true, nil
				}
			}
		}
		if past.parent == "" {
			return false, nil
		}
		before, parent := past.firstSeq, past.parent
		past = &resetHistory{heap: t.r.Heap}
		_, err := t.l.store.Each(ctx, events.LogicalSubject(t.r.Tenant, parent), 0, func(e events.Event) error {
			if e.Seq > before {
				return nil
			}
			return past.add(e)
		})
		if err != nil {
			return false, unavailable("read session "+parent, err)
		}
	}
	return true, nil
}

// anyHeap is a turnReset to any heap of the tenant.
type anyHeap struct{ turnReset }

func (anyHeap) owns(context.Context, *resetHistory) (bool, error) { return true, nil }

// namedReset resets a named session.
type namedReset struct {
	l *Ledger
	r Reset
}

func (n namedReset) session() string { return events.SessionID(n.r.Tenant, n.r.Name) }

func (n namedReset) last(ctx context.Context) (events.Event, error) {
	e, err := n.l.store.Last(ctx, events.SessionSubject(n.r.Tenant, n.session()))
	if errors.Is(err, events.ErrNotFound) {
		return e, n.notFoundError()
	}
	return e, err
}

func (n namedReset) notFoundError() error {
	return &Error{Code: CodeNotFound, Field: "session", Message: "no run that has ended is logged in session '" + Excerpt(n.r.Name) + "'; there is nothing to reset"}
}

func (n namedReset) each(ctx context.Context, after uint64, fn func(events.Event) error) error {
	_, err := n.l.store.Each(ctx, events.SessionSubject(n.r.Tenant, n.session()), after, fn)
	return err
}

func (n namedReset) next(_ context.Context, last events.Event) (*events.SessionReset, error) {
	entries, err := nextEntry(last)
	if err != nil {
		return nil, err
	}
	return &events.SessionReset{SessionID: n.session(), Kind: events.SessionLog, Session: n.r.Name, Entries: entries}, nil
}

func (n namedReset) owns(_ context.Context, past *resetHistory) (bool, error) {
	return past.isNamed, nil
}
