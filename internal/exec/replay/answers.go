package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/ledger"
	"daybook/runner"
)

// errUnanswered ends a run that waits for an answer that is not recorded.
var errUnanswered = errors.New("the recorded run received no answer to the call that the script waits for")

// MissingCall is a call that a record does not hold.
type MissingCall struct {
	// Number is the number of the call in the run that made it, from 1.
	Number int
	// Server and Tool name what was called. Arguments are the beginning of its JSON
	// arguments.
	Server, Tool, Arguments string
}

// missingCallError ends a run that makes a call that is not recorded.
type missingCallError struct{ call MissingCall }

// Error returns the tool of the call.
func (e *missingCallError) Error() string {
	return fmt.Sprintf("no answer is recorded for call %d, of %s.%s", e.call.Number, e.call.Server, e.call.Tool)
}

// answers is a runner.Host that answers the calls of another script from the record of a run.
// A call is answered by the first recorded call of the same tool with the same arguments that
// did not answer one yet, whatever was called between. It calls no tool.
//
// An answer arrives at its recorded time, or if the script makes its calls in another order,
// at the time of the latest answer before it: the clock does not go back.
type answers struct {
	calls   []ledger.RecordedCall // ordered by number
	used    []bool                // by index of calls
	pending map[int]int           // an index of calls by the number of the call that it answers
	latest  time.Time             // of the answers so far
	made    int
}

func newAnswers(calls []ledger.RecordedCall) *answers {
	return &answers{calls: calls, used: make([]bool, len(calls)), pending: map[int]int{}}
}

// Call implements runner.Host.
func (h *answers) Call(_ context.Context, number int, server, tool string, arguments []byte) error {
	h.made++
	var hash string
	for i := range h.calls {
		c := &h.calls[i]
		if h.used[i] || c.Server != server || c.Tool != tool {
			continue
		}
		if hash == "" { // it is the same for all calls of a run
			var err error
			if hash, err = c.HashArguments(arguments); err != nil {
				return err
			}
		}
		if hash == c.ArgumentsSHA256 {
			h.used[i], h.pending[number] = true, i
			return nil
		}
	}
	text, _ := shorten(string(arguments), maxStepText)
	return &missingCallError{MissingCall{Number: number, Server: server, Tool: tool, Arguments: text}}
}

// Next implements runner.Host.
func (h *answers) Next(ctx context.Context, due time.Time) (runner.HostAnswer, error) {
	number, first := 0, (*ledger.RecordedAnswer)(nil)
	for n, i := range h.pending {
		a := h.calls[i].Answer
		if a != nil && (first == nil || a.AnsweredAt.Before(first.AnsweredAt) || a.AnsweredAt.Equal(first.AnsweredAt) && a.Position < first.Position) {
			number, first = n, a
		}
	}
	if first == nil {
		if !due.IsZero() {
			return runner.HostAnswer{}, nil
		}
		return runner.HostAnswer{}, errUnanswered
	}
	at := first.AnsweredAt
	if at.Before(h.latest) {
		at = h.latest
	}
	if !due.IsZero() && !due.After(at) {
		return runner.HostAnswer{}, nil // the timer comes first
	}
	text, err := first.Text(ctx)
	if err != nil {
		return runner.HostAnswer{}, err
	}
	if text == nil {
		return runner.HostAnswer{}, &runner.RecordEndsError{Number: h.calls[h.pending[number]].Number}
	}
	h.latest = at
	delete(h.pending, number)
	return runner.HostAnswer{Number: number, OK: first.OK, Text: text, At: at}, nil
}
