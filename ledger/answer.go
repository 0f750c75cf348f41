package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"daybook/events"
)

// defaultAnswerTimeout is the default of Options.AnswerTimeout. It leaves 0.5 s to deliver the
// answer, so that the client has it within 5 s.
const defaultAnswerTimeout = 4500 * time.Millisecond

// errNoAnswer is the cause that ends the context of a command that took too long.
var errNoAnswer = errors.New("the ledger does not answer")

// requestTimeKey is the context key of the time at which a client sent its request.
type requestTimeKey struct{}

// WithRequestTime returns a context that holds the time at which a client sent the request.
// Commands with this context count their time limit from then.
func WithRequestTime(ctx context.Context, at time.Time) context.Context {
	return context.WithValue(ctx, requestTimeKey{}, at)
}

// answerKey is the context key of the answer of a command.
type answerKey struct{}

// answer is the state of a client's command.
type answer struct {
	// deadline is the deadline of the answer.
	deadline time.Time
	// contendedAt is the last time that another writer was first, in nanoseconds since 1970
	// UTC; 0 means never.
	contendedAt atomic.Int64
	// recorded is true once an event of the command is recorded. sent is true once an event
	// was sent to the store, which may have recorded it.
	recorded, sent atomic.Bool
}

// NoteSent notes that an event of the client's command in ctx was sent to the store.
// Without a command in ctx it does nothing.
func NoteSent(ctx context.Context) {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.sent.Store(true)
	}
}

// HasSentNothing reports whether ctx belongs to a client's command that has sent no
// event, see NoteSent. Such a command can be refused, because nothing was recorded.
func HasSentNothing(ctx context.Context) bool {
	a, ok := ctx.Value(answerKey{}).(*answer)
	return ok && !a.sent.Load() && !a.recorded.Load()
}

// NoteRecorded notes that an event of the client's command in ctx is recorded. Without a
// command in ctx it does nothing.
func NoteRecorded(ctx context.Context) {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.recorded.Store(true)
	}
}

// HasRecorded reports whether an event of the client's command in ctx is recorded, see
// NoteRecorded. The rest of such a command should not be refused.
func HasRecorded(ctx context.Context) bool {
	a, ok := ctx.Value(answerKey{}).(*answer)
	return ok && a.recorded.Load()
}

// noteContention notes that another writer was first. Then the ledger works, and a command
// that takes too long was delayed by other writers.
func noteContention(ctx context.Context) {
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		a.contendedAt.Store(time.Now().UnixNano())
	}
}

// wasContended reports whether another writer was first at any time during the command
// in ctx.
func wasContended(ctx context.Context) bool {
	a, _ := ctx.Value(answerKey{}).(*answer)
	return a.wasContended()
}

func (a *answer) wasContended() bool { return a != nil && a.contendedAt.Load() != 0 }

// withAnswerDeadline limits the time of a client's command, and of the work that the ledger does
// for it after the client has disconnected. The caller MUST call answered with the error
// of the command. If the time is up, answered turns this error into CodeUnavailable with
// the reason, or into CodeExhausted if other writers were first until then. A command
// within another command has the time limit of the outer one.
func (l *Ledger) withAnswerDeadline(ctx context.Context) (bounded context.Context, answered func(*error)) {
	if _, ok := ctx.Value(answerKey{}).(*answer); ok {
		return ctx, func(*error) {}
	}
	now := time.Now()
	until := now.Add(l.opts.AnswerTimeout)
	if asked, ok := ctx.Value(requestTimeKey{}).(time.Time); ok {
		least := now.Add(l.opts.AnswerTimeout / 4) // also for a command that has waited behind many others
		if until = asked.Add(l.opts.AnswerTimeout); until.Before(least) {
			until = least
		}
	}
	a := &answer{deadline: until}
	ctx = context.WithValue(ctx, answerKey{}, a)
	ctx, stop := context.WithDeadlineCause(ctx, until, errNoAnswer)
	return ctx, func(err *error) {
		defer stop()
		late := errors.Is(context.Cause(ctx), errNoAnswer) || time.Now().After(until)
		passes := Temporary(*err) || CodeOf(*err) == CodeInternal && !errors.Is(*err, events.ErrDamaged)
		if *err == nil || !late || !passes {
			return
		}
		if time.Since(time.Unix(0, a.contendedAt.Load())) < l.opts.AnswerTimeout/2 {
			*err = contentionError("decide the request", "the request may or may not be recorded", *err)
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
			"the ledger has not answered within %g s: %s cannot be reached, hangs or is overloaded; the request may or may not be recorded; repeat it with the same idempotency key",
			l.opts.AnswerTimeout.Seconds(), server)}
	}
}

// ErrAbandoned is the cause of a context in which nothing more may be recorded, because
// the process exits. It also ends work that continues after the context of its caller
// has ended for another reason.
var ErrAbandoned = errors.New("the process exits, and nothing more is recorded")

// commitTimeout limits an append of a runner once the decision is made.
const commitTimeout = 30 * time.Second

// commitContext returns a context for work that MUST be done even if the caller has
// disconnected, because it records facts that have already happened. Only ErrAbandoned
// ends it before its time limit.
func commitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	alone, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	unbind := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, ErrAbandoned) {
			cancel(cause)
		}
	})
	var stop context.CancelFunc
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		alone, stop = context.WithDeadlineCause(alone, a.deadline, errNoAnswer)
	} else {
		alone, stop = context.WithTimeout(alone, commitTimeout)
	}
	return alone, func() {
		unbind()
		stop()
		cancel(nil)
	}
}
