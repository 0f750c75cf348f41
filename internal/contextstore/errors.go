package contextstore

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/ledger"
)

// ErrNone is returned for a call that belongs to no session.
var ErrNone error = &ledger.Error{
	Code:    ledger.CodeInvalid,
	Message: "there is no session to keep a context for: send the header X-MCP-Session-Id, or use a connection that lasts, or a logical session",
}

// errMismatch is a context that is not the one asked for. It cannot be, and is
// never served.
var errMismatch = errors.New("what is stored under the key of a context belongs to another one")

// unavailable makes the answer to a call that failed, with the reason.
func (s *Store) unavailable(doing string, err error) error {
	if errors.Is(err, events.ErrDamaged) || errors.Is(err, errMismatch) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if _, ours := errors.AsType[*ledger.Error](err); ours {
		return err
	}
	if u, ok := errors.AsType[*events.UnwritableError](err); ok {
		return &ledger.Error{Code: ledger.CodeUnavailable, Message: doing + ": " + u.Error(), Err: err}
	}
	silent, ok := errors.AsType[*events.NoAnswerError](err)
	if !ok && errors.Is(err, context.DeadlineExceeded) {
		silent, ok = errors.AsType[*events.NoAnswerError](s.opts.Silent())
	}
	if ok {
		return &ledger.Error{Code: ledger.CodeUnavailable, Message: doing + ": " + silent.Error(), Err: err}
	}
	return &ledger.Error{Code: ledger.CodeUnavailable, Message: doing + ": the ledger cannot do this now; try again", Err: err}
}
