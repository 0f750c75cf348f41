package replay

import (
	"context"
	"errors"
	"testing"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

// A record that cannot be read to its end is not reproduced.
func TestUnreadableOutput(t *testing.T) {
	broken := errors.New("broken")
	output := func(_ context.Context, fn func(events.Line) error) error {
		return errors.Join(fn(events.Line{Text: "one"}), broken)
	}
	p := &replay{
		rec:    &ledger.Recording{Status: events.StatusTimedOut, Ending: &events.Ending{Reason: runner.ReasonTimeout}},
		host:   runner.NewReplayHost(nil),
		output: compareOutput(t.Context(), output, 1),
	}
	defer p.output.stop()
	p.output.isStopped = true
	err := p.takeLines(t.Context(), []events.Line{{Text: "one"}})
	if !errors.Is(err, broken) {
		t.Errorf("the error of the output is %v", err)
	}
	for _, runErr := range []error{err, nil} { // nil: the replay was stopped for another cause
		if report, err := p.compare(t.Context(), runErr); !errors.Is(err, broken) || report.Verdict != "" {
			t.Errorf("after %v: %v, %v", runErr, report.Verdict, err)
		}
	}
}
