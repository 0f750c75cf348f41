package ledger

import (
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// Code classifies an error for every interface; each adapter has one table
// from codes to its own answers. The list is append-only.
type Code string

// The codes.
const (
	CodeInvalid     Code = "invalid"     // the request breaks a rule it could have kept
	CodeTooLarge    Code = "too_large"   // a body or field is over its limit
	CodeNotFound    Code = "not_found"   // no such execution, heap or session
	CodeConflict    Code = "conflict"    // the state does not allow it
	CodeGone        Code = "gone"        // it existed and was deliberately removed
	CodeExhausted   Code = "exhausted"   // over a quota; retry later
	CodeUnavailable Code = "unavailable" // cannot serve now; retry later
	CodeInternal    Code = "internal"    // our fault
)

// Error is an answer to a request that could not be honoured. Message is for
// the user: it names the field and the rule and says what to do.
type Error struct {
	Code    Code
	Field   string // the request field at fault, or empty
	Message string
	Err     error // the cause, for logs; may be nil
	// Permanent is true for a CodeUnavailable that lasts until an operator acts.
	// The same request fails again until then.
	Permanent bool
	// RetryAfter is when a CodeExhausted request may succeed; 0 where that is not
	// known.
	RetryAfter time.Duration
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalid makes a CodeInvalid error about one field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CodeOf classifies any error: CodeInternal for one it does not know.
func CodeOf(err error) Code {
	var e *Error
	var u *events.UnwritableError
	var silent *events.NoAnswerError
	switch {
	case errors.As(err, &e):
		return e.Code
	case errors.As(err, &u), errors.As(err, &silent):
		return CodeUnavailable
	case errors.Is(err, events.ErrNotFound):
		return CodeNotFound
	case errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrShredded):
		return CodeGone
	case isBlobDamaged(err):
		return CodeUnavailable
	default:
		return CodeInternal
	}
}

// unavailable wraps what the store answered when it could not do something:
// the request was fine, and may be repeated.
func unavailable(doing string, err error) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused // the store has refused it with an answer for the client
	}
	// Repeating these is of no use: one needs an operator, the other a fix.
	if errors.Is(err, events.ErrDamaged) || errors.Is(err, events.ErrTooLarge) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if u, ok := errors.AsType[*events.UnwritableError](err); ok {
		return &Error{Code: CodeUnavailable, Message: doing + ": " + u.Error(), Err: err, Permanent: true}
	}
	if silent, ok := errors.AsType[*events.NoAnswerError](err); ok {
		return &Error{Code: CodeUnavailable, Message: doing + ": " + silent.Error(), Err: err}
	}
	return &Error{Code: CodeUnavailable, Message: doing + ": the ledger cannot do this now; try again", Err: err}
}

func isBlobDamaged(err error) bool {
	_, ok := errors.AsType[*events.BlobDamagedError](err)
	return ok
}

// Temporary reports whether an error is a CodeUnavailable that passes without an
// operator.
func Temporary(err error) bool {
	if CodeOf(err) != CodeUnavailable || errors.Is(err, events.ErrDamaged) {
		return false
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Permanent {
		return false
	}
	_, unwritable := errors.AsType[*events.UnwritableError](err)
	return !unwritable
}

// EndedError is returned to a runner whose run was ended by somebody else in
// the meantime. There is nothing left to run, only to settle.
type EndedError struct {
	// Event is the terminal event on record.
	Event events.Event
}

// Error names the execution and how it ended.
func (e *EndedError) Error() string {
	s, _ := e.Event.Type.Status()
	return fmt.Sprintf("execution %s has already ended: %s", e.Event.About(), s)
}

// Errors that tell a runner what became of its run.
var (
	// ErrReplan is returned by Start when the plan is out of date: somebody else
	// recorded something first. Discard what was started and call Plan again
	// with redelivered set.
	ErrReplan = errors.New("the plan is out of date: plan again from the record")
	// ErrSuperseded is returned when a newer attempt has taken the run over, or
	// this one was handed back: nothing this runner knows counts any more.
	ErrSuperseded = errors.New("a newer attempt has taken this run over")
	// ErrHeld is returned by Plan for a second delivery of a request whose run a
	// runner still holds. The caller MUST leave the run and both deliveries alone.
	ErrHeld = errors.New("a runner still holds this run")
)
