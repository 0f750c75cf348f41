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

// errDiverged reports a script that calls something else than it did when its
// calls were recorded.
var errDiverged = errors.New("the script does not call what it called before")

// answerError reports a recorded answer that cannot be read.
type answerError struct {
	number int
	err    error
}

// Error is that of the ledger, which names the call.
func (e *answerError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *answerError) Unwrap() error { return e.err }

// lost reports whether reading it again is of no use.
func (e *answerError) lost() bool {
	return errors.Is(e.err, events.ErrNotFound) || errors.Is(e.err, events.ErrShredded) || errors.Is(e.err, events.ErrDamaged)
}

// feed gives a script the answers on record instead of calling again.
type feed struct {
	calls   map[int]ledger.RecordedCall
	answers []ledger.RecordedCall // still to be given, in the order they reached the script
	begun   map[int]bool
}

func newFeed(calls []ledger.RecordedCall) *feed {
	f := &feed{calls: map[int]ledger.RecordedCall{}, begun: map[int]bool{}}
	for _, c := range calls {
		f.calls[c.Number] = c
		if c.Answer != nil {
			f.answers = append(f.answers, c)
		}
	}
	slices.SortFunc(f.answers, func(a, b ledger.RecordedCall) int { return cmp.Compare(a.Answer.Position, b.Answer.Position) })
	return f
}

// call reports whether a call is on record. One that is, but was another, is
// errDiverged.
func (f *feed) call(number int, server, tool string, arguments []byte) (recorded bool, err error) {
	c, ok := f.calls[number]
	if !ok {
		return false, nil
	}
	if c.Server != server || c.Tool != tool || !c.Made(arguments) {
		return true, fmt.Errorf("%w: call %d was %s.%s with arguments of SHA-256 %.12s, and is %s.%s with %.12s",
			errDiverged, number, c.Server, c.Tool, c.ArgumentsSHA256, server, tool, events.Hash(arguments))
	}
	f.begun[number] = true
	return true, nil
}

// next returns what the script is told next; false when the record has no more
// to say.
func (f *feed) next(ctx context.Context, due time.Time) (a HostAnswer, ok bool, err error) {
	if len(f.answers) == 0 {
		return HostAnswer{}, false, nil
	}
	c := f.answers[0]
	switch {
	case !due.IsZero() && !due.After(c.Answer.AnsweredAt):
		return HostAnswer{}, true, nil
	case !f.begun[c.Number]:
		return HostAnswer{}, true, fmt.Errorf("%w: it waits, and call %d comes next", errDiverged, c.Number)
	}
	text, err := c.Answer.Text(ctx)
	if err != nil {
		return HostAnswer{}, true, &answerError{c.Number, err}
	}
	f.answers = f.answers[1:]
	return HostAnswer{Number: c.Number, OK: c.Answer.OK, Text: text, At: c.Answer.AnsweredAt}, true, nil
}
