package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"daybook/events"
)

// MaxTaught bounds how many entries of the catalogue one opening adds.
const MaxTaught = 1000

// Why the continuity of a session broke.
const (
	BreakHeapLost         = "heap_lost"
	BreakEngineChanged    = "engine_changed"
	BreakCatalogChanged   = "catalog_changed"
	BreakPrincipalChanged = "principal_changed"
)

// Expansion says what code in a session is to be told it may use.
type Expansion struct {
	Tenant, Session string
	// Entries are what is asked for: ids and hashes of declarations, in any order.
	Entries []events.TaughtEntry
	// Primary is the first source used, in lexicographic order. It counts only
	// where the session is bound to none yet.
	Primary string
	// Sources has the hash of what each source offers now, Known that of each
	// entry's declaration, by id.
	Sources, Known map[string]string
	// Principal is who the sources are used as; empty where that makes no
	// difference.
	Principal   string
	Actor       events.Actor
	Traceparent string
}

// ExpansionResult is what became of a Teaching.
type ExpansionResult struct {
	// Added are the entries that the session was not told of before, All those in
	// force now, both in the order of their symbols.
	Added, All []events.TaughtEntry
	// Revision counts the expansions.
	Revision int64
	// NewSymbolSpace is true when no symbol from before holds: the session was
	// told of nothing yet, or its continuity broke.
	NewSymbolSpace bool
	// Broken is why it broke, empty when it did not. StateLost is true when the
	// session's state went with it; PreviousHeap and PreviousExecution are that
	// state, and the run that left it.
	Broken                          string
	StateLost                       bool
	PreviousHeap, PreviousExecution string
	// Seq is the position of what was recorded; 0 when nothing was.
	Seq uint64
}

// ReuseKey is everything a session's binding depends on. Two openings with equal
// keys meet the same binding and the same symbols.
type ReuseKey struct {
	Tenant    string
	SessionID string
	Primary   string
	// CatalogSHA256 is the hash of what the primary source offers, Entries the
	// sorted ids asked for, comma-separated.
	CatalogSHA256 string
	Entries       string
	Principal     string
	EngineID      string
}

// Key is the ReuseKey of a teaching on an engine.
func (t Expansion) Key(engineID string) ReuseKey {
	ids := make([]string, len(t.Entries))
	for i, e := range t.Entries {
		ids[i] = e.ID
	}
	slices.Sort(ids)
	return ReuseKey{
		Tenant: t.Tenant, SessionID: t.Session, Primary: t.Primary, CatalogSHA256: t.Sources[t.Primary],
		Entries: strings.Join(slices.Compact(ids), ","), Principal: t.Principal, EngineID: engineID,
	}
}

// ExpandSession tells a session of entries of the catalogue. Those it knows already
// cost nothing; new ones are given symbols and recorded. Before that it finds
// out whether the session can go on from where it is: when its heap cannot be
// restored, or its sources are not what they were, the break is recorded, and
// with a lost heap the next turn starts from a fresh isolate. Errors are
// CodeNotFound for an unknown session, CodeTooLarge and CodeUnavailable.
func (l *Ledger) ExpandSession(ctx context.Context, t Expansion) (_ ExpansionResult, err error) {
	ctx, answered := l.answering(ctx)
	defer answered(&err)
	t.Actor = sanitizeActor(t.Actor)
	var done ExpansionResult
	err = retry(ctx, "expand session "+t.Session, func() error {
		s, err := l.LogicalSession(ctx, t.Tenant, t.Session)
		if err != nil {
			return err
		}
		done = ExpansionResult{}
		reason, from, lost, err := l.continuityBreak(ctx, s, t)
		if err != nil {
			return err
		}
		if reason != "" {
			if done.Seq, err = l.rebind(ctx, &s, t, reason, from, lost); err != nil {
				return err
			}
		}
		return l.expand(ctx, s, t, &done)
	})
	return done, err
}

