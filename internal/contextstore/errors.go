package contextstore

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/ledger"
)

// ErrNone is returned for the zero Key, of a call that has neither a session nor a
// lasting connection.
var ErrNone error = &ledger.Error{
	Code:    ledger.CodeInvalid,
	Message: "this call has no session, so it has no context: send the header X-MCP-Session-Id, or use a persistent connection or a logical session",
}

// errMismatch is returned if the context that Views returns for a Key has another key,
// kind or session id. Such a context is never served.
var errMismatch = errors.New("the context stored under this key belongs to another key")

// clientError converts err to the error that a client gets. Errors about damage or a
// mismatch still match events.ErrDamaged or errMismatch.
func (s *Store) clientError(doing string, err error) error {
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
