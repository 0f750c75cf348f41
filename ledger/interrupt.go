package ledger

import (
	"context"
	"errors"

	"daybook/events"
)

// ReasonInterrupted is the reason of a run that was interrupted and is not started
// again.
const ReasonInterrupted = "interrupted"

// endInterrupted ends a run that must not be started again.
func (l *Ledger) endInterrupted(ctx context.Context, r Request) (events.Event, error) {
	return l.end(ctx, r, func(h *history) events.Data {
		return events.NewEnding(events.StatusFailed, events.Ending{
			ExecutionID: r.ExecutionID,
			Attempt:     h.attempt(),
			Reason:      ReasonInterrupted,
			Content:     errorContent("The run was interrupted, and is not started again: what it did so far might be done twice. Send the prompt again."),
		})
	})
}

// Interrupt ends a run whose client was connected to a process that has exited, unless
// the run has ended. It returns the position of the terminal event.
func (l *Ledger) Interrupt(ctx context.Context, tenant, execution string) (seq uint64, err error) {
	h, err := l.history(ctx, tenant, execution)
	if err != nil {
		return 0, err
	}
	if h.terminal != nil {
		return h.terminal.Seq, nil
	}
	req, ok := NewRequest(h.events[0])
	if !ok {
		return 0, newerEventError(execution, h.events[0])
	}
	if err := h.checkKnownEvents(execution); err != nil {
		return 0, err
	}
	ctx, stop := commitContext(ctx)
	defer stop()
	e, err := l.endInterrupted(ctx, req)
	var ended *EndedError
	if errors.As(err, &ended) {
		return ended.Event.Seq, nil
	}
	return e.Seq, err
}

// InterruptSession is Interrupt for the run that has the last turn of a session. It
// returns 0 if there is no such run.
func (l *Ledger) InterruptSession(ctx context.Context, tenant, session string) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	last, err := l.store.Last(ctx, events.LogicalSubject(tenant, session))
	switch {
	case errors.Is(err, events.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, unavailable("read session "+session, err)
	}
	next, err := nextTurn(last)
	if err != nil || next.ExecutionID == "" {
		return 0, err
	}
	seq, err = l.Interrupt(ctx, tenant, next.ExecutionID)
	if CodeOf(err) == CodeNotFound {
		return 0, nil // its turn was queued, and its request was never recorded
	}
	return seq, err
}
