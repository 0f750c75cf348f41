package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// DivergedError reports that the host calls of a script differ from the recorded ones.
type DivergedError struct {
	// Number is the number of the first call that differs.
	Number int
	// Recorded and Made are the recorded call and that of the script. Recorded is nil if
	// the ledger holds no such call, Made if the script has not made it when it was
	// answered.
	Recorded *ledger.RecordedCall
	Made     *ledger.HostCall
	detail   string
}

// Error returns what differs, without the arguments.
func (e *DivergedError) Error() string {
	return "the calls of the script differ from the recorded calls: " + e.detail
}

// RecordEndsError reports that a script waits for an answer that the ledger does not
// hold: the recorded run ended first, or only the hash of the answer is recorded.
type RecordEndsError struct {
	// Number is the number of the call if only the hash of its answer is recorded,
	// otherwise 0.
	Number int
}

// Error returns what is missing.
func (e *RecordEndsError) Error() string {
	if e.Number == 0 {
		return "the script waits for an answer, and no further answer is recorded"
	}
	return fmt.Sprintf("only the hash of the answer to call %d is recorded, not its text", e.Number)
}

// ReplayHost is a Host that answers from the ledger with the answers of a recorded run. It
// calls no tool. With the same source, input heap, seed, start time and engine, a script
// receives the same answers at the same times as in that run. It returns a *DivergedError
// or a *RecordEndsError for a script that does something else.
type ReplayHost struct {
	recorded *recordedAnswers
	made     int
}

// NewReplayHost returns a ReplayHost with the calls of an execution, ordered by number. It
// reads each answer when the script receives it.
func NewReplayHost(calls []ledger.RecordedCall) *ReplayHost {
	return &ReplayHost{recorded: newRecordedAnswers(calls)}
}

// Call implements Host.
func (h *ReplayHost) Call(_ context.Context, number int, server, tool string, arguments []byte) error {
	recorded, err := h.recorded.matchCall(number, server, tool, arguments)
	if err == nil && !recorded {
		made := &ledger.HostCall{Number: number, Server: server, Tool: tool, Arguments: arguments}
		err = &DivergedError{Number: number, Made: made, detail: fmt.Sprintf("call %d, of %s.%s, is not recorded", number, server, tool)}
	}
	if err == nil {
		h.made++
	}
	return err
}

// Next implements Host.
func (h *ReplayHost) Next(ctx context.Context, due time.Time) (HostAnswer, error) {
	a, ok, err := h.recorded.nextAnswer(ctx, due)
	switch {
	case err != nil:
		return a, err
	case ok && a.Number > 0 && a.Text == nil:
		return a, &RecordEndsError{Number: a.Number}
	case ok:
		return a, nil
	case !due.IsZero():
		return HostAnswer{}, nil // no answer is left before the timer
	}
	return HostAnswer{}, &RecordEndsError{}
}

// IsComplete reports whether the script has made every recorded call. Like Call it is for
// one goroutine at a time.
func (h *ReplayHost) IsComplete() bool { return h.made == len(h.recorded.calls) }

// MissingCall returns the number of the first recorded call that the script has not made,
// or 0.
func (h *ReplayHost) MissingCall() int {
	for _, number := range slices.Sorted(maps.Keys(h.recorded.calls)) {
		if !h.recorded.matchedCalls[number] {
			return number
		}
	}
	return 0
}

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

// matchCall reports whether a call is recorded. It returns a *DivergedError if the recorded
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
		return true, &DivergedError{
			Number: number, Recorded: &c, Made: &ledger.HostCall{Number: number, Server: server, Tool: tool, Arguments: arguments},
			detail: fmt.Sprintf("recorded call %d is %s.%s with arguments of SHA-256 %.12s, but the script called %s.%s with arguments of SHA-256 %.12s",
				number, c.Server, c.Tool, c.ArgumentsSHA256, server, tool, hash),
		}
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
		return HostAnswer{}, true, &DivergedError{Number: c.Number, Recorded: &c, detail: fmt.Sprintf("the next recorded answer is to call %d, which the script has not made", c.Number)}
	}
	text, err := c.Answer.Text(ctx)
	if err != nil {
		return HostAnswer{}, true, &recordError{c.Number, err}
	}
	f.answers = f.answers[1:]
	return HostAnswer{Number: c.Number, OK: c.Answer.OK, Text: text, At: c.Answer.AnsweredAt}, true, nil
}
