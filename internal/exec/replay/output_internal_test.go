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
		output: compareOutput(t.Context(), output, 1), artifacts: &artifactComparison{},
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

// Each recorded piece of a line has the level and the time of the line.
func TestPiecesOfLines(t *testing.T) {
	line := events.Line{Text: "onetwo", Level: events.LevelWarn, TimeMillis: 7}
	piece := events.Line{Text: "one", Level: events.LevelWarn, TimeMillis: 7, Continued: true}
	for _, test := range []struct {
		rest events.Line
		want error
	}{
		{events.Line{Text: "two", Level: events.LevelWarn, TimeMillis: 7}, nil},
		{events.Line{Text: "two", Level: events.LevelError, TimeMillis: 7}, errDiffers},
		{events.Line{Text: "two", Level: events.LevelWarn, TimeMillis: 8}, errDiffers},
	} {
		c := compareOutput(t.Context(), func(_ context.Context, fn func(events.Line) error) error {
			return errors.Join(fn(piece), fn(test.rest))
		}, 1)
		if err := c.take(line); !errors.Is(err, test.want) {
			t.Errorf("%+v: %v, want %v", test.rest, err, test.want)
		}
		c.stop()
	}
}
