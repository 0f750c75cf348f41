package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// errDiverged is returned for a script whose host calls differ from the recorded ones.
var errDiverged = errors.New("the calls of the script differ from the recorded calls")

// recordError reports that a recorded answer cannot be read, or that the arguments of a
// recorded call cannot be compared.
type recordError struct {
	number int
	err    error
}

// Error returns the error text of the ledger, which names the call.
func (e *recordError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *recordError) Unwrap() error { return e.err }

// isPermanent reports whether another read would fail too.
func (e *recordError) isPermanent() bool {
	return errors.Is(e.err, events.ErrNotFound) || errors.Is(e.err, events.ErrShredded) || errors.Is(e.err, events.ErrDamaged)
}

// recordedAnswers answers host calls from the ledger.
type recordedAnswers struct {
	calls        map[int]ledger.RecordedCall
	answers      []ledger.RecordedCall // left for the script, in the order in which earlier attempts received them
	matchedCalls map[int]bool
}

func newRecordedAnswers(calls []ledger.RecordedCall) *recordedAnswers {
	f := &recordedAnswers{calls: map[int]ledger.RecordedCall{}, matchedCalls: map[int]bool{}}
	for _, c := range calls {
		f.calls[c.Number] = c
		if c.Answer != nil {
			f.answers = append(f.answers, c)
		}
	}
	slices.SortFunc(f.answers, func(a, b ledger.RecordedCall) int { return cmp.Compare(a.Answer.Position, b.Answer.Position) })
	return f
}

// matchCall reports whether a call is recorded. It returns errDiverged if the recorded
// call with this number is a different one, and a *recordError if it cannot be compared.
func (f *recordedAnswers) matchCall(number int, server, tool string, arguments []byte) (recorded bool, err error) {
	c, ok := f.calls[number]
	if !ok {
		return false, nil
	}
	hash, err := c.HashArguments(arguments)
	if err != nil {
		return true, &recordError{number, err}
	}
	if c.Server != server || c.Tool != tool || hash != c.ArgumentsSHA256 {
		return true, fmt.Errorf("%w: recorded call %d is %s.%s with arguments of SHA-256 %.12s, but the script called %s.%s with arguments of SHA-256 %.12s",
			errDiverged, number, c.Server, c.Tool, c.ArgumentsSHA256, server, tool, hash)
	}
	f.matchedCalls[number] = true
	return true, nil
}

// nextAnswer returns the next recorded answer. If due is set and the answer's time is not
// before it, the timer comes first, and nextAnswer returns the zero HostAnswer. ok is false
// after the last recorded answer.
func (f *recordedAnswers) nextAnswer(ctx context.Context, due time.Time) (a HostAnswer, ok bool, err error) {
	if len(f.answers) == 0 {
		return HostAnswer{}, false, nil
	}
	c := f.answers[0]
	switch {
	case !due.IsZero() && !due.After(c.Answer.AnsweredAt):
		return HostAnswer{}, true, nil
	case !f.matchedCalls[c.Number]:
		return HostAnswer{}, true, fmt.Errorf("%w: the next recorded answer is to call %d, which the script has not made", errDiverged, c.Number)
	}
	text, err := c.Answer.Text(ctx)
	if err != nil {
		return HostAnswer{}, true, &recordError{c.Number, err}
	}
	f.answers = f.answers[1:]
	return HostAnswer{Number: c.Number, OK: c.Answer.OK, Text: text, At: c.Answer.AnsweredAt}, true, nil
}
