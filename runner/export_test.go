package runner

import (
	"context"
	"fmt"
	"time"

	"daybook/ledger"
)

// SetTimeoutGrace shortens the time that a worker may exceed its limit.
func SetTimeoutGrace(r *Runner, d time.Duration) { r.timeoutGrace = d }

// SetHandBackTimeout shortens the time that a hand-back may take.
func SetHandBackTimeout(r *Runner, d time.Duration) { r.handBackTimeout = d }

// SetTurnDelay shortens how long a run waits for its turn unless it is released.
func SetTurnDelay(r *Runner, d time.Duration) { r.turnDelay = d }

// ReplayHost is a Host that answers from the record of an earlier run and calls nothing.
// With the same source, input heap, seed, start and engine a script ends as it did
// then. A call that is not on record, or was another, ends the run with an error.
type ReplayHost struct{ replay *recordedAnswers }

// NewReplayHost makes a Feed of the calls of an execution. It reads each answer when the
// script gets it.
func NewReplayHost(calls []ledger.RecordedCall) *ReplayHost {
	return &ReplayHost{newRecordedAnswers(calls)}
}

// Call implements Host.
func (f *ReplayHost) Call(_ context.Context, number int, server, tool string, arguments []byte) error {
	recorded, err := f.replay.matchCall(number, server, tool, arguments)
	if err == nil && !recorded {
		err = fmt.Errorf("%w: call %d is not on record", errDiverged, number)
	}
	return err
}

// Next implements Host. A call without an answer on record never gets one.
func (f *ReplayHost) Next(ctx context.Context, due time.Time) (HostAnswer, error) {
	a, ok, err := f.replay.nextAnswer(ctx, due)
	switch {
	case err != nil || ok && (a.Number == 0 || a.Text != nil):
		return a, err
	case ok:
		return a, fmt.Errorf("the answer to call %d is not on record, only its hash", a.Number)
	case !due.IsZero():
		return HostAnswer{}, nil // nothing comes before it any more
	}
	<-ctx.Done()
	return HostAnswer{}, context.Cause(ctx)
}
