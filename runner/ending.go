package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// errNotFinalized reports an execution whose terminal event is recorded but that is not
// finalized.
var errNotFinalized = errors.New("the run has ended but is not finalized")

// finish ends the execution with the outcome of its script. It stores the heap before
// the terminal event that references it, and releases the heap's memory.
func (a *attempt) finish(run *ledger.StartedAttempt, outcome *Outcome, res ledger.Result) error {
	status, ok := events.ParseStatus(string(outcome.Status))
	if !ok || status == events.StatusRunning || status == events.StatusCancelled {
		return fmt.Errorf("the worker reported the status %q", outcome.Status)
	}
	res.Value, res.ValueTruncated = outcome.Result, outcome.ResultTruncated
	res.Error, res.Reason = outcome.Error, outcome.Reason
	if status == events.StatusTimedOut {
		res.Error = "" // the ledger sets the documented text
	}
	res.TranspiledSHA256 = outcome.TranspiledSHA256
	res.Pristine, res.Warnings, res.Nondeterministic = outcome.Pristine, outcome.Warnings, outcome.Nondeterministic
	if status == events.StatusFailed {
		res.TimersCancelled = outcome.TimersCancelled
	}
	res.Usage = usage(outcome)
	// A script that was stopped at its time limit leaves no usable state.
	if len(outcome.Heap) > 0 && a.plan.Request.Stateful && status != events.StatusTimedOut {
		var err error
		if res.Heap, err = a.storeHeap(outcome.Heap); err != nil {
			return err
		}
	}
	outcome.Heap = nil
	a.memory.Release()
	// A script with a syntax error did not run, so its state is unchanged: the input
	// heap, or none for a fresh isolate.
	if outcome.Reason == ReasonSyntaxError && a.in.hash != "" {
		res.Heap = &events.HeapRecord{SHA256: a.in.hash, Size: a.in.heapSize, EngineID: a.in.engine.ID, Parent: a.in.hash}
	}
	return a.complete(run, status, res)
}

func usage(outcome *Outcome) events.Usage {
	return events.Usage{
		CPUMillis:     outcome.CPUTime.Milliseconds(),
		WallMillis:    outcome.WallTime.Milliseconds(),
		PeakHeapBytes: outcome.PeakHeapBytes,
	}
}

func (a *attempt) storeHeap(blob []byte) (*events.HeapRecord, error) {
	var hash string
	err := a.retryTransient(func() (err error) {
		if key := a.plan.Request.ContentKeyID(); key != "" {
			hash, err = a.r.opts.Heaps.PutEncryptedHeap(a.recordCtx, a.plan.Request.Tenant, blob, a.in.engine.ID, key)
			return err
		}
		hash, err = a.r.opts.Heaps.PutHeap(a.recordCtx, a.plan.Request.Tenant, blob, a.in.engine.ID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store the heap: %w", err)
	}
	return &events.HeapRecord{SHA256: hash, Size: int64(len(blob)), EngineID: a.in.engine.ID, Parent: a.in.hash}, nil
}

// complete records the end of the execution, unless the execution has already ended
// otherwise.
func (a *attempt) complete(run *ledger.StartedAttempt, status events.Status, res ledger.Result) error {
	var terminal events.Event
	err := a.retryTransient(func() (err error) {
		var e events.Event
		e, err = a.r.opts.Ledger.Complete(a.recordCtx, run, status, res)
		if e.Seq != 0 {
			terminal = e
		}
		return err
	})
	if terminal.Seq != 0 && events.EndingOf(terminal.Data).Runner == a.r.opts.ID {
		recorded, _ := terminal.Type.Status()
		a.r.stats.add(func(s *Stats) { s.Done[recorded]++ })
	}
	switch {
	case err == nil:
		return nil
	case terminal.Seq != 0:
		return fmt.Errorf("%w: %w", errNotFinalized, err)
	default:
		return fmt.Errorf("record the end: %w", err)
	}
}

// maxTries is how often a step at the end of a run is tried while something is
// unavailable. Giving up costs a whole attempt.
const maxTries = 5

// retryTransient calls do until it succeeds, fails permanently or has failed maxTries
// times. It returns do's last error.
func (a *attempt) retryTransient(do func() error) error {
	delay := a.r.opts.RetryDelay / 4
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == maxTries || !isTransient(err) {
			return err
		}
		if !pause(a.recordCtx, delay) {
			return err
		}
		delay *= 2
	}
}

// isTransient reports whether the cause of err can pass.
func isTransient(err error) bool {
	var unwritable *events.UnwritableError
	return !errors.As(err, &unwritable) && !errors.Is(err, ledger.ErrSuperseded) && !errors.Is(err, events.ErrDamaged) && !errors.Is(err, events.ErrTooLarge)
}

// pause waits for d. It reports false if ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	return waitOrStop(ctx.Done(), d)
}
