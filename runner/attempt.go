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

// Why a script was stopped, as the cause of its context.
var (
	errCancelled = errors.New("somebody asked to cancel the run")
	errTimedOut  = errors.New("the run exceeded its time limit")
)

// overtime is how much longer than its limit a script may take before the
// runner stops it itself. Workers keep the limit; this only catches one that
// does not.
const overtime = 5 * time.Second

// maxUnstarted is how often this runner hands a run back that no worker was started for,
// at no cost of an attempt. With the usual delays that takes about three minutes. Each
// such try is recorded.
const maxUnstarted = 10

// attempt is one try at a run. Three things go on at once: the worker runs the
// script, the started event is being acknowledged, and the pump records
// output, which waits for that acknowledgement.
type attempt struct {
	r       *Runner
	plan    ledger.Plan
	in      input
	records context.Context
	// requested is when the run was accepted.
	requested time.Time
	// stop ends the script; the first cause given stands.
	stop context.CancelCauseFunc
	// start is the started event's acknowledgement.
	start future[*ledger.Run]
	// over is closed when the attempt's end is known; ended then tells whether
	// the execution's end is on record.
	over  chan struct{}
	ended bool
	// memory holds what the heap takes that is restored or saved.
	memory HeldMemory
}

// attempt runs a plan to the end of its execution. Nil means that the terminal
// event and all that belongs to it are on record. *ledger.EndedError and
// ledger.ErrReplan are the ledger's answers, errHandedBack is a run to be
// continued elsewhere, and any other error means that the run's fate is open
// and the request must be delivered again.
func (r *Runner) attempt(l *life, plan ledger.Plan, d Delivery) error {
	running, stop := context.WithCancelCause(l.runs)
	defer stop(nil)
	a := &attempt{r: r, plan: plan, records: l.records, requested: d.Event.Time, stop: stop, start: newFuture[*ledger.Run](), over: make(chan struct{})}

	// Listening comes first: somebody who finds no listener ends the execution
	// himself, and then Start finds out.
	silence, err := r.opts.Work.ListenCancel(plan.Request.Tenant, plan.Request.ExecutionID, a.cancel)
	if err != nil {
		return fmt.Errorf("listen for cancel requests: %w", err)
	}
	defer silence()
	err = guard(func() error { return a.do(running, d) })
	// Before silence: somebody may be waiting for the answer.
	a.end(err)
	return err
}

func (a *attempt) do(running context.Context, d Delivery) (err error) {
	reading, memory := a.r.opts.Memory.Hold(running)
	a.memory = memory
	defer memory.Release()
	if a.in, err = a.r.fetch(a.records, reading, a.plan); err != nil {
		return err
	}
	if a.in.stopped && !errors.Is(context.Cause(running), errCancelled) {
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
	case a.in.stopped:
		return a.endUnrun(events.StatusCancelled, ledger.Result{})
	case a.in.refused != nil:
		return a.endUnrun(events.StatusFailed, ledger.Result{Error: a.in.refused.message, Reason: a.in.refused.reason})
	}
	return a.run(running, d.Free)
}

// cancel stops the script for somebody and waits for what becomes of it.
func (a *attempt) cancel() bool {
	a.stop(errCancelled)
	<-a.over
	return a.ended
}

// end tells those who asked for a cancel how the attempt ended.
func (a *attempt) end(err error) {
	var ended *ledger.EndedError
	a.ended = err == nil || errors.As(err, &ended) || errors.Is(err, errUnsettled)
	close(a.over)
}

