package ledger

import (
	"context"
	"errors"
	"fmt"

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

// interrupt ends a run whose client was connected to a process that has exited, unless
// the run has ended. It returns the position of the terminal event.
func (l *Ledger) interrupt(ctx context.Context, tenant, execution string) (seq uint64, err error) {
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

// InterruptSession ends the run that has the last turn of a session, unless the run has
// ended. Its client was connected to a process that has exited. It returns the position of
// the terminal event, or 0 if there is no such run.
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
	seq, err = l.interrupt(ctx, tenant, next.ExecutionID)
	if CodeOf(err) == CodeNotFound {
		return 0, nil // its turn was queued, and its request was never recorded
	}
	return seq, err
}

// ReasonHistoryLost is the reason of a run that is not run because events were lost
// after its request.
const ReasonHistoryLost = "history_lost"

// planAfterLoss plans a run whose request precedes lost events. The event at namedAt
// records the loss. A run without a recorded end may have been started, and its effects
// are unknown, so it is ended and not run again.
func (l *Ledger) planAfterLoss(ctx context.Context, r Request, namedAt uint64) (Plan, error) {
	h, err := l.history(ctx, r.Tenant, r.ExecutionID)
	switch {
	case err != nil:
		return Plan{}, err
	case h.terminal != nil:
		return Plan{Request: r, Attempt: h.attempt(), Position: h.position, Ended: h.terminal}, nil
	case h.unknown != nil:
		return Plan{}, newerEventError(r.ExecutionID, *h.unknown)
	}
	return l.planEnd(ctx, r, func(ctx context.Context) (events.Event, error) {
		return l.end(ctx, r, func(h *history) events.Data {
			return events.NewEnding(events.StatusFailed, events.Ending{
				ExecutionID: r.ExecutionID,
				Attempt:     h.attempt(),
				Reason:      ReasonHistoryLost,
				Content: errorContent(fmt.Sprintf("Events that were recorded after this run was requested are lost (event %d lists them). "+
					"Whether it was run, and how it ended, cannot be known, so it is not run again. Submit it again if a second run does no harm.", namedAt)),
			})
		})
	})
}

// ReasonRequestUnreadable is the reason of a run that is not run because its requested
// event is damaged.
const ReasonRequestUnreadable = "request_unreadable"

// EndUnreadable ends an execution whose requested event, at a position, cannot be read.
// tenant and execution are those of the event's subject; no data of the event itself is
// recorded. It does nothing if the execution has ended. It records neither tags nor a
// session entry, because only the request names those.
func (l *Ledger) EndUnreadable(ctx context.Context, tenant, execution string, position uint64) error {
	ctx, stop := commitContext(ctx)
	defer stop()
	return retry(ctx, "end execution "+execution, func() error {
		last, err := l.store.Last(ctx, events.ExecSubject(tenant, execution))
		ending := events.Ending{
			ExecutionID: execution,
			Reason:      ReasonRequestUnreadable,
			Content: errorContent(fmt.Sprintf(
				"The request of this run, event %d, is damaged and cannot be read. The run was not done. Submit it again, and ask the operator to run `daybook verify`.", position)),
		}
		switch {
		case errors.Is(err, events.ErrNotFound):
		case err != nil:
			return err
		case last.Type.Terminal():
			return nil
		}
		switch d := last.Data.(type) {
		case *events.Unknown:
			return newerEventError(execution, last)
		case *events.ExecutionStarted:
			ending.Attempt = d.Attempt
		}
		_, err = l.store.Append(ctx, l.newEvent(tenant, "", events.NewEnding(events.StatusFailed, ending)), int64(last.Seq))
		return err
	})
}
