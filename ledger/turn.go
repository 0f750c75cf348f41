package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// ReasonTurnSkipped is the reason of a run that fails without a start because its
// session skipped its turn.
const ReasonTurnSkipped = "turn_skipped"

// ReasonSessionHeadLost is the reason of a run that cannot continue because the session
// head cannot be restored.
const ReasonSessionHeadLost = "session_head_lost"

// turnGrace is the default of Options.TurnGrace. It only prevents a slow writer from
// losing its turn; correctness does not depend on clocks.
const turnGrace = 5 * time.Second

// queueTurn assigns the next turn of its session to a run. If the request is never
// recorded, the session skips the turn. A submission that is repeated with its
// idempotency key keeps its earlier turn if this is the newest turn and less than half
// of its grace time has passed, so that the turns have no gap. left is then the rest of
// the grace time, in which the request has to be recorded. For a new turn left is 0,
// because its grace time is longer than the time limit of the answer.
func (l *Ledger) queueTurn(ctx context.Context, s Submission, execution string) (turn *events.Turn, left time.Duration, err error) {
	err = retry(ctx, "queue the run in its session", func() error {
		last, err := l.store.Last(ctx, events.LogicalSubject(s.Tenant, s.LogicalSession))
		if errors.Is(err, events.ErrNotFound) {
			return unknownSessionError(s.LogicalSession)
		}
		if err != nil {
			return err
		}
		if d, ok := last.Data.(*events.SessionTurnQueued); ok && d.ExecutionID == execution {
			left = min(l.opts.TurnGrace-l.opts.Now().Sub(last.Time), l.opts.TurnGrace)
			if left > l.opts.TurnGrace/2 {
				turn = newTurn(d, last.Seq)
				return nil
			}
		}
		next, err := nextTurn(last)
		if err != nil {
			return err
		}
		if err := l.checkTurnLimit(ctx, s.Tenant, s.LogicalSession, last.Seq, next); err != nil {
			return err
		}
		d := &events.SessionTurnQueued{
			SessionID: s.LogicalSession, Number: next.Turn + 1, ExecutionID: execution,
			After: next.ExecutionID, Reset: next.Reset, Heap: next.Heap,
		}
		seq, err := l.store.Append(ctx, l.newEvent(s.Tenant, validTraceparent(s.Traceparent), d), int64(last.Seq))
		turn, left = newTurn(d, seq), 0
		return err
	})
	return turn, left, err
}

func newTurn(d *events.SessionTurnQueued, seq uint64) *events.Turn {
	return &events.Turn{SessionID: d.SessionID, Number: d.Number, After: d.After, Reset: d.Reset, Heap: d.Heap, QueuedSeq: seq}
}

// planTurn adds to the plan of a run with a turn the execution that the run waits for, or
// the heap that it starts from.
func (l *Ledger) planTurn(ctx context.Context, p Plan) (Plan, error) {
	r := p.Request
	skipped, err := l.skippedBefore(ctx, r)
	if err != nil {
		return Plan{}, err
	}
	if skipped {
		return l.planEnd(ctx, r, func(ctx context.Context) (events.Event, error) { return l.endSkipped(ctx, r) })
	}
	head, err := l.headForTurn(ctx, r.Tenant, *r.Turn)
	if err != nil {
		return Plan{}, err
	}
	p.WaitFor, p.PlanAgainAfter, p.Heap = head.running, head.again, head.heap
	return p, nil
}

func (l *Ledger) endSkipped(ctx context.Context, r Request) (events.Event, error) {
	return l.end(ctx, r, func(h *history) events.Data {
		return events.NewEnding(events.StatusFailed, events.Ending{
			ExecutionID: r.ExecutionID,
			Attempt:     h.attempt(),
			Reason:      ReasonTurnSkipped,
			Content:     errorContent("The session skipped the turn of this run: its request was recorded too late. Run it again."),
		})
	})
}

// errStop stops a read that has found its result.
var errStop = errors.New("found")

