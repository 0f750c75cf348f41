package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// answerWait is how long a client's command may take. The client has the answer
// within 5 s.
const answerWait = 4500 * time.Millisecond

// errNoAnswer is the cause of a command that has taken too long.
var errNoAnswer = errors.New("the ledger does not answer")

// answerKey is the key of the time until which a command is to be answered.
type answerKey struct{}

// answering bounds a command of a client, and what the ledger does for it after
// the client is gone. The caller MUST call answered with the command's error,
// which becomes a CodeUnavailable that gives the reason when the time is up. A
// command that is part of another one has the time of that one.
func (l *Ledger) answering(ctx context.Context) (bounded context.Context, answered func(*error)) {
	if _, ok := ctx.Value(answerKey{}).(time.Time); ok {
		return ctx, func(*error) {}
	}
	until := time.Now().Add(l.opts.AnswerWait)
	ctx = context.WithValue(ctx, answerKey{}, until)
	ctx, stop := context.WithDeadlineCause(ctx, until, errNoAnswer)
	return ctx, func(err *error) {
		defer stop()
		late := errors.Is(context.Cause(ctx), errNoAnswer) || time.Now().After(until)
		passes := Temporary(*err) || CodeOf(*err) == CodeInternal && !errors.Is(*err, events.ErrDamaged)
		if *err == nil || !late || !passes {
			return
		}
		*err = &Error{Code: CodeUnavailable, Err: *err, Message: fmt.Sprintf(
			"the ledger has not answered within %g s: its NATS server cannot be reached, hangs or is overloaded; what was asked for may be recorded or not, so repeat it with the same idempotency key",
			l.opts.AnswerWait.Seconds())}
	}
}

// decided returns a context for work that must be done even if the caller has
// gone: what it is about to record has already happened.
func decided(ctx context.Context) (context.Context, context.CancelFunc) {
	alone := context.WithoutCancel(ctx)
	if until, ok := ctx.Value(answerKey{}).(time.Time); ok {
		return context.WithDeadlineCause(alone, until, errNoAnswer)
	}
	return context.WithTimeout(alone, outlive)
}