func (a *attempt) recordStart() (run *ledger.Run, err error) {
	err = guard(func() (err error) {
		run, err = a.r.opts.Ledger.Start(a.records, a.plan, ledger.Start{
			Runner:    a.r.opts.ID,
			Engine:    a.in.engine,
			InputHeap: a.in.hash,
			Callable:  a.in.callable,
			Layers:    a.in.layers,
			Warnings:  a.in.warnings,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("record the start: %w", err)
	}
	if a.plan.Attempt == 1 {
		a.r.stats.add(func(s *Stats) { s.queued(a.plan.Request.Tenant, a.plan.StartTime.Sub(a.requested)) })
	}
	return run, nil
}

// endUnrun ends a run whose script was not started.
func (a *attempt) endUnrun(status events.Status, res ledger.Result) error {
	run, err := a.start.get(a.records)
	if err != nil {
		return err
	}
	res.Output = newMeter(a.plan.FirstLine, a.plan.FirstByte).totals()
	return a.complete(run, status, res)
}

// run executes the script, gives up the slot, and ends the execution as the
// script ended.
func (a *attempt) run(running context.Context, free func()) error {
	limits := a.plan.Request.Limits
	timeout := time.Duration(limits.ExecutionTimeoutSecs) * time.Second
	began := time.Now()
	late := time.AfterFunc(timeout+a.r.overtime, func() { a.stop(errTimedOut) })
	defer late.Stop()

	p := newPump(a.r.opts.Ledger, &a.start, a.plan, limits.OutputMaxBytes)
	p.pace = a.r.pace
	var pumping sync.WaitGroup
	defer pumping.Wait()
	pumping.Go(func() {
		if err := p.run(a.records); err != nil {
			a.stop(err)
		}
	})
	var x *exchange
	if len(a.in.callable) > 0 {
		x = newExchange(a)
	}
	var out Outcome
	workErr := guard(func() (err error) {
		out, err = a.r.opts.Workers.Run(running, a.task(timeout, x), p.write)
		return err
	})
	free()
	totals, outputErr := p.finish()
	hostErr := x.close()
	run, startErr := a.start.get(a.records)
	switch {
	case startErr != nil:
		return startErr
	case outputErr != nil:
		return fmt.Errorf("record output: %w", outputErr)
	case hostErr != nil:
		return hostErr
	}

	res := ledger.Result{Output: totals}
	// A script that made it to its end keeps its outcome, whoever wanted it to
	// stop meanwhile.
	if workErr == nil {
		return a.finish(run, &out, res)
	}
	// What the heap brought along and what the script cost count however the script
	// was stopped.
	res.Pristine, res.Warnings = out.Pristine, out.Warnings
	res.Usage = usage(&out)
	res.Usage.WallMillis = time.Since(began).Milliseconds()
	unread, _ := errors.AsType[*answerError](workErr)
	unstarted, _ := errors.AsType[*NotStartedError](workErr)
	switch cause := context.Cause(running); {
	case unread != nil && unread.lost():
		res.Reason = ledger.ReasonInterrupted
		res.Error = fmt.Sprintf("The run was interrupted, and could not go on from what it had called: the answer to call %d is damaged, or no longer in the blob store.", unread.number)
		return a.complete(run, events.StatusFailed, res)
	case cause == nil && (unread != nil || unstarted != nil && a.r.failures.count(a.plan.Request.Seq) < maxUnstarted):
		// It costs no attempt: the runner did not die.
		var reason string
		if unread != nil {
			reason = unread.Error()
		} else {
			reason = unstarted.reason()
		}
		if err := a.r.opts.Ledger.HandBack(a.records, run, reason); err != nil {
			return fmt.Errorf("hand the run back: %w", err)
		}
		return fmt.Errorf("run the script: %w", workErr)
	case errors.Is(workErr, errDiverged):
		res.Reason, res.Error = ledger.ReasonInterrupted, "The run was interrupted, and could not go on from what it had called: "+workErr.Error()
		return a.complete(run, events.StatusFailed, res)
	case errors.Is(cause, errCancelled):
		return a.complete(run, events.StatusCancelled, res)
	case errors.Is(cause, errTimedOut):
		return a.complete(run, events.StatusTimedOut, res)
	case errors.Is(cause, errDraining):
		return a.handBack(run)
	default:
		return fmt.Errorf("run the script: %w", workErr)
	}
}

func (a *attempt) task(timeout time.Duration, x *exchange) Task {
	req := a.plan.Request
	heapLimit := int64(req.Limits.HeapMemoryMaxMB) << 20
	t := Task{
		Tenant:         req.Tenant,
		Session:        req.SessionID,
		Code:           a.in.code,
		FileName:       req.FileName,
		Heap:           a.in.heap,
		Stateful:       req.Stateful,
		HeapLimitBytes: heapLimit,
		// Array buffers live outside V8's heap; they get as much again.
		ArrayBufferLimitBytes: heapLimit,
		Timeout:               timeout,
		Seed:                  a.plan.Seed,
		Start:                 a.plan.StartTime,
		Globals:               a.in.globals,
		HideNames:             req.KeyID() != "",
		ReserveHeap:           a.memory.Reserve,
		HeapSent: func() {
			a.in.heap, a.in.code = nil, nil
			a.memory.Release()
		},
	}
	if x != nil {
		t.Servers, t.Host = a.in.callable, x
	}
	return t
}

// handBack gives a run that outlasted the draining to the next runner.
func (a *attempt) handBack(run *ledger.Run) error {
	if err := a.r.opts.Ledger.HandBack(a.records, run, errDraining.Error()); err != nil {
		return fmt.Errorf("hand the run back: %w", err)
	}
	return errHandedBack
}

// future is a value or an error that is set once, and waited for by any
// number.
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