// skippedBefore reports whether a run's turn was skipped before the run was requested.
// Only the positions count: a skip after the request has no effect.
func (l *Ledger) skippedBefore(ctx context.Context, r Request) (bool, error) {
	if r.Seq == r.Turn.QueuedSeq+1 {
		return false, nil // no event is between the two
	}
	_, skipped, err := l.findTurn(ctx, r.Tenant, r.Turn.SessionID, r.Turn.Number, r.Turn.QueuedSeq-1)
	return skipped != 0 && skipped < r.Seq, err
}

// findTurn returns the event that queued a turn, read from after a position, and the
// position of the event that skipped it (0: not skipped).
func (l *Ledger) findTurn(ctx context.Context, tenant, session string, number int64, after uint64) (queued events.Event, skipped uint64, err error) {
	_, err = l.store.Each(ctx, events.LogicalSubject(tenant, session), after, func(e events.Event) error {
		switch d := e.Data.(type) {
		case *events.SessionTurnQueued:
			if d.Number == number {
				queued = e
			}
		case *events.SessionTurnSkipped:
			if d.Number == number {
				skipped = e.Seq
				return errStop
			}
		case *events.Unknown:
			return newerSessionError(session, e)
		}
		return nil
	})
	var answer *Error
	switch {
	case errors.Is(err, errStop), err == nil:
		return queued, skipped, nil
	case errors.As(err, &answer):
		return queued, skipped, err
	default:
		return queued, skipped, unavailable("read session "+session, err)
	}
}

// SessionHeap returns the heap that the next turn of a session starts from at present;
// empty means a fresh isolate. Errors are CodeConflict if the last run of the session
// has not ended, CodeNotFound for an unknown session, and CodeUnavailable.
func (l *Ledger) SessionHeap(ctx context.Context, tenant, session string) (_ string, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	last, err := l.store.Last(ctx, events.LogicalSubject(tenant, session))
	if errors.Is(err, events.ErrNotFound) {
		return "", unknownAgentSessionError(session)
	}
	if err != nil {
		return "", unavailable("read session "+session, err)
	}
	next, err := nextTurn(last)
	if err != nil {
		return "", err
	}
	if next.Reset || next.ExecutionID == "" {
		return next.Heap, nil
	}
	h, err := l.headForTurn(ctx, tenant, events.Turn{SessionID: session, Number: next.Turn + 1, After: next.ExecutionID})
	switch {
	case err != nil:
		return "", err
	case h.running != "":
		return "", &Error{Code: CodeConflict, Field: "session_id", Message: "the session's last run has not ended yet; wait for it, or cancel it"}
	}
	return h.heap, nil
}

// sessionHead is the heap that a turn of a session starts from.
type sessionHead struct {
	// running is the run to wait for; empty if the other fields are final. again, if not
	// 0, is the time for which that run may still be requested.
	running string
	again   time.Duration
	// heap is empty for a fresh isolate. from is the run that left it; empty if no run
	// did.
	heap, from string
}

// headForTurn returns the heap that a turn starts from. This is the heap that the run of
// the previous turn left. If that run left none, it is the heap that the run started from,
// and so on. The first turn, and a turn after a break or reset, holds the heap itself. A
// run that was never started may have ended before earlier turns. The result then names
// the run of the earlier turn as the one to wait for.
func (l *Ledger) headForTurn(ctx context.Context, tenant string, t events.Turn) (sessionHead, error) {
	h, err := l.traceHead(ctx, tenant, t)
	if err == nil && h.running == "" && t.After != "" && !t.Reset {
		l.heads.put(t.SessionID, t.Number-1, h)
	}
	return h, err
}

// traceHead is headForTurn without the cache.
func (l *Ledger) traceHead(ctx context.Context, tenant string, t events.Turn) (sessionHead, error) {
	var found *sessionHead
	own := t.Number
	if t.Reset || t.After == "" {
		found = &sessionHead{heap: t.Heap}
	}
	for t.After != "" {
		if found == nil {
			if h, ok := l.heads.get(t.SessionID, t.Number-1); ok {
				return h, nil
			}
		}
		if t.Number < own {
			// The turn before this one was never started. The run that it waited for may
			// still be the run that all later turns wait for.
			if running, err := l.stillRunning(ctx, tenant, t.SessionID, t.Number); running != "" || err != nil {
				return sessionHead{running: running}, err
			}
		}
		h, before, again, err := l.findTurnBefore(ctx, tenant, t)
		switch {
		case err != nil:
			return sessionHead{}, err
		case before == nil:
			if again == 0 {
				l.heads.block(t.SessionID, t.Number-1, t.After)
			}
			return sessionHead{running: t.After, again: again}, nil
		}
		if h != nil {
			end := events.EndingOf(h.terminal.Data)
			switch {
			case found != nil:
			case end.Heap != nil:
				found = &sessionHead{heap: end.Heap.SHA256, from: t.After}
			case h.inputHeap() != "":
				found = &sessionHead{heap: h.inputHeap(), from: t.After}
			}
			if found != nil && h.newest != nil {
				return *found, nil // it was started after all earlier turns had ended
			}
		}
		t = *before
		if found == nil && (t.Reset || t.After == "") {
			found = &sessionHead{heap: t.Heap}
		}
	}
	return *found, nil
}

