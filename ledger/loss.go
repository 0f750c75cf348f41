package ledger

import (
	"context"
	"fmt"

	"daybook/events"
)

// ReasonHistoryLost is the reason of a run that is not run because events were lost
// after its request.
const ReasonHistoryLost = "history_lost"

// planAfterLoss plans a run that was requested before events that were lost. The event
// at namedAt records the loss. A run without a recorded end may have been started, and
// its effects are unknown, so that it is ended and not run again.
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
				Content: errorContent(fmt.Sprintf("Events that were recorded after this run was requested are lost (event %d says which). "+
					"Whether it was run, and how it ended, cannot be known, so it is not run again. Submit it anew if that does no harm.", namedAt)),
			})
		})
	})
}
