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

// Causes of the end of a script's context.
var (
	errCancelled = errors.New("a client cancelled the run")
	errTimedOut  = errors.New("the run exceeded its time limit")
)

// timeoutGrace is the time after the time limit of a script at which the runner stops the
// script itself. Workers enforce the limit; this covers a worker that does not.
const timeoutGrace = 5 * time.Second

// maxNotStartedTries is how often this runner hands back a run because no worker could be
// started for it. A hand-back costs no attempt. With the default delays the tries take
// about three minutes. Each try is recorded.
const maxNotStartedTries = 10

// attempt is one attempt of a run. Three activities overlap: the worker runs the
// script, the started event is acknowledged, and the pump records output after that
// acknowledgement.
type attempt struct {
	r         *Runner
	plan      ledger.Plan
	in        input
	recordCtx context.Context
	// requestedAt is when the run was accepted.
	requestedAt time.Time
	// stop ends the script. Only the first cause counts.
	stop context.CancelCauseFunc
	// start is set when the started event is acknowledged.
	start future[*ledger.StartedAttempt]
	// done is closed when the result of the attempt is known. isEndRecorded is valid
	// from then on; it is true if the end of the execution is recorded.
	done          chan struct{}
	isEndRecorded bool
	// positionMu is held while an event about calls or artifacts is appended: they share the
	// expected position of the started attempt.
	positionMu sync.Mutex
	// memory is the account for the heap that is restored or saved.
	memory MemoryAccount
}

// attempt executes a plan until the execution has ended. It returns nil once the
// execution is finalized. It returns *ledger.EndedError and ledger.ErrReplan from the
// ledger, and errHandedBack if the next runner must continue the run. After any other
// error the outcome is open, and the request must be delivered again.
func (r *Runner) attempt(l *shutdownPhases, plan ledger.Plan, d Delivery) error {
	runCtx, stop := context.WithCancelCause(l.runCtx)
	defer stop(nil)
	a := &attempt{r: r, plan: plan, recordCtx: l.recordCtx, requestedAt: d.Event.Time, stop: stop, start: newFuture[*ledger.StartedAttempt](), done: make(chan struct{})}

	// Listening comes first: a canceller that finds no listener ends the execution itself,
	// and Start then returns *ledger.EndedError.
	stopListening, err := r.opts.Work.ListenCancel(plan.Request.Tenant, plan.Request.ExecutionID, a.cancel)
	if err != nil {
		return fmt.Errorf("listen for cancel requests: %w", err)
	}
	defer stopListening()
	err = recoverPanic(func() error { return a.fetchAndRun(runCtx, d) })
	// This comes before stopListening, because a canceller may wait for the answer.
	a.announceEnd(err)
	return err
}

func (a *attempt) fetchAndRun(runCtx context.Context, d Delivery) (err error) {
	readCtx, memory := a.r.opts.Memory.OpenAccount(runCtx)
	a.memory = memory
	defer memory.Release()
	if a.in, err = a.r.fetch(a.recordCtx, readCtx, a.plan, memory); err != nil {
		return err
	}
	if a.in.wasStopped && !errors.Is(context.Cause(runCtx), errCancelled) {
		return errHandedBack // nothing of this attempt is recorded
	}
	var starting sync.WaitGroup
	defer starting.Wait()
	starting.Go(func() {
		run, err := a.recordStart()
		if err != nil {
			a.stop(err)
		}
		a.start.set(run, err)
	})
	switch {
	case a.in.wasStopped:
		return a.endWithoutRun(events.StatusCancelled, ledger.Result{})
	case a.in.refusal != nil:
		return a.endWithoutRun(events.StatusFailed, ledger.Result{Error: a.in.refusal.message, Reason: a.in.refusal.reason})
	}
	return a.run(runCtx, d.ReleaseSlot)
}

// cancel stops the script and waits for the result of the attempt. It reports whether
// the end of the execution is recorded.
func (a *attempt) cancel() bool {
	a.stop(errCancelled)
	<-a.done
	return a.isEndRecorded
}

// announceEnd answers the cancel requests with the result of the attempt.
func (a *attempt) announceEnd(err error) {
	var endedErr *ledger.EndedError
	a.isEndRecorded = err == nil || errors.As(err, &endedErr) || errors.Is(err, errNotFinalized)
	close(a.done)
}

