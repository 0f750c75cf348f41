package ledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
)

// Code classifies an error for every interface. Each adapter has one table that maps
// codes to its own answers. The list is append-only.
type Code string

// The codes.
const (
	CodeInvalid     Code = "invalid"     // the request breaks a rule that does not depend on the state
	CodeTooLarge    Code = "too_large"   // a body or field is over its limit
	CodeNotFound    Code = "not_found"   // the execution, heap or session does not exist
	CodeConflict    Code = "conflict"    // the current state does not allow the request
	CodeGone        Code = "gone"        // the object existed and was deliberately removed
	CodeExhausted   Code = "exhausted"   // a quota or limit is reached; retry later
	CodeUnavailable Code = "unavailable" // the server cannot serve the request now; retry later
	CodeInternal    Code = "internal"    // a defect of Daybook
)

// Error is the answer to a request that was refused or failed. Message is for the user:
// it names the field, the rule and the remedy.
type Error struct {
	Code    Code
	Field   string // the request field at fault, or empty
	Message string
	Err     error // the cause, for logs; may be nil
	// Permanent reports whether a CodeUnavailable lasts until an operator acts. The same
	// request fails again until then.
	Permanent bool
	// RetryAfter is the time after which a CodeExhausted request may succeed; 0 if that
	// is not known.
	RetryAfter time.Duration
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Invalid returns a CodeInvalid error about one field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of an error. It is CodeInternal for an unknown error.
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

// unavailable wraps an error of the store. The request was valid and may be repeated.
func unavailable(doing string, err error) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused // the store has refused it with an answer for the client
	}
	// Repeating does not help: ErrDamaged needs an operator, ErrTooLarge a fix.
	if errors.Is(err, events.ErrDamaged) || errors.Is(err, events.ErrTooLarge) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if u, ok := errors.AsType[*events.UnwritableError](err); ok {
		return &Error{Code: CodeUnavailable, Message: doing + ": " + u.Error(), Err: err, Permanent: true}
	}
	if silent, ok := errors.AsType[*events.NoAnswerError](err); ok {
		return &Error{Code: CodeUnavailable, Message: doing + ": " + silent.Error(), Err: err}
	}
	return &Error{Code: CodeUnavailable, Message: doing + ": the ledger cannot do this now; try again in a few seconds", Err: err}
}

func isBlobDamaged(err error) bool {
	_, ok := errors.AsType[*events.BlobDamagedError](err)
	return ok
}

// Temporary reports whether an error is a CodeUnavailable that may pass without an
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

// EndedError is returned if another writer ended the execution first. The runner MUST
// NOT run it and only calls Finalize.
type EndedError struct {
	// Event is the recorded terminal event.
	Event events.Event
}

// Error returns the id of the execution and its final status.
func (e *EndedError) Error() string {
	s, _ := e.Event.Type.Status()
	return fmt.Sprintf("execution %s has already ended: %s", e.Event.About(), s)
}

// Errors that a runner handles.
var (
	// ErrReplan is returned by Start if the plan is out of date, because another writer
	// recorded an event first. The runner MUST discard what it started and call Plan
	// again with redelivered set.
	ErrReplan = errors.New("the plan is out of date; plan again from the ledger")
	// ErrSuperseded is returned if a newer attempt has replaced this one, or if this
	// attempt was handed back. Further reports of this runner do not count.
	ErrSuperseded = errors.New("a newer attempt has replaced this one")
	// ErrHeld is returned by Plan for a second delivery of a request whose run a
	// runner still holds. The caller MUST change neither the run nor the deliveries.
	ErrHeld = errors.New("a runner still holds this run")
)

// excerptBytes is the maximum length of an Excerpt in bytes, without its ellipsis.
const excerptBytes = 80

// Excerpt returns a client's text for use within quotes in a message: escaped, so that
// it stays on its line, and cut to 80 bytes.
func Excerpt(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		_, width := utf8.DecodeRuneInString(s[i:])
		escaped := strconv.Quote(s[i : i+width])
		escaped = escaped[1 : len(escaped)-1]
		if b.Len()+len(escaped) > excerptBytes {
			b.WriteString("...")
			break
		}
		b.WriteString(escaped)
		i += width
	}
	return b.String()
}
