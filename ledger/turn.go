package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// ReasonTurnSkipped is the reason of a run that fails without being started
// because its session went on without it.
const ReasonTurnSkipped = "turn_skipped"

// ReasonSessionHeadLost is the reason of a run that cannot go on from where its
// session is at, because that heap cannot be restored.
const ReasonSessionHeadLost = "session_head_lost"

// turnGrace is how long a turn waits for its run to be requested. It only keeps
// a slow writer from losing its turn; nothing rests on clocks.
const turnGrace = 5 * time.Second

// queueTurn gives a run the next turn of its session. If the request never
// follows, the turn is passed over. A submission that is repeated with its idempotency
// key takes the turn that it took before, if that is the newest and less than half of its
// time is over: the turns have no gap then. left is what remains of that time for the
// request; 0 for a new turn, which has longer than the answer may take.
func (l *Ledger) queueTurn(ctx context.Context, s Submission, execution string) (turn *events.Turn, left time.Duration, err error) {
	err = retry(ctx, "queue the run in its session", func() error {
		last, err := l.store.LastLogical(ctx, s.Tenant, s.LogicalSession)
		if errors.Is(err, events.ErrNotFound) {
			return noSession(s.LogicalSession)
		}
		if err != nil {
			return err
		}
		if d, ok := last.Data.(*events.SessionTurnQueued); ok && d.ExecutionID == execution {
			left = min(l.opts.TurnGrace-l.opts.Now().Sub(last.Time), l.opts.TurnGrace)
			if left > l.opts.TurnGrace/2 {
				turn = turnOf(d, last.Seq)
				return nil
			}
		}
		next, err := nextTurn(last)
		if err != nil {
			return err
		}
		if err := l.checkTurns(ctx, s.Tenant, s.LogicalSession, last.Seq, next); err != nil {
			return err
		}
		d := &events.SessionTurnQueued{
			SessionID: s.LogicalSession, Number: next.Turn + 1, ExecutionID: execution,
			After: next.ExecutionID, Reset: next.Reset, Heap: next.Heap,
		}
		seq, err := l.store.Append(ctx, l.event(s.Tenant, validTraceparent(s.Traceparent), d), int64(last.Seq))
		turn, left = turnOf(d, seq), 0
		return err
	})
	return turn, left, err
}

func turnOf(d *events.SessionTurnQueued, seq uint64) *events.Turn {
	return &events.Turn{SessionID: d.SessionID, Number: d.Number, After: d.After, Reset: d.Reset, Heap: d.Heap, QueuedSeq: seq}
}

// planTurn completes the plan of a run that has a turn: what it waits for, or
// what it starts from.
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
	p.After, p.Again, p.Heap = head.running, head.again, head.heap
	return p, nil
}

func (l *Ledger) endSkipped(ctx context.Context, r Request) (events.Event, error) {
	return l.end(ctx, r, func(h *history) events.Data {
		return events.NewEnding(events.StatusFailed, events.Ending{
			ExecutionID: r.ExecutionID,
			Attempt:     h.attempt(),
			Reason:      ReasonTurnSkipped,
			Content:     errorContent("The session went on without this run: its request was recorded too late. Run it again."),
		})
	})
}

// errStop ends a reading that has found what it looked for.
var errStop = errors.New("found")

// skippedBefore reports whether a run's turn was given up before the run was
// requested. Both are decided by their positions alone: a skip after the
// request does not count.
func (l *Ledger) skippedBefore(ctx context.Context, r Request) (bool, error) {
	if r.Seq == r.Turn.QueuedSeq+1 {
		return false, nil // nothing came between
	}
	_, skipped, err := l.turn(ctx, r.Tenant, r.Turn.SessionID, r.Turn.Number, r.Turn.QueuedSeq-1)
	return skipped != 0 && skipped < r.Seq, err
}