// expand records what is new to the session.
func (l *Ledger) expand(ctx context.Context, s LogicalSession, t Expansion, done *ExpansionResult) error {
	done.NewSymbolSpace = len(s.Taught) == 0
	if done.NewSymbolSpace && s.lastBreak != nil {
		done.Broken, done.StateLost = s.lastBreak.Reason, s.lastBreak.Next.Reset
		done.PreviousHeap, done.PreviousExecution = s.lastBreak.PreviousHeap, s.lastBreak.PreviousExecutionID
	}
	done.Revision, done.All = s.Revision, s.Taught
	wanted := slices.Clone(t.Entries)
	slices.SortFunc(wanted, func(a, b events.TaughtEntry) int { return strings.Compare(a.ID, b.ID) })
	wanted = slices.CompactFunc(wanted, func(a, b events.TaughtEntry) bool { return a.ID == b.ID })
	for _, e := range wanted {
		if slices.ContainsFunc(s.Taught, func(known events.TaughtEntry) bool { return known.ID == e.ID }) {
			continue
		}
		e.Symbol = "t" + strconv.Itoa(s.Symbols+len(done.Added)+1)
		done.Added = append(done.Added, e)
	}
	switch {
	case len(done.Added) == 0:
		return nil
	case len(done.Added) > MaxTaught:
		return &Error{Code: CodeTooLarge, Field: "seeds", Message: fmt.Sprintf(
			"seeds stand for %d new entries, more than %d: name the tools that are needed, not whole servers", len(done.Added), MaxTaught)}
	}
	binding := s.Binding
	if binding.Primary == "" {
		binding.Primary = t.Primary
	}
	binding.CatalogSHA256, binding.EngineID, binding.Principal = t.Sources[binding.Primary], l.opts.EngineID, t.Principal
	d := &events.SessionExpanded{
		SessionID: s.ID, DomainRevision: s.Revision + 1, Binding: binding, Added: done.Added, Next: s.Next, Actor: t.Actor,
	}
	seq, err := l.store.Append(ctx, l.event(t.Tenant, validTraceparent(t.Traceparent), d), int64(s.Position))
	if err != nil {
		return err
	}
	done.Seq, done.Revision = seq, d.DomainRevision
	done.All = append(slices.Clone(s.Taught), done.Added...)
	return nil
}

// continuityBreak returns why a session cannot continue as it is (empty if it can), its
// head, and whether that heap cannot be restored.
func (l *Ledger) continuityBreak(ctx context.Context, s LogicalSession, t Expansion) (reason string, h sessionHead, lost bool, err error) {
	reason, h, err = l.headUnavailable(ctx, t.Tenant, s)
	switch {
	case err != nil || reason != "":
		return reason, h, reason != "", err
	case len(s.Taught) == 0:
		return "", h, false, nil // the session has no symbol that could be void
	case s.Binding.Principal != t.Principal:
		return BreakPrincipalChanged, h, false, nil
	case l.opts.EngineID != "" && s.Binding.EngineID != "" && s.Binding.EngineID != l.opts.EngineID:
		return BreakEngineChanged, h, false, nil
	case s.Binding.CatalogSHA256 != t.Sources[s.Binding.Primary]:
		return BreakCatalogChanged, h, false, nil
	}
	for _, e := range s.Taught {
		if t.Known[e.ID] != e.SHA256 {
			return BreakCatalogChanged, h, false, nil
		}
	}
	return "", h, false, nil
}

