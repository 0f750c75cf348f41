package ledger

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
)

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
