package ledger

import (
	"context"
	"errors"

	"daybook/events"
)

// releaseNext has the request delivered whose turn has come because a run has
// ended. It is safe to repeat, in any process: a run that was started is left
// alone.
//
// Every end is followed by a call, and each reads the turns after its end is
// recorded. So of several runs that end at the same time, the last one to be
// recorded finds all the others ended.
func (l *Ledger) releaseNext(ctx context.Context, r Request, terminal events.Event) error {
	if r.Turn == nil {
		return nil
	}
	// A run that was started had its turn. One that was not may have ended while
	// others are before it, and then the last of those releases the next.
	started := events.EndingOf(terminal.Data).Attempt > 0
	if !started {
		head, err := l.headForTurn(ctx, r.Tenant, *r.Turn)
		if err != nil || head.running != "" && head.again == 0 {
			return err
		}
	}
	// Each of many cancelled turns comes here: what one of them passed over the others
	// need not read.
	from, ended := r.Turn.QueuedSeq, true
	for after := l.heads.pastEnded(r.Tenant, r.Turn.SessionID, from); ; {
		e, err := l.store.NextLogical(ctx, r.Tenant, r.Turn.SessionID, after)
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
			// If its run is still requested, its plan finds that its turn has come, or the
			// end of the turn before it releases it; if not, the turn after passes it over.
			ended = false
		case next.Turn == nil || next.Turn.SessionID != d.SessionID || next.Turn.Number != d.Number:
			// The run has another turn, and this one never will have a run.
		case h.newest != nil:
			return nil // it had its turn, and releases the next one when it ends
		case h.terminal == nil:
			return l.release(ctx, *next)
		}
		after = e.Seq
		if ended {
			l.heads.passEnded(r.Tenant, r.Turn.SessionID, from, after)
		}
	}
}

func (l *Ledger) release(ctx context.Context, r Request) error {
	if err := l.store.Release(ctx, r.Tenant, r.Pool, r.Seq); err != nil {
		return unavailable("release execution "+r.ExecutionID, err)
	}
	return nil
}
