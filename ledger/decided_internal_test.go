package ledger

import (
	"context"
	"errors"
	"testing"
)

// A decision is recorded even if the caller has disconnected, unless the process exits.
func TestDecided(t *testing.T) {
	t.Parallel()
	caller, leave := context.WithCancel(t.Context())
	ctx, stop := commitContext(caller)
	defer stop()
	leave()
	if ctx.Err() != nil {
		t.Errorf("after the end of the caller, the work ends with %v", context.Cause(ctx))
	}
	process, abandon := context.WithCancelCause(t.Context())
	ctx, stop = commitContext(process)
	defer stop()
	abandon(ErrAbandoned)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, ErrAbandoned) {
		t.Errorf("in a process that exits, the work has the cause %v", cause)
	}
}
