package ledger

import (
	"context"
	"fmt"

	"daybook/events"
)

const timedOutMessage = "Execution timed out"

// Complete records the terminal event of a run, its tags and its session entry. It
// returns the recorded terminal event. If another writer ended the execution first, this
// is the event of that writer. An error with an event means that only finalizing failed:
// the runner MUST leave the request unacknowledged, and the runner that receives it again
// finalizes the execution. An error without an event means that the end may not be
// recorded; after ErrSuperseded it never will be.
//
// A cancel that was requested meanwhile does not change the status. The runner reports a
// run that stopped because of the cancel as cancelled. A run that reached its end keeps
// its status.
//
// The session entries that one process records are in the order of the terminal events.
// Another process may record an entry between the terminal event and the entry of this
// run; the indexes of entries are in the order of the entries. Cancelling ctx does not
// interrupt Complete.
func (l *Ledger) Complete(ctx context.Context, r *StartedAttempt, status events.Status, res Result) (events.Event, error) {
	ctx, stop := commitContext(ctx)
	defer stop()
	unlock, err := l.lockSession(ctx, r.Plan.Request)
	if err != nil {
		return events.Event{}, unavailable("finish execution "+r.Plan.Request.ExecutionID, err)
	}
	defer unlock()
	terminal, input, err := l.finish(ctx, r, status, res)
	if err != nil {
		return events.Event{}, err
	}
	return terminal, l.finalizeLocked(ctx, r.Plan.Request, terminal, input)
}

// Finish records only the terminal event. The caller MUST call Finalize afterwards.
// Prefer Complete, which keeps the order of a session's entries.
func (l *Ledger) Finish(ctx context.Context, r *StartedAttempt, status events.Status, res Result) (events.Event, error) {
	ctx, stop := commitContext(ctx)
	defer stop()
	terminal, _, err := l.finish(ctx, r, status, res)
	return terminal, err
}

// finish records the end. It returns the recorded terminal event and the heap that its
// attempt restored.
func (l *Ledger) finish(ctx context.Context, r *StartedAttempt, status events.Status, res Result) (terminal events.Event, input string, err error) {
	req := r.Plan.Request
	end, err := l.newEnding(ctx, r, status, res)
	if err != nil {
		return events.Event{}, "", err
	}
	data := events.NewEnding(status, end)
	if data == nil {
		return events.Event{}, "", fmt.Errorf("finish execution %s: %q is not a final status", req.ExecutionID, status)
	}
	e := l.newExecutionEvent(req, data)
	input = r.InputHeap
	err = l.withRunPosition(ctx, r, "finish execution "+req.ExecutionID, func(h *history) error {
		if h != nil {
			if h.terminal != nil {
				terminal, input = *h.terminal, h.inputHeap()
				return nil
			}
			if status == events.StatusCancelled && h.cancel != nil {
				events.EndingOf(e.Data).Actor = &h.cancel.Actor
			}
		}
		if e.Seq, err = l.store.Append(ctx, e, int64(r.Position)); err != nil {
			return err
		}
		terminal = e
		return nil
	})
	return terminal, input, err
}

// newEnding returns the terminal payload. It stores large text first.
func (l *Ledger) newEnding(ctx context.Context, r *StartedAttempt, status events.Status, res Result) (events.Ending, error) {
	req := r.Plan.Request
	var content events.EndingContent
	if res.Value != nil && status == events.StatusCompleted {
		b, err := l.storeEncryptedBody(ctx, req.Tenant, req.ContentKeyID(), *res.Value)
		if err != nil {
			return events.Ending{}, err
		}
		content.Result, content.ResultTruncated = &b, res.ValueTruncated
	}
	if message := errorMessage(status, res.Error); message != "" {
		b, err := l.storeEncryptedBody(ctx, req.Tenant, req.ContentKeyID(), message)
		if err != nil {
			return events.Ending{}, err
		}
		content.Error = &b
	}
	transpiled, err := l.keyedHash(req.ContentKeyID(), res.TranspiledSHA256)
	if err != nil {
		return events.Ending{}, err
	}
	if res.Output.SHA256, err = l.keyedHash(req.ContentKeyID(), res.Output.SHA256); err != nil {
		return events.Ending{}, err
	}
	return events.Ending{
		ExecutionID:      req.ExecutionID,
		Attempt:          r.Plan.Attempt,
		Runner:           r.Runner,
		Reason:           res.Reason,
		Content:          events.Plain(content),
		Heap:             res.Heap,
		Output:           &res.Output,
		TranspiledSHA256: transpiled,
		Usage:            &res.Usage,
		TimersCancelled:  res.TimersCancelled,
		Pristine:         res.Pristine,
		Nondeterministic: res.Nondeterministic,
		Warnings:         clampWarnings(res.Warnings),
	}, nil
}

// errorMessage returns the error message to record: the given one, or the documented
// message of the status.
func errorMessage(status events.Status, message string) string {
	switch {
	case status == events.StatusCompleted:
		return ""
	case message != "":
		return message
	case status == events.StatusTimedOut:
		return timedOutMessage
	case status == events.StatusCancelled:
		return cancelledMessage
	default:
		return "The run failed without a message."
	}
}

// end ends an execution without its runner, unless it has ended, and finalizes it. It
// returns the recorded terminal event, which is set even with an error if only
// finalizing failed. If ending returns nil, the execution is left as it is, and the error
// wraps errStarted.
func (l *Ledger) end(ctx context.Context, req Request, ending func(*history) events.Data) (events.Event, error) {
	doing := "end execution " + req.ExecutionID
	unlock, err := l.lockSession(ctx, req)
	if err != nil {
		return events.Event{}, unavailable(doing, err)
	}
	defer unlock()
	var terminal events.Event
	var input string
	err = retry(ctx, doing, func() error {
		h, err := l.history(ctx, req.Tenant, req.ExecutionID)
		if err != nil {
			return err
		}
		input = h.inputHeap()
		if h.terminal != nil {
			terminal = *h.terminal
			return nil
		}
		if err := h.checkKnownEvents(req.ExecutionID); err != nil {
			return err
		}
		data := ending(h)
		if data == nil {
			return &Error{Code: CodeConflict, Message: errStarted.Error(), Err: errStarted}
		}
		e := l.newExecutionEvent(req, data)
		if e.Seq, err = l.store.Append(ctx, e, int64(h.position)); err != nil {
			return err
		}
		terminal = e
		return nil
	})
	if err != nil {
		return events.Event{}, err
	}
	return terminal, l.finalizeLocked(ctx, req, terminal, input)
}

func errorContent(message string) events.Content[events.EndingContent] {
	return events.Plain(events.EndingContent{Error: &events.Body{Text: message}})
}
