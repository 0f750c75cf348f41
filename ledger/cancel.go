package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

const cancelledMessage = "Cancelled by user"

// Cancel ends an execution at a client's request and returns the position of
// the cancelled event. Success means that event is on record. CodeNotFound: no
// such execution; CodeConflict: it has ended, before or in the meantime, in
// another way or by an earlier cancel.
//
// The runner is asked first, so that it can stop the script and account for
// its output; without an answer in Options.CancelWait the ledger ends the
// execution itself. From the moment the request is on record the caller's
// cancellation no longer stops it. A run that waits for its turn has no runner:
// it is ended at once.
func (l *Ledger) Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error) {
	ctx, answered := l.answering(ctx)
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
	return l.cancelled(ctx, tenant, execution, actor)
}

// errStarted is returned by cancelQueued for a run that a runner may have to
// stop.
var errStarted = errors.New("the run has no turn to wait for, or was started")

// cancelQueued ends a run that has a turn in a session and was not started. The
// expected position keeps a runner that is about to start it from doing so.
func (l *Ledger) cancelQueued(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error) {
	h, req, err := l.loadExecution(ctx, tenant, execution)
	switch {
	case err != nil:
		return 0, err
	case req == nil:
		return 0, notFound(execution)
	case h.terminal != nil:
		return 0, notRunning(execution, *h.terminal)
	case req.Turn == nil || h.newest != nil:
		return 0, errStarted
	}
	ctx, stop := commitContext(ctx)
	defer stop()
	e, err := l.end(ctx, *req, func(h *history) events.Data {
		if h.newest != nil {
			return nil
		}
		return cancelledBy(actor, req.ExecutionID, h.attempt())
	})
	switch {
	case e.Seq == 0:
		return 0, err
	case e.Type != events.TypeExecutionCancelled:
		return 0, notRunning(execution, e)
	}
	if err == nil {
		// Its request waits in the queue for a turn that it does not need any more.
		err = l.release(ctx, *req)
	}
	if err != nil {
		l.opts.Logger.WarnContext(ctx, "settling a cancelled execution", "execution", execution, "err", err)
	}
	return e.Seq, nil
}

// requestCancel records the request, unless the execution is unknown or over. Of
// requests that meet, one is recorded: it counts for the others, which would only
// take each other's place.
func (l *Ledger) requestCancel(ctx context.Context, tenant, execution string, actor events.Actor) error {
	lost := false
	return retry(ctx, "cancel execution "+execution, func() error {
		h, err := l.history(ctx, tenant, execution)
		if err != nil {
			return err
		}
		if h.terminal != nil {
			return notRunning(execution, *h.terminal)
		}
		if err := h.decidable(execution); err != nil {
			return err
		}
		if lost && h.cancel != nil {
			return nil
		}
		e := l.event(tenant, "", &events.ExecutionCancelRequested{ExecutionID: execution, Actor: actor})
		_, err = l.store.Append(ctx, e, int64(h.position))
		lost = errors.Is(err, events.ErrConflict)
		return err
	})
}

// askRunner gives the runner its chance. Whatever comes of it, the record
// decides.
func (l *Ledger) askRunner(ctx context.Context, tenant, execution string) {
	ctx, stop := context.WithTimeout(ctx, l.opts.CancelWait)
	defer stop()
	if _, err := l.store.RequestCancel(ctx, tenant, execution); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		l.opts.Logger.WarnContext(ctx, "asking the runner to cancel", "execution", execution, "err", err)
	}
}

// cancelled makes sure that the execution has ended, and answers how.
func (l *Ledger) cancelled(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error) {
	h, err := l.history(ctx, tenant, execution)
	if err != nil {
		return 0, err
	}
	terminal := h.terminal
	if terminal == nil {
		req, ok := NewRequest(h.events[0])
		if !ok {
			return 0, newer(execution, h.events[0])
		}
		e, err := l.endCancelled(ctx, req, actor)
		if e.Seq == 0 {
			return 0, err
		}
		if err != nil {
			// The execution is over, which is what was asked for. Its work
			// message is still unacknowledged: whoever gets it settles the rest.
			l.opts.Logger.WarnContext(ctx, "settling a cancelled execution", "execution", execution, "err", err)
		}
		terminal = &e
	}
	if terminal.Type != events.TypeExecutionCancelled {
		return 0, notRunning(execution, *terminal)
	}
	return terminal.Seq, nil
}

// endCancelled appends the cancelled event on the server's behalf, unless the
// execution has ended, and settles. The event returned is the one on record;
// it is set even with an error when only settling went wrong.
func (l *Ledger) endCancelled(ctx context.Context, req Request, actor events.Actor) (events.Event, error) {
	return l.end(ctx, req, func(h *history) events.Data {
		return cancelledBy(actor, req.ExecutionID, h.attempt())
	})
}

func cancelledBy(actor events.Actor, execution string, attempt int) events.Data {
	return events.NewEnding(events.StatusCancelled, events.Ending{
		ExecutionID: execution,
		Attempt:     attempt,
		Content:     errorContent(cancelledMessage),
		Actor:       &actor,
	})
}

func notRunning(execution string, terminal events.Event) error {
	status, _ := terminal.Type.Status()
	return &Error{Code: CodeConflict, Field: "execution_id", Message: fmt.Sprintf("Execution '%s' is not running (status: %s)", execution, status)}
}
