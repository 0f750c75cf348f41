package ledger

import (
	"context"
	"errors"

	"daybook/events"
)

// Reasons for a break in the continuity of a session.
const (
	BreakHeapLost         = "heap_lost"
	BreakEngineChanged    = "engine_changed"
	BreakCatalogChanged   = "catalog_changed"
	BreakPrincipalChanged = "principal_changed"
)

// continuityBreak returns why a session cannot continue as it is (empty if it can), its
// head, and whether that heap cannot be restored.
func (l *Ledger) continuityBreak(ctx context.Context, s logicalSession, t Expansion) (reason string, h sessionHead, lost bool, err error) {
	reason, h, err = l.headUnavailable(ctx, t.Tenant, s)
	switch {
	case err != nil || reason != "":
		return reason, h, reason != "", err
	case len(s.Entries) == 0:
		return "", h, false, nil // the remaining reasons concern only the symbols of a session
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
// the head. If a run that can still replace the head is started, or is not requested yet,
// headUnavailable does not check the heap and returns no reason. If all runs without an end
// wait for their turns, it checks the heap that the first of these turns will start from.
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
	}
	otherEngine := l.opts.EngineID != "" && info.EngineID != "" && info.EngineID != l.opts.EngineID
	if err := l.checkEngine(ctx, tenant, info); CodeOf(err) == CodeConflict {
		return BreakEngineChanged, h, nil
	} else if err != nil {
		return "", h, err
	}
	if s.Next.Reset || s.Next.ExecutionID == "" {
		return "", h, nil
	}
	// This process can restore the heap, or may be able to migrate it. The runner of the session's last run may have found
	// that it cannot, for example because it has another engine, and ended the run.
	last, _, err := l.loadExecution(ctx, tenant, s.Next.ExecutionID)
	if err == nil && last != nil && last.terminal != nil && events.EndingOf(last.terminal.Data).Reason == ReasonSessionHeadLost {
		reason = BreakHeapLost
		if otherEngine {
			reason = BreakEngineChanged
		}
	}
	return reason, h, err
}

// firstHead returns the head of t if no earlier run is without an end. Otherwise it goes back
// over the runs that only wait for their turns, and returns the head of the first of these
// turns. If the run before that turn is started, or is not requested yet, running names that
// run, and the heap is not known.
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
