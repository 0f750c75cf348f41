package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// errNotFinalized reports an execution whose terminal event is recorded but that is not
// finalized.
var errNotFinalized = errors.New("the run has ended but is not finalized")

// finish ends the execution with the outcome of its script. It waits until the heap is
// stored before it records the terminal event that references it.
func (a *attempt) finish(run *ledger.StartedAttempt, outcome *Outcome, heap *future[*events.HeapRecord], res ledger.Result) error {
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
	var err error
	if res.Heap, err = heap.get(a.recordCtx); err != nil {
		return err
	}
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

// startStoringHeap begins to store the heap of an outcome, while the output of the run is
// recorded, and releases the memory of the heap once it is stored. The result is nil if there
// is no heap to record. stop gives up and waits.
func (a *attempt) startStoringHeap(workErr error, outcome *Outcome) (heap *future[*events.HeapRecord], stop func()) {
	blob, stored := outcome.Heap, outcome.HeapStored
	outcome.Heap, outcome.HeapStored = nil, nil
	result := newFuture[*events.HeapRecord]()
	// A script that was stopped at its time limit leaves no usable state.
	if workErr != nil || len(blob) == 0 || !a.plan.Request.Stateful || outcome.Status == events.StatusTimedOut {
		a.memory.Release()
		result.set(nil, nil)
		return &result, func() {}
	}
	ctx, cancel := context.WithCancel(a.recordCtx)
	var storing sync.WaitGroup
	storing.Go(func() {
		var record *events.HeapRecord
		err := recoverPanic(func() (err error) {
			// Nothing is stored for a run whose start is not recorded.
			if _, err = a.start.get(ctx); err == nil {
				record, err = a.storeHeap(ctx, blob)
			}
			if err == nil && stored != nil {
				stored(record.SHA256)
			}
			return err
		})
		a.memory.Release()
		result.set(record, err)
	})
	return &result, func() {
		cancel()
		storing.Wait()
	}
}

func (a *attempt) storeHeap(ctx context.Context, blob []byte) (*events.HeapRecord, error) {
	var hash string
	err := a.retryTransient(ctx, func() (err error) {
		if key := a.plan.Request.ContentKeyID(); key != "" {
			hash, err = a.r.opts.Heaps.PutEncryptedHeap(ctx, a.plan.Request.Tenant, blob, a.in.engine.ID, key)
			return err
		}
		hash, err = a.r.opts.Heaps.PutHeap(ctx, a.plan.Request.Tenant, blob, a.in.engine.ID)
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
	err := a.retryTransient(a.recordCtx, func() (err error) {
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
// times, or ctx is done. It returns do's last error.
func (a *attempt) retryTransient(ctx context.Context, do func() error) error {
	delay := a.r.opts.RetryDelay / 4
	for try := 1; ; try++ {
		err := do()
		if err == nil || try == maxTries || !isTransient(err) {
			return err
		}
		if !pause(ctx, delay) {
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
