package replay

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/ledger"
	"daybook/runner"
)

// Engine returns the engine of stateful replays.
func (r *Replayer) Engine(ctx context.Context) (events.Engine, error) { return r.engine(ctx, true) }

// Rebuild is Replay from a heap that takes the place of the recorded input heap: heap is nil
// for a fresh isolate. The heap, the engine and the JavaScript of the record are not compared,
// because another engine may have made them. If the verdict is events.ReplayIdentical,
// Rebuild returns the heap that the replay left.
//
// memory is the account of the heaps, and ctx that of its OpenAccount; the account holds heap,
// and holds the returned heap afterwards. memory is nil for no limit.
func (r *Replayer) Rebuild(ctx context.Context, memory runner.MemoryAccount, rec *ledger.Recording, heap []byte) (report Report, made []byte, err error) {
	p := &replay{rec: rec, replayer: r, memory: memory, isRebuild: true, restored: heap}
	report, err = p.finish(ctx)
	if err != nil || report.Verdict != events.ReplayIdentical {
		return report, nil, err
	}
	if len(p.outcome.Heap) == 0 {
		return p.different(Difference{Part: events.ReplayHeap, Recorded: describeHeap(rec.Ending.Heap), Replayed: describeHeap(nil)}), nil, nil
	}
	return report, p.outcome.Heap, nil
}

// WhyNot returns why a recording can never be replayed, from an error of it, or an empty reason
// if another try may succeed.
func WhyNot(err error) (reason, message string) { return whyNot(err) }

// CheckRecording returns why a recording cannot be replayed, as far as that is known without
// executing it; an empty reason if nothing prevents it.
func CheckRecording(rec *ledger.Recording) (reason, message string) {
	if rec.Started == nil {
		return ReasonNotExecuted, "no script was started"
	}
	if err := rec.ContentAvailable(); err != nil {
		return whyNot(err)
	}
	for _, c := range rec.Calls {
		if c.Answer != nil && !c.Answer.HasText() {
			return ReasonAnswerNotKept, fmt.Sprintf("only the hash of the answer to call %d is recorded, not its text", c.Number)
		}
	}
	return "", ""
}