// headUnavailable returns why the session head cannot be restored (empty if it can), and
// the head. While a started run can still replace the head, the head is taken to
// be intact. While runs only wait for their turns, it is the head of the first.
func (l *Ledger) headUnavailable(ctx context.Context, tenant string, s LogicalSession) (reason string, h sessionHead, err error) {
	next := events.Turn{SessionID: s.ID, Number: s.Next.Turn + 1, After: s.Next.ExecutionID, Reset: s.Next.Reset, Heap: s.Next.Heap}
	if next.Reset || next.After == "" {
		h.heap = next.Heap
	} else if h, err = l.firstHead(ctx, tenant, next); err != nil || h.running != "" {
		return "", h, err
	}
	if h.heap == "" {
		return "", h, nil
	}
	info, err := l.store.VerifyHeap(ctx, tenant, h.heap)
	switch {
	case errors.Is(err, events.ErrNotFound), errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrDamaged):
		return BreakHeapLost, h, nil
	case err != nil:
		return "", h, unavailable("read heap "+h.heap, err)
	case l.opts.EngineID != "" && info.EngineID != "" && info.EngineID != l.opts.EngineID:
		return BreakEngineChanged, h, nil
	case s.Next.Reset || s.Next.ExecutionID == "":
		return "", h, nil
	}
	// A runner may know more: its engine, for example, which this process need not.
	last, _, err := l.loadExecution(ctx, tenant, s.Next.ExecutionID)
	if err == nil && last != nil && last.terminal != nil && events.EndingOf(last.terminal.Data).Reason == ReasonSessionHeadLost {
		reason = BreakHeapLost
	}
	return reason, h, err
}

// firstHead returns the head of the first turn that is not over, at most that of
// t. running is set when that turn's run was started, or not requested yet.
func (l *Ledger) firstHead(ctx context.Context, tenant string, t events.Turn) (sessionHead, error) {
	for {
		h, err := l.headForTurn(ctx, tenant, t)
		if err != nil || h.running == "" {
			return h, err
		}
		run, req, err := l.loadExecution(ctx, tenant, h.running)
		if err != nil || req == nil || req.Turn == nil || run.first != nil || req.Turn.Number >= t.Number {
			return h, err
		}
		t = *req.Turn
	}
}

// rebind records a break, and applies it to the session.
func (l *Ledger) rebind(ctx context.Context, s *LogicalSession, t Expansion, reason string, from sessionHead, lost bool) (seq uint64, err error) {
	d := &events.SessionRebound{
		SessionID: s.ID, Reason: reason, PreviousHeap: from.heap, PreviousExecutionID: from.from, Next: s.Next, Actor: t.Actor,
	}
	if lost {
		d.Next.Reset, d.Next.Heap = true, ""
	}
	e := l.event(t.Tenant, validTraceparent(t.Traceparent), d)
	if e.Seq, err = l.store.Append(ctx, e, int64(s.Position)); err != nil {
		return 0, err
	}
	return e.Seq, s.apply(e)
}

// AssignRef gives a session a short name that holds for one holder, a
// connection for example, or finds the one it has: "s0" for the holder's first
// session, "s1" for the next. It survives restarts.
func (l *Ledger) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ctx, answered := l.answering(ctx)
	defer answered(&err)
	err = retry(ctx, "name session "+session, func() error {
		given, last, err := l.store.Refs(ctx, tenant, holder)
		if err != nil {
			return err
		}
		for _, e := range given {
			d, ok := e.Data.(*events.SessionRefAssigned)
			if !ok {
				return newerSession(session, e)
			}
			if d.SessionID == session {
				ref, seq = d.Ref, 0
				return nil
			}
		}
		ref = "s" + strconv.Itoa(len(given))
		seq, err = l.store.Append(ctx, l.event(tenant, "", &events.SessionRefAssigned{Holder: holder, Ref: ref, SessionID: session}), int64(last))
		return err
	})
	return ref, seq, err
}

// ResolveRef is the session that a short name stands for, or CodeNotFound.
func (l *Ledger) ResolveRef(ctx context.Context, tenant, holder, ref string) (session string, err error) {
	ctx, answered := l.answering(ctx)
	defer answered(&err)
	given, _, err := l.store.Refs(ctx, tenant, holder)
	if err != nil {
		return "", unavailable("look up session "+Excerpt(ref), err)
	}
	for _, e := range given {
		if d, ok := e.Data.(*events.SessionRefAssigned); ok && d.Ref == ref {
			return d.SessionID, nil
		}
	}
	return "", noSession(ref)
}
