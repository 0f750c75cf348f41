package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"daybook/events"
)

// maxTries limits how often a decision is repeated because another writer was first.
// Each lost try means that another writer succeeded, so that the limit is reached only
// under a load that should be shed.
const maxTries = 100

// contentionRetry is the time after which a client may repeat a command that failed
// because other writers were first.
const contentionRetry = time.Second

// retry calls do, and repeats it while its append fails with events.ErrConflict. do MUST
// read the ledger each time. An error of the store becomes CodeUnavailable; an error of
// the ledger is returned unchanged. If other writers are first until the tries or the
// time are used up, the error is CodeExhausted.
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
		noteContention(ctx)
		switch err := pause(ctx, try); {
		case errors.Is(err, errNoAnswer):
			return contentionError(doing, nothingRecorded, err)
		case err != nil:
			return unavailable(doing, err)
		}
	}
	return contentionError(doing, nothingRecorded, events.ErrConflict)
}

const nothingRecorded = "nothing was recorded"

// contentionError returns the error of a command that failed because other writers were first
// each time.
func contentionError(doing, recorded string, err error) error {
	return &Error{Code: CodeExhausted, RetryAfter: contentionRetry, Err: err, Message: fmt.Sprintf(
		"%s: too many other requests change the same object at the same time; %s; try again in %d s", doing, recorded, int(contentionRetry.Seconds()))}
}

// lockError returns the error of a command that did not obtain a lock of keyedLocks.
func lockError(doing string, err error) error {
	if errors.Is(err, errContended) {
		return contentionError(doing, nothingRecorded, err)
	}
	return unavailable(doing, err)
}

// pause waits for a random time of up to 20 ms that grows with the tries, so that
// writers in several processes do not collide repeatedly.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return context.Cause(ctx)
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