// turn finds the event that queued a turn, looking after a position, and the
// position at which the turn was given up (0: it was not).
func (l *Ledger) turn(ctx context.Context, tenant, session string, number int64, after uint64) (queued events.Event, skipped uint64, err error) {
	err = l.store.Logical(ctx, tenant, session, after, func(e events.Event) error {
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
			return newerSession(session, e)
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

// sessionHead is the state that a session is in at a turn.
type sessionHead struct {
	// running is the run to wait for; empty when the others are final. again, if it
	// is not 0, is how long that run may still be requested.
	running string
	again   time.Duration
	// heap is the state; empty for a fresh isolate. from is the run that left it,
	// empty when none did.
	heap, from string
}

// headForTurn finds what a turn starts from: the heap that the run before left, or
// if it left none, what that one started from, and so on. Before the first turn
// and after a break that is what the turn itself says. A run that never started
// may have ended before those ahead of it: they are waited for as well.
func (l *Ledger) headForTurn(ctx context.Context, tenant string, t events.Turn) (sessionHead, error) {
	h, err := l.traceHead(ctx, tenant, t)
	if err == nil && h.running == "" && t.After != "" && !t.Reset {
		l.heads.put(t.SessionID, t.Number-1, h)
	}
	return h, err
}

// traceHead is inherit without remembering.
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
			// The turn before this one was never started. What it waited for may still
			// be what everything behind it waits for.
			if running, err := l.stillRunning(ctx, tenant, t.SessionID, t.Number); running != "" || err != nil {
				return sessionHead{running: running}, err
			}
		}
		h, before, again, err := l.turnBefore(ctx, tenant, t)
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
				return *found, nil // it was started when those ahead of it had ended
			}
		}
		t = *before
		if found == nil && (t.Reset || t.After == "") {
			found = &sessionHead{heap: t.Heap}
		}
	}
	return *found, nil
}

// turnBefore reads what became of the turn before another: its run's history,
// nil if it never had one, and its own place. before is nil while it is to be
// waited for: for again when its run may still be requested.
func (l *Ledger) turnBefore(ctx context.Context, tenant string, t events.Turn) (h *history, before *events.Turn, again time.Duration, err error) {
	for {
		h, req, err := l.loadExecution(ctx, tenant, t.After)
		switch {
		case err != nil:
			return nil, nil, 0, err
		case req != nil && req.Turn != nil && req.Turn.SessionID == t.SessionID && req.Turn.Number == t.Number-1:
			// It is the one. If it was skipped it is not yet ended, but will be.
			if h.terminal == nil {
				return nil, nil, 0, h.decidable(t.After)
			}
			return h, req.Turn, 0, nil
		}
		queued, skipped, err := l.turn(ctx, tenant, t.SessionID, t.Number-1, 0)
		if err != nil {
			return nil, nil, 0, err
		}
		d, ok := queued.Data.(*events.SessionTurnQueued)
		if !ok {
			return nil, nil, 0, fmt.Errorf("turn %d of session %s follows one that is not recorded: %w", t.Number, t.SessionID, events.ErrDamaged)
		}
		if req != nil {
			return nil, turnOf(d, queued.Seq), 0, nil // the run has another turn, and this one never will
		}
		if skipped == 0 {
			if left := l.opts.TurnGrace - l.opts.Now().Sub(queued.Time); left > 0 {
				return nil, nil, min(left, l.opts.TurnGrace), nil
			}
			if skipped, err = l.skip(ctx, tenant, d); err != nil {
				return nil, nil, 0, err
			}
		}
		// The request may have come before the skip, which then does not count.
		if _, req, err = l.loadExecution(ctx, tenant, t.After); err != nil {
			return nil, nil, 0, err
		}
		if req == nil || req.Seq > skipped {
			return nil, turnOf(d, queued.Seq), 0, nil
		}
	}
}

// loadExecution reads an execution; both are nil when it was never requested.
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
		return nil, nil, newer(execution, h.events[0])
	}
	return h, &req, nil
}

// skip records that a turn is given up, and returns where.
func (l *Ledger) skip(ctx context.Context, tenant string, d *events.SessionTurnQueued) (seq uint64, err error) {
	err = retry(ctx, "pass over a turn of session "+d.SessionID, func() error {
		last, err := l.store.LastLogical(ctx, tenant, d.SessionID)
		if err != nil {
			return err
		}
		next, err := nextTurn(last)
		if err != nil {
			return err
		}
		if _, seq, err = l.turn(ctx, tenant, d.SessionID, d.Number, 0); err != nil || seq != 0 {
			return err
		}
		e := l.event(tenant, "", &events.SessionTurnSkipped{SessionID: d.SessionID, Number: d.Number, ExecutionID: d.ExecutionID, Next: next})
		seq, err = l.store.Append(ctx, e, int64(last.Seq))
		return err
	})
	return seq, err
}
