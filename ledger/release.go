package ledger

import (
	"context"
	"errors"

	"daybook/events"
)

// releaseNext releases the request whose turn has come because a run has ended. It is
// idempotent and safe to call from several processes: a run that was started is left
// alone.
//
// It is called after every end, and each call reads the turns after its end is recorded.
// If several runs end at the same time, the call for the last recorded end finds all the
// others ended.
func (l *Ledger) releaseNext(ctx context.Context, r Request, terminal events.Event) error {
	if r.Turn == nil {
		return nil
	}
	// A run that was started had its turn. A run that was not started may have ended before
	// earlier turns. The end of the last of these turns then releases the next turn.
	started := events.EndingOf(terminal.Data).Attempt > 0
	if !started {
		head, err := l.headForTurn(ctx, r.Tenant, *r.Turn)
		if err != nil || head.running != "" && head.again == 0 {
			return err
		}
	}
	// A session with many cancelled turns calls this for each. The turns that one call
	// has skipped are not read again by the others.
	from, ended := r.Turn.QueuedSeq, true
	for after := l.heads.skipEnded(r.Tenant, r.Turn.SessionID, from); ; {
		e, err := l.store.Next(ctx, events.LogicalSubject(r.Tenant, r.Turn.SessionID), after)
		switch {
		case errors.Is(err, events.ErrNotFound):
			return nil
		case err != nil:
			return unavailable("read session "+r.Turn.SessionID, err)
		}
		d, ok := e.Data.(*events.SessionTurnQueued)
		if !ok {
			after = e.Seq
			continue
		}
		h, next, err := l.loadExecution(ctx, r.Tenant, d.ExecutionID)
		switch {
		case err != nil:
			return err
		case next == nil:
			// If the run is requested later, its plan finds that its turn has come, or the
			// end of the previous turn releases it. If it is never requested, the plan of the
			// next turn skips its turn.
			ended = false
		case next.Turn == nil || next.Turn.SessionID != d.SessionID || next.Turn.Number != d.Number:
			// The run has another turn, and this turn never gets a run.
		case h.newest != nil:
			return nil // it had its turn; its end releases the next turn
		case h.terminal == nil:
			return l.release(ctx, *next)
		}
		after = e.Seq
		if ended {
			l.heads.addEnded(r.Tenant, r.Turn.SessionID, from, after)
		}
	}
}

func (l *Ledger) release(ctx context.Context, r Request) error {
	if err := l.store.Release(ctx, r.Tenant, r.Pool, r.Seq); err != nil {
		return unavailable("release execution "+r.ExecutionID, err)
	}
	return nil
}
