package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"daybook/events"
)

// maxAddedEntries is the maximum number of catalog entries that one expansion adds.
const maxAddedEntries = 1000

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
