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

// maxAddedEntries is the maximum number of catalog entries that one expansion adds.
const maxAddedEntries = 1000

// Reasons for a break in the continuity of a session.
const (
	BreakHeapLost         = "heap_lost"
	BreakEngineChanged    = "engine_changed"
	BreakCatalogChanged   = "catalog_changed"
	BreakPrincipalChanged = "principal_changed"
)

// Expansion holds the arguments of ExpandSession.
type Expansion struct {
	Tenant, Session string
	// Entries are the requested catalog entries: ids and hashes of declarations, in any
	// order.
	Entries []events.TaughtEntry
	// Primary is the first source of the entries in lexicographic order. It counts only
	// if the session has no primary source yet.
	Primary string
	// Sources holds the hash of everything that each source offers now. Known holds the
	// hash of each declaration by entry id.
	Sources, Known map[string]string
	// Principal is the identity that the sources are used with; empty if the sources do
	// not depend on it.
	Principal   string
	Actor       events.Actor
	Traceparent string
}

// ExpansionResult is the result of ExpandSession.
type ExpansionResult struct {
	// Added are the entries that are new to the session, and All the entries in force,
	// both in the order of their symbols.
	Added, All []events.TaughtEntry
	// Revision counts the expansions.
	Revision int64
	// NewSymbolSpace reports whether no earlier symbol is valid, because the session had
	// no entries yet or its continuity broke.
	NewSymbolSpace bool
	// BreakReason is the reason of the break; empty without one. StateLost reports whether the
	// state of the session was lost with it. PreviousHeap and PreviousExecution are that
	// state and the run that left it.
	BreakReason                     string
	StateLost                       bool
	PreviousHeap, PreviousExecution string
	// Seq is the position of the recorded event; 0 if nothing was recorded.
	Seq uint64
}

// ReuseKey holds everything that the binding of a session depends on. Two expansions
// with equal keys have the same binding and the same symbols.
type ReuseKey struct {
	Tenant    string
	SessionID string
	Primary   string
	// CatalogSHA256 is the hash of everything that the primary source offers. Entries are
	// the sorted ids of the requested entries, comma-separated.
	CatalogSHA256 string
	Entries       string
	Principal     string
	EngineID      string
}

// Key returns the ReuseKey of an expansion on an engine.
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