// findTurnBefore reads the turn before another. h is the history of its run, nil if it never
// had a run. before is the turn itself, nil if it has not ended yet. again is then the
// time for which its run may still be requested, 0 if the run is requested.
func (l *Ledger) findTurnBefore(ctx context.Context, tenant string, t events.Turn) (h *history, before *events.Turn, again time.Duration, err error) {
	for {
		h, req, err := l.loadExecution(ctx, tenant, t.After)
		switch {
		case err != nil:
			return nil, nil, 0, err
		case req != nil && req.Turn != nil && req.Turn.SessionID == t.SessionID && req.Turn.Number == t.Number-1:
			// This is the turn before. If it was skipped, its run may not have ended yet, but
			// it will end.
			if h.terminal == nil {
				return nil, nil, 0, h.checkKnownEvents(t.After)
			}
			return h, req.Turn, 0, nil
		}
		queued, skipped, err := l.findTurn(ctx, tenant, t.SessionID, t.Number-1, 0)
		if err != nil {
			return nil, nil, 0, err
		}
		d, ok := queued.Data.(*events.SessionTurnQueued)
		if !ok {
			return nil, nil, 0, fmt.Errorf("turn %d of session %s follows one that is not recorded: %w", t.Number, t.SessionID, events.ErrDamaged)
		}
		if req != nil {
			return nil, newTurn(d, queued.Seq), 0, nil // the run has another turn, and this turn never gets a run
		}
		if skipped == 0 {
			if left := l.opts.TurnGrace - l.opts.Now().Sub(queued.Time); left > 0 {
				return nil, nil, min(left, l.opts.TurnGrace), nil
			}
			if skipped, err = l.skip(ctx, tenant, d); err != nil {
				return nil, nil, 0, err
			}
		}
		// A request recorded before the skip makes the skip void.
		if _, req, err = l.loadExecution(ctx, tenant, t.After); err != nil {
			return nil, nil, 0, err
		}
		if req == nil || req.Seq > skipped {
			return nil, newTurn(d, queued.Seq), 0, nil
		}
	}
}

// loadExecution reads an execution. Both results are nil if it was never requested.
func (l *Ledger) loadExecution(ctx context.Context, tenant, execution string) (*history, *Request, error) {
	h, err := l.history(ctx, tenant, execution)
	if CodeOf(err) == CodeNotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	req, ok := NewRequest(h.events[0])
	if !ok {
		return nil, nil, newerEventError(execution, h.events[0])
	}
	return h, &req, nil
}

// skip records that a turn is skipped and returns the position of that event.
func (l *Ledger) skip(ctx context.Context, tenant string, d *events.SessionTurnQueued) (seq uint64, err error) {
	err = retry(ctx, "skip a turn of session "+d.SessionID, func() error {
		last, err := l.store.Last(ctx, events.LogicalSubject(tenant, d.SessionID))
		if err != nil {
			return err
		}
		next, err := nextTurn(last)
		if err != nil {
			return err
		}
		if _, seq, err = l.findTurn(ctx, tenant, d.SessionID, d.Number, 0); err != nil || seq != 0 {
			return err
		}
		e := l.newEvent(tenant, "", &events.SessionTurnSkipped{SessionID: d.SessionID, Number: d.Number, ExecutionID: d.ExecutionID, Next: next})
		seq, err = l.store.Append(ctx, e, int64(last.Seq))
		return err
	})
	return seq, err
}
