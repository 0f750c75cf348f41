package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

const cancelledMessage = "Cancelled by user"

// Cancel ends an execution at a client's request and returns the position of the
// cancelled event, which is recorded. Errors are CodeNotFound for an unknown execution,
// CodeConflict for one that has ended, by an earlier cancel or otherwise, CodeExhausted
// and CodeUnavailable.
//
// Cancel first sends the request to the runner, which can stop the script and count its
// output. If no runner answers within Options.CancelTimeout, the ledger ends the execution.
// Once the request to cancel is recorded, cancelling ctx does not interrupt Cancel. A run
// that waits for its turn has no runner and is ended immediately.
func (l *Ledger) Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	actor = sanitizeActor(actor)
	seq, err = l.cancelQueued(ctx, tenant, execution, actor)
	if !errors.Is(err, errStarted) {
		return seq, err
	}
	if err := l.requestCancel(ctx, tenant, execution, actor); err != nil {
		return 0, err
	}
	ctx, stop := commitContext(ctx)
	defer stop()
	l.askRunner(ctx, tenant, execution)
	return l.ensureCancelled(ctx, tenant, execution, actor)
}

// errStarted is returned by cancelQueued for a run that a runner may have to stop.
var errStarted = errors.New("the run has no turn to wait for, or was started")

// cancelQueued ends a run that has a turn in a logical session and was not started. The
// expected position prevents a runner from starting it at the same time.
func (l *Ledger) cancelQueued(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error) {
	h, req, err := l.loadExecution(ctx, tenant, execution)
	switch {
	case err != nil:
		return 0, err
	case req == nil:
		return 0, unknownExecutionError(execution)
	case h.terminal != nil:
		return 0, notRunningError(execution, *h.terminal)
	case req.Turn == nil || h.newest != nil:
		return 0, errStarted
	}
	ctx, stop := commitContext(ctx)
	defer stop()
	e, err := l.end(ctx, *req, func(h *history) events.Data {
		if h.newest != nil {
			return nil
		}
		return newCancelledEnding(actor, req.ExecutionID, h.attempt())
	})
	switch {
	case e.Seq == 0:
		return 0, err
	case e.Type != events.TypeExecutionCancelled:
		return 0, notRunningError(execution, e)
	}
	if err == nil {
		// The request waits in the queue for a turn that it no longer needs.
		err = l.release(ctx, *req)
	}
	if err != nil {
		l.opts.Logger.WarnContext(ctx, "finalizing a cancelled execution", "execution", execution, "err", err)
	}
	return e.Seq, nil
}

// requestCancel records the request, unless the execution is unknown or has ended. Of
// concurrent requests one is recorded and counts for all of them, because more events
// would only cause conflicts.
func (l *Ledger) requestCancel(ctx context.Context, tenant, execution string, actor events.Actor) error {
	lost := false
	return retry(ctx, "cancel execution "+execution, func() error {
		h, err := l.history(ctx, tenant, execution)
		if err != nil {
			return err
		}
		if h.terminal != nil {
			return notRunningError(execution, *h.terminal)
		}
		if err := h.checkKnownEvents(execution); err != nil {
			return err
		}
		if lost && h.cancel != nil {
			return nil
		}
		e := l.newEvent(tenant, "", &events.ExecutionCancelRequested{ExecutionID: execution, Actor: actor})
		_, err = l.store.Append(ctx, e, int64(h.position))
		lost = errors.Is(err, events.ErrConflict)
		return err
	})
}

// askRunner asks the runner to stop. The caller reads the outcome from the ledger.
func (l *Ledger) askRunner(ctx context.Context, tenant, execution string) {
	ctx, stop := context.WithTimeout(ctx, l.opts.CancelTimeout)
	defer stop()
	if _, err := l.store.RequestCancel(ctx, tenant, execution); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		l.opts.Logger.WarnContext(ctx, "asking the runner to cancel", "execution", execution, "err", err)
	}
}

// ensureCancelled ends the execution unless it has ended, and returns the position of the
// cancelled event. The error is CodeConflict if it ended otherwise.
func (l *Ledger) ensureCancelled(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error) {
	h, err := l.history(ctx, tenant, execution)
	if err != nil {
		return 0, err
	}
	terminal := h.terminal
	if terminal == nil {
		req, ok := NewRequest(h.events[0])
		if !ok {
			return 0, newerEventError(execution, h.events[0])
		}
		e, err := l.endCancelled(ctx, req, actor)
		if e.Seq == 0 {
			return 0, err
		}
		if err != nil {
			// The execution has ended, as the client asked. The request of the run is not
			// acknowledged yet, and the runner that receives it finalizes the execution.
			l.opts.Logger.WarnContext(ctx, "finalizing a cancelled execution", "execution", execution, "err", err)
		}
		terminal = &e
	}
	if terminal.Type != events.TypeExecutionCancelled {
		return 0, notRunningError(execution, *terminal)
	}
	return terminal.Seq, nil
}

// endCancelled ends an execution as cancelled without its runner, unless it has ended,
// and finalizes it. It returns the recorded terminal event, which is set even with an
// error if only finalizing failed.
func (l *Ledger) endCancelled(ctx context.Context, req Request, actor events.Actor) (events.Event, error) {
	return l.end(ctx, req, func(h *history) events.Data {
		return newCancelledEnding(actor, req.ExecutionID, h.attempt())
	})
}

func newCancelledEnding(actor events.Actor, execution string, attempt int) events.Data {
	return events.NewEnding(events.StatusCancelled, events.Ending{
		ExecutionID: execution,
		Attempt:     attempt,
		Content:     errorContent(cancelledMessage),
		Actor:       &actor,
	})
}

func notRunningError(execution string, terminal events.Event) error {
	status, _ := terminal.Type.Status()
	return &Error{Code: CodeConflict, Field: "execution_id", Message: fmt.Sprintf("Execution '%s' is not running (status: %s)", execution, status)}
}
