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

// ReplayHost is a Host that answers from the ledger with the answers of an earlier run. It
// calls no tool. With the same source, input heap, seed, start and engine, a script ends as
// in that run. A call that is not recorded, or differs from the recorded one, ends the run
// with an error.
type ReplayHost struct{ replay *recordedAnswers }

// NewReplayHost returns a ReplayHost with the calls of an execution. It reads each answer
// when the script receives it.
func NewReplayHost(calls []ledger.RecordedCall) *ReplayHost {
	return &ReplayHost{newRecordedAnswers(calls)}
}

// Call implements Host.
func (f *ReplayHost) Call(_ context.Context, number int, server, tool string, arguments []byte) error {
	recorded, err := f.replay.matchCall(number, server, tool, arguments)
	if err == nil && !recorded {
		err = fmt.Errorf("%w: call %d is not recorded", errDiverged, number)
	}
	return err
}

// Next implements Host. A call without a recorded answer never gets one.
func (f *ReplayHost) Next(ctx context.Context, due time.Time) (HostAnswer, error) {
	a, ok, err := f.replay.nextAnswer(ctx, due)
	switch {
	case err != nil || ok && (a.Number == 0 || a.Text != nil):
		return a, err
	case ok:
		return a, fmt.Errorf("the answer to call %d is not recorded, only its hash", a.Number)
	case !due.IsZero():
		return HostAnswer{}, nil // no answer is left before the timer
	}
	<-ctx.Done()
	return HostAnswer{}, context.Cause(ctx)
}
