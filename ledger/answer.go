package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"daybook/events"
)

// answerWait is how long a client's command may take. The client has the answer
// within 5 s.
const answerWait = 4500 * time.Millisecond

// errNoAnswer is the cause of a command that has taken too long.
var errNoAnswer = errors.New("the ledger does not answer")

// answerKey is the key of the answer that a command owes.
type answerKey struct{}

// answer is the state of a client's command.
type answer struct {
	// until is when the client must have the answer.
	until time.Time
	// contended is when another writer was first the last time, in nanoseconds since
	// 1970 UTC; 0 is never.
	contended atomic.Int64
	// recorded is true when an event of the command is recorded.
	recorded atomic.Bool
}

// NoteRecorded notes that an event of the client's command of ctx is recorded, if ctx is
// that of one.
func NoteRecorded(ctx context.Context) {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.recorded.Store(true)
	}
}

// HasRecorded reports whether an event of the client's command of ctx is recorded, see
// NoteRecorded: then the rest of the command should not be refused.
func HasRecorded(ctx context.Context) bool {
	a, ok := ctx.Value(answerKey{}).(*answer)
	return ok && a.recorded.Load()
}

// sawContention notes that another writer was first: the ledger works, and a
// command that takes too long is late because of the others.
func sawContention(ctx context.Context) {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.contended.Store(time.Now().UnixNano())
	}
}

// wasContended reports whether another writer was first at any time.
func wasContended(ctx context.Context) bool {
	a, _ := ctx.Value(answerKey{}).(*answer)
	return a.wasContended()
}

func (a *answer) wasContended() bool { return a != nil && a.contended.Load() != 0 }

// answering bounds a command of a client, and what the ledger does for it after
// the client is gone. The caller MUST call answered with the command's error,
// which becomes a CodeUnavailable that gives the reason when the time is up, or a
// CodeExhausted if other writers were first until then. A
// command that is part of another one has the time of that one.
func (l *Ledger) answering(ctx context.Context) (bounded context.Context, answered func(*error)) {
	if _, ok := ctx.Value(answerKey{}).(*answer); ok {
		return ctx, func(*error) {}
	}
	until := time.Now().Add(l.opts.AnswerWait)
	a := &answer{until: until}
	ctx = context.WithValue(ctx, answerKey{}, a)
	ctx, stop := context.WithDeadlineCause(ctx, until, errNoAnswer)
	return ctx, func(err *error) {
		defer stop()
		late := errors.Is(context.Cause(ctx), errNoAnswer) || time.Now().After(until)
		passes := Temporary(*err) || CodeOf(*err) == CodeInternal && !errors.Is(*err, events.ErrDamaged)
		if *err == nil || !late || !passes {
			return
		}
		if time.Since(time.Unix(0, a.contended.Load())) < l.opts.AnswerWait/2 {
			*err = contended("decide the request", "what was asked for may be recorded or not", *err)
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
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		return context.WithDeadlineCause(alone, a.until, errNoAnswer)
	}
	return context.WithTimeout(alone, outlive)
}
