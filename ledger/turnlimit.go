package ledger

import (
	"context"
	"fmt"
	"time"

	"daybook/events"
)

// defaultSessionTurns is the default of Options.SessionTurns.
const defaultSessionTurns = 1000

// turnRetry is the time after which a client may request a turn again, for a session with
// too many waiting turns.
const turnRetry = 5 * time.Second

// checkTurnLimit refuses another turn with CodeExhausted while too many turns of the session
// wait. last is the position of the session's newest event, and next is where the
// session continues. Waiting turns are counted by number, from the oldest one that has
// not ended to the newest: a cancelled turn counts until all earlier turns have ended.
func (l *Ledger) checkTurnLimit(ctx context.Context, tenant, session string, last uint64, next events.SessionNext) error {
	// The new turn is next.Turn+1. Once the turn oldest has ended, at most SessionTurns
	// wait.
	oldest := next.Turn - int64(l.opts.SessionTurns)
	if l.opts.SessionTurns < 0 || oldest < 1 || l.heads.newestEnded(session) >= oldest {
		return nil
	}
	running, err := l.stillRunning(ctx, tenant, session, oldest+1)
	if err != nil {
		return err
	}
	if running == "" {
		queued, err := l.findQueuedTurn(ctx, tenant, session, oldest, last)
		if err != nil {
			return err
		}
		head, err := l.headForTurn(ctx, tenant, events.Turn{SessionID: session, Number: oldest + 1, After: queued.ExecutionID})
		if err != nil {
			return err
		}
		running = head.running
	}
	if running == "" {
		return nil
	}
	return &Error{Code: CodeExhausted, Field: "logical_session", RetryAfter: turnRetry, Message: fmt.Sprintf(
		"session '%s' has %d turns that wait, which is the limit (limit-session-turns); they wait for execution %s: try again in %d s, or cancel it",
		session, l.opts.SessionTurns, running, int(turnRetry.Seconds()))}
}

// findQueuedTurn returns the event that queued a turn. Every event of a session holds the
// number of the last turn, so that a binary search over the positions up to the
// session's newest event finds it.
func (l *Ledger) findQueuedTurn(ctx context.Context, tenant, session string, number int64, last uint64) (*events.SessionTurnQueued, error) {
	for from, to := uint64(1), last; from <= to; {
		middle := from + (to-from)/2
		e, err := l.store.Next(ctx, events.LogicalSubject(tenant, session), middle-1)
		if err != nil {
			return nil, err
		}
		next, err := nextTurn(e)
		switch {
		case err != nil:
			return nil, err
		case next.Turn < number:
			from = e.Seq + 1
			continue
		case next.Turn == number:
			if d, ok := e.Data.(*events.SessionTurnQueued); ok {
				return d, nil
			}
		}
		to = middle - 1
	}
	return nil, fmt.Errorf("turn %d of session %s is not recorded: %w", number, session, events.ErrDamaged)
}
