package ledger

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"daybook/events"
)

// maxTries bounds how often a decision is taken anew because another writer
// was first. Each lost try means that somebody else got on, so the bound is
// only reached under a load that should be shed.
const maxTries = 100

// retry takes a decision, and takes it again while its append meets
// events.ErrConflict. do MUST read the record anew each time. An error of the
// store becomes CodeUnavailable, one of the ledger is returned as it is.
func retry(ctx context.Context, doing string, do func() error) error {
	for try := range maxTries {
		err := do()
		var answer *Error
		var ended *EndedError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &answer), errors.As(err, &ended), errors.Is(err, ErrSuperseded):
			return err
		case !errors.Is(err, events.ErrConflict):
			return unavailable(doing, err)
		}
		if err := pause(ctx, try); err != nil {
			return unavailable(doing, err)
		}
	}
	return &Error{Code: CodeUnavailable, Message: doing + ": too many others are writing to the same place; try again", Err: events.ErrConflict}
}

// pause waits a random while, longer after more tries, so that writers in
// several processes do not meet again and again.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return ctx.Err()
	}
	t := time.NewTimer(rand.N(time.Duration(min(try, 20)) * time.Millisecond))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