func (a *attempt) recordStart() (run *ledger.StartedAttempt, err error) {
	err = recoverPanic(func() (err error) {
		run, err = a.r.opts.Ledger.Start(a.recordCtx, a.plan, ledger.Start{
			Runner:       a.r.opts.ID,
			Engine:       a.in.engine,
			InputHeap:    a.in.hash,
			MigratedFrom: a.in.migratedFrom,
			Callable:     a.in.callableTools,
			Layers:       a.in.layers,
			Warnings:     a.in.warnings,
			NodeGlobals:  a.hasNodeGlobals(),
			WASMModules:  a.in.wasmRecord,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record the start: %w", err)
	}
	if a.plan.Attempt == 1 {
		a.r.stats.add(func(s *Stats) { s.addQueueTime(a.plan.Request.Tenant, a.plan.StartTime.Sub(a.requestedAt)) })
	}
	return run, nil
}

// endWithoutRun ends a run whose script was not started.
func (a *attempt) endWithoutRun(status events.Status, res ledger.Result) error {
	run, err := a.start.get(a.recordCtx)
	if err != nil {
		return err
	}
	res.Output = newMeter(a.plan.FirstLine, a.plan.FirstByte).totals()
	return a.complete(run, status, res)
}

// run executes the script, releases the slot, and ends the execution with the outcome
// of the script.
func (a *attempt) run(runCtx context.Context, releaseSlot func()) error {
	limits := a.plan.Request.Limits
	timeout := time.Duration(limits.ExecutionTimeoutSecs) * time.Second
	startedAt := time.Now()
	timeoutTimer := time.AfterFunc(timeout+a.r.timeoutGrace, func() { a.stop(errTimedOut) })
	defer timeoutTimer.Stop()

	p := newPump(a.r.opts.Ledger, &a.start, a.plan, limits.OutputMaxBytes)
	p.pace = a.r.pace
	var pumping sync.WaitGroup
	defer pumping.Wait()
	pumping.Go(func() {
		if err := p.run(a.recordCtx); err != nil {
			a.stop(err)
		}
	})
	var x *hostCallBroker
	if len(a.in.callableTools) > 0 {
		x = newHostCallBroker(a)
	}
	artifacts := newArtifactRecorder(a)
	task := a.newTask(timeout, x)
	task.OnArtifact = artifacts.record
	var outcome Outcome
	workErr := recoverPanic(func() (err error) {
		outcome, err = a.r.opts.Workers.Run(runCtx, task, func(ctx context.Context, lines []events.Line) error {
			artifacts.countLines(lines)
			return p.write(ctx, lines)
		})
		return err
	})
	releaseSlot()
	heap, stopStoring := a.startStoringHeap(workErr, &outcome)
	defer stopStoring()
	totals, outputErr := p.finish()
	hostErr := x.close()
	run, startErr := a.start.get(a.recordCtx)
	switch {
	case startErr != nil:
		return startErr
	case outputErr != nil:
		return fmt.Errorf("record output: %w", outputErr)
	case hostErr != nil:
		return hostErr
	}

	res := ledger.Result{Output: totals}
	// A script that reached its end keeps its outcome, even if it was asked to stop
	// meanwhile.
	if workErr == nil {
		return a.finish(run, &outcome, heap, res)
	}
	// The findings about the heap and the usage are recorded for every way of stopping.
	res.Pristine, res.Warnings, res.Nondeterministic = outcome.Pristine, outcome.Warnings, outcome.Nondeterministic
	res.Usage = usage(&outcome)
	res.Usage.WallMillis = time.Since(startedAt).Milliseconds()
	recordErr, _ := errors.AsType[*recordError](workErr)
	notStarted, _ := errors.AsType[*NotStartedError](workErr)
	diverged, _ := errors.AsType[*DivergedError](workErr)
	switch cause := context.Cause(runCtx); {
	case recordErr != nil && recordErr.isPermanent():
		why := "the answer to call %d is damaged or no longer in the blob store"
		if errors.Is(recordErr, events.ErrShredded) {
			why = "the content of call %d is shredded"
		}
		res.Reason = ledger.ReasonInterrupted
		res.Error = fmt.Sprintf("The run was interrupted and cannot continue from its recorded calls: "+why+".", recordErr.number)
		return a.complete(run, events.StatusFailed, res)
	case cause == nil && (recordErr != nil || notStarted != nil && a.r.failures.count(a.plan.Request.Seq) < maxNotStartedTries):
		// A run that is handed back costs no attempt: the runner did not die.
		var reason string
		if recordErr != nil {
			reason = recordErr.Error()
		} else {
			reason = notStarted.reason()
		}
		if err := a.r.opts.Ledger.HandBack(a.recordCtx, run, reason); err != nil {
			return fmt.Errorf("hand the run back: %w", err)
		}
		return fmt.Errorf("run the script: %w", workErr)
	case diverged != nil:
		res.Reason, res.Error = ledger.ReasonInterrupted, "The run was interrupted and cannot continue from its recorded calls: "+workErr.Error()
		return a.complete(run, events.StatusFailed, res)
	case errors.Is(cause, errCancelled):
		return a.complete(run, events.StatusCancelled, res)
	case errors.Is(cause, errTimedOut):
		return a.complete(run, events.StatusTimedOut, res)
	case errors.Is(cause, errDraining):
		return a.handBack(run)
	default: // without a hand-back, the attempt counts; the request is delivered again
		return fmt.Errorf("run the script: %w", workErr)
	}
}

// hasNodeGlobals reports whether the script has the globals of Node. Later attempts have those
// of the first, because the script may read them.
func (a *attempt) hasNodeGlobals() bool {
	if a.plan.First != nil {
		return a.plan.First.NodeGlobals
	}
	return a.r.opts.NodeGlobals
}

func (a *attempt) newTask(timeout time.Duration, x *hostCallBroker) Task {
	req := a.plan.Request
	heapLimit := int64(req.Limits.HeapMemoryMaxMB) << 20
	t := Task{
		Tenant:   req.Tenant,
		Session:  req.SessionID,
		Code:     a.in.code,
		FileName: req.ShownFileName(),
		Heap:     a.in.heap,
		HeapKey:  a.in.hash,
		Stateful: req.Stateful,
		// What a run of a session or of a chain of runs leaves, the next one starts from.
		RestoreAhead:   req.Stateful && (req.Turn != nil || a.in.hash != ""),
		HeapLimitBytes: heapLimit,
		// Array buffers are outside V8's heap and get the same limit.
		ArrayBufferLimitBytes: heapLimit,
		Timeout:               timeout,
		Seed:                  a.plan.Seed,
		Start:                 a.plan.StartTime,
		Globals:               a.in.globals,
		NodeGlobals:           a.hasNodeGlobals(),
		JIT:                   a.in.engine.JIT && req.Stateful,
		Files:                 a.in.files,
		WASMModules:           a.in.wasm,
		HideNames:             req.ContentKeyID() != "",
		ReserveHeap:           a.memory.Reserve,
		OnHeapReceived: func() {
			a.in.heap, a.in.code, a.in.files, a.in.wasm = nil, nil, nil, nil
			a.memory.Release()
		},
	}
	if a.r.opts.Modules != nil || a.plan.Modules != nil {
		t.Modules = &attemptModules{a: a, heapLimit: heapLimit, timeout: timeout}
	}
	if x != nil {
		t.Servers, t.Host = a.in.callableTools, x
	}
	return t
}

// handBack hands back a run that outlasted the drain, for the next runner.
func (a *attempt) handBack(run *ledger.StartedAttempt) error {
	if err := a.r.opts.Ledger.HandBack(a.recordCtx, run, errDraining.Error()); err != nil {
		return fmt.Errorf("hand the run back: %w", err)
	}
	return errHandedBack
}

// future is a value or an error that is set once. Any number of goroutines may wait for
// it.
type future[T any] struct {
	done  chan struct{}
	value T
	err   error
}

func newFuture[T any]() future[T] { return future[T]{done: make(chan struct{})} }

// set MUST be called exactly once.
func (f *future[T]) set(v T, err error) {
	f.value, f.err = v, err
	close(f.done)
}

// get waits until the value is set or ctx is done.
func (f *future[T]) get(ctx context.Context) (T, error) {
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		var zero T
		return zero, context.Cause(ctx)
	}
}