// ExpandSession adds catalog entries to a session. It assigns symbols to new entries and
// records them; known entries are skipped.
//
// Before that it checks whether the session can continue. It records a break if the
// session head cannot be restored or if the sources have changed. After a lost heap the
// next turn starts from a fresh isolate. Errors are CodeNotFound for an unknown session,
// CodeTooLarge, CodeExhausted and CodeUnavailable.
func (l *Ledger) ExpandSession(ctx context.Context, t Expansion) (_ ExpansionResult, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	t.Actor = sanitizeActor(t.Actor)
	var done ExpansionResult
	err = retry(ctx, "expand session "+t.Session, func() error {
		s, err := l.readSession(ctx, t.Tenant, t.Session)
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

// expand records the entries that are new to the session.
func (l *Ledger) expand(ctx context.Context, s logicalSession, t Expansion, done *ExpansionResult) error {
	done.NewSymbolSpace = len(s.Entries) == 0
	if done.NewSymbolSpace && s.lastBreak != nil {
		done.BreakReason, done.StateLost = s.lastBreak.Reason, s.lastBreak.Next.Reset
		done.PreviousHeap, done.PreviousExecution = s.lastBreak.PreviousHeap, s.lastBreak.PreviousExecutionID
	}
	done.Revision, done.All = s.Revision, s.Entries
	wanted := slices.Clone(t.Entries)
	slices.SortFunc(wanted, func(a, b events.TaughtEntry) int { return strings.Compare(a.ID, b.ID) })
	wanted = slices.CompactFunc(wanted, func(a, b events.TaughtEntry) bool { return a.ID == b.ID })
	for _, e := range wanted {
		if slices.ContainsFunc(s.Entries, func(known events.TaughtEntry) bool { return known.ID == e.ID }) {
			continue
		}
		e.Symbol = "t" + strconv.Itoa(s.Symbols+len(done.Added)+1)
		done.Added = append(done.Added, e)
	}
	switch {
	case len(done.Added) == 0:
		return nil
	case len(done.Added) > maxAddedEntries:
		return &Error{Code: CodeTooLarge, Field: "seeds", Message: fmt.Sprintf(
			"seeds stand for %d new entries, more than %d: name the tools that are needed, not whole servers", len(done.Added), maxAddedEntries)}
	}
	binding := s.Binding
	if binding.Primary == "" {
		binding.Primary = t.Primary
	}
	binding.CatalogSHA256, binding.EngineID, binding.Principal = t.Sources[binding.Primary], l.opts.EngineID, t.Principal
	d := &events.SessionExpanded{
		SessionID: s.ID, DomainRevision: s.Revision + 1, Binding: binding, Added: done.Added, Next: s.Next, Actor: t.Actor,
	}
	seq, err := l.store.Append(ctx, l.newEvent(t.Tenant, validTraceparent(t.Traceparent), d), int64(s.Position))
	if err != nil {
		return err
	}
	done.Seq, done.Revision = seq, d.DomainRevision
	done.All = append(slices.Clone(s.Entries), done.Added...)
	return nil
}

// continuityBreak returns why a session cannot continue as it is (empty if it can), its
// head, and whether that heap cannot be restored.
func (l *Ledger) continuityBreak(ctx context.Context, s logicalSession, t Expansion) (reason string, h sessionHead, lost bool, err error) {
	reason, h, err = l.headUnavailable(ctx, t.Tenant, s)
	switch {
	case err != nil || reason != "":
		return reason, h, reason != "", err
	case len(s.Entries) == 0:
		return "", h, false, nil // without symbols a break has no effect
	case s.Binding.Principal != t.Principal:
		return BreakPrincipalChanged, h, false, nil
	case l.opts.EngineID != "" && s.Binding.EngineID != "" && s.Binding.EngineID != l.opts.EngineID:
		return BreakEngineChanged, h, false, nil
	case s.Binding.CatalogSHA256 != t.Sources[s.Binding.Primary]:
		return BreakCatalogChanged, h, false, nil
	}
	for _, e := range s.Entries {
		if t.Known[e.ID] != e.SHA256 {
			return BreakCatalogChanged, h, false, nil
		}
	}
	return "", h, false, nil
}

// headUnavailable returns why the session head cannot be restored (empty if it can), and
// the head. While a started run can still replace the head, it treats the head as
// intact. While runs only wait for their turns, the head is that of the first such turn.
func (l *Ledger) headUnavailable(ctx context.Context, tenant string, s logicalSession) (reason string, h sessionHead, err error) {
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
	// A runner may have found a reason that this process cannot find, for example its engine.
	last, _, err := l.loadExecution(ctx, tenant, s.Next.ExecutionID)
	if err == nil && last != nil && last.terminal != nil && events.EndingOf(last.terminal.Data).Reason == ReasonSessionHeadLost {
		reason = BreakHeapLost
	}
	return reason, h, err
}

// firstHead returns the head of the first turn that has not ended, at most that of t.
// running is set if the run of that turn was started or is not requested yet.
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

// rebind records a break and applies it to the session.
func (l *Ledger) rebind(ctx context.Context, s *logicalSession, t Expansion, reason string, from sessionHead, lost bool) (seq uint64, err error) {
	d := &events.SessionRebound{
		SessionID: s.ID, Reason: reason, PreviousHeap: from.heap, PreviousExecutionID: from.from, Next: s.Next, Actor: t.Actor,
	}
	if lost {
		d.Next.Reset, d.Next.Heap = true, ""
	}
	e := l.newEvent(t.Tenant, validTraceparent(t.Traceparent), d)
	if e.Seq, err = l.store.Append(ctx, e, int64(s.Position)); err != nil {
		return 0, err
	}
	return e.Seq, s.apply(e)
}

// AssignRef returns the short name of a session for a holder, for example a connection.
// It assigns a name if there is none: "s0" for the holder's first session, "s1" for the
// next. Short names survive restarts. seq is the position of the new event; 0 if the
// name was assigned before.
func (l *Ledger) AssignRef(ctx context.Context, tenant, holder, session string) (ref string, seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	err = retry(ctx, "name session "+session, func() error {
		assigned, last, err := l.assignedRefs(ctx, tenant, holder)
		if err != nil {
			return err
		}
		for _, e := range assigned {
			d, ok := e.Data.(*events.SessionRefAssigned)
			if !ok {
				return newerSessionError(session, e)
			}
			if d.SessionID == session {
				ref, seq = d.Ref, 0
				return nil
			}
		}
		ref = "s" + strconv.Itoa(len(assigned))
		seq, err = l.store.Append(ctx, l.newEvent(tenant, "", &events.SessionRefAssigned{Holder: holder, Ref: ref, SessionID: session}), int64(last))
		return err
	})
	return ref, seq, err
}

// assignedRefs returns the events that assigned short names for a holder, oldest first,
// and the position of the last (0: none).
func (l *Ledger) assignedRefs(ctx context.Context, tenant, holder string) (list []events.Event, last uint64, err error) {
	last, err = l.store.Each(ctx, events.RefSubject(tenant, holder), 0, func(e events.Event) error {
		list = append(list, e)
		return nil
	})
	return list, last, err
}

// ResolveRef returns the session of a short name, or CodeNotFound.
func (l *Ledger) ResolveRef(ctx context.Context, tenant, holder, ref string) (session string, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	assigned, _, err := l.assignedRefs(ctx, tenant, holder)
	if err != nil {
		return "", unavailable("look up session "+Excerpt(ref), err)
	}
	for _, e := range assigned {
		if d, ok := e.Data.(*events.SessionRefAssigned); ok && d.Ref == ref {
			return d.SessionID, nil
		}
	}
	return "", unknownSessionError(ref)
}
