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

// askedKey is the key of when a client has sent its request.
type askedKey struct{}

// AskedAt notes when a client has sent the request that the commands of ctx belong to:
// the time for the answer counts from then.
func AskedAt(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, askedKey{}, at)
}

// answerKey is the key of the answer that a command owes.
type answerKey struct{}

// answer is the state of a client's command.
type answer struct {
	// until is when the client must have the answer.
	until time.Time
	// contended is when another writer was first the last time, in nanoseconds since
	// 1970 UTC; 0 is never.
	contended atomic.Int64
	// recorded is true when an event of the command is recorded, and sent when one may be.
	recorded, sent atomic.Bool
}

// NoteSent notes that an event of the client's command of ctx is sent to be recorded, if
// ctx is that of one.
func NoteSent(ctx context.Context) {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.sent.Store(true)
	}
}

// HasSentNothing reports whether ctx is that of a client's command of which no event was
// sent, see NoteSent: it can be refused, and nothing was recorded.
func HasSentNothing(ctx context.Context) bool {
	a, ok := ctx.Value(answerKey{}).(*answer)
	return ok && !a.sent.Load() && !a.recorded.Load()
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
	now := time.Now()
	until := now.Add(l.opts.AnswerWait)
	if asked, ok := ctx.Value(askedKey{}).(time.Time); ok {
		least := now.Add(l.opts.AnswerWait / 4) // also for the last of many
		if until = asked.Add(l.opts.AnswerWait); until.Before(least) {
			until = least
		}
	}
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
		server := "its NATS server"
		if silent, ok := errors.AsType[*events.NoAnswerError](*err); ok {
			if silent.NotSent {
				return
			}
			server += " at " + silent.Server
		}
		*err = &Error{Code: CodeUnavailable, Err: *err, Message: fmt.Sprintf(
			"the ledger has not answered within %g s: %s cannot be reached, hangs or is overloaded; what was asked for may be recorded or not, so repeat it with the same idempotency key",
			l.opts.AnswerWait.Seconds(), server)}
	}
}

// ErrAbandoned is the cause of a context in which nothing more is to be recorded: the
// process ends. It also ends the work that is done when the context of a caller has ended
// otherwise.
var ErrAbandoned = errors.New("the process ends, and nothing more is recorded")

// commitContext returns a context for work that must be done even if the caller has
// gone: what it is about to record has already happened. Only ErrAbandoned ends it before
// its time.
func commitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	alone, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unbind := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, ErrAbandoned) {
			cancel(cause)
		}
	})
	var stop context.CancelFunc
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		alone, stop = context.WithDeadlineCause(alone, a.until, errNoAnswer)
	} else {
		alone, stop = context.WithTimeout(alone, commitTimeout)
	}
	return alone, func() {
		unbind()
		stop()
		cancel(nil)
	}
}
