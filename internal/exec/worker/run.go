package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/runner"
)

// How long a worker may take to end a run after it was asked to. Then it is killed.
const (
	timeoutGrace = 300 * time.Millisecond
	cancelGrace  = 500 * time.Millisecond
)

// handover is how long a worker that served before may keep the memory of its previous run.
// It reports the end of a run before it disposes of the isolate.
const handover = time.Second

// errNotAccepted is returned when a worker died before it started the task, unless the
// task takes too much memory. Another worker can run the task.
var errNotAccepted = errors.New("worker died before it took the task")

// runWatch stops a run when its time limit has passed, when its context is done or when
// the parent fails to process what the worker sends.
type runWatch struct {
	p *process

	mu            sync.Mutex // guards the fields below
	isFinished    bool       // the outcome is known; the run cannot be stopped after that
	timedOut      bool
	cause         error
	isWorkerSpent bool // the worker was killed, or a part of a request to stop is in the pipe
	isUnsent      bool // the request to stop was not sent, because the pipe was in use
	// onEnd cancels the contexts of the host calls and of the output of the run.
	onEnd  func()
	timers []*time.Timer
}

func (w *runWatch) after(d time.Duration, f func()) {
	w.timers = append(w.timers, time.AfterFunc(d, f))
}

// stopRun asks the worker to stop and kills it after grace. The first cause is kept. It
// holds mu during the request, so that after finish neither the request nor the kill can
// reach the next run of the worker.
func (w *runWatch) stopRun(cause error, timedOut bool, grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isFinished || w.timedOut || w.cause != nil {
		return
	}
	w.cause, w.timedOut = cause, timedOut
	w.after(grace, w.kill)
	if w.onEnd != nil {
		w.onEnd()
	}
	w.requestStop()
}

// repeatRequest repeats the request to stop when the task was sent. The worker takes a
// request that arrives before the task as one for the previous run, and while the task is
// being sent no request is made.
func (w *runWatch) repeatRequest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timedOut || w.cause != nil {
		w.requestStop()
	}
}

// sendUnsent sends the request to stop if an answer to a host call blocked it.
func (w *runWatch) sendUnsent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isUnsent {
		w.requestStop()
	}
}

// requestStop asks the worker to end its run. The caller must hold w.mu.
func (w *runWatch) requestStop() {
	sent, err := w.p.terminate()
	w.isUnsent = !sent
	if err != nil {
		w.isWorkerSpent = true
	}
}

// kill kills the worker unless the outcome is known.
func (w *runWatch) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isFinished {
		w.isWorkerSpent = true
		w.p.kill()
	}
}

// finish marks the outcome as known: the run cannot be stopped after that. It returns
// whether its timeout stopped the run, otherwise the cause for which it was stopped (nil if
// it was not), and whether the worker cannot be used again.
func (w *runWatch) finish() (timedOut bool, cause error, spent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isFinished = true
	for _, t := range w.timers {
		t.Stop()
	}
	return w.timedOut, w.cause, w.isWorkerSpent
}

// perform runs the task on p. clean reports whether p may be used again. With an error the
// outcome has only the times and the peak heap of the run, and the report on the input heap.
func (p *process) perform(ctx context.Context, t *runner.Task, plan heapPlan, lines func(context.Context, []events.Line) error) (o runner.Outcome, clean bool, err error) {
	started := time.Now()
	w := &runWatch{p: p}
	// Host calls and output stop waiting when the run is stopped, because a worker whose
	// pipe is full does not stop. Host calls end first, so that none is made after output
	// that was discarded.
	hostCtx, endHost := context.WithCancel(ctx)
	defer endHost()
	lineCtx, endLines := context.WithCancel(context.WithoutCancel(ctx))
	defer endLines()
	w.mu.Lock()
	w.onEnd = func() { endHost(); endLines() }
	w.after(t.Timeout, func() { w.stopRun(nil, true, timeoutGrace) })
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { w.stopRun(context.Cause(ctx), false, cancelGrace) })
	defer stop()

	clock := p.startCPUClock()
	c := frameChecker{maxHeap: maxHeap(t), listsGlobals: t.ListGlobals, hasInputHeap: len(t.Heap) > 0 && !t.ListGlobals, hideNames: t.HideNames, calls: calls{servers: t.Servers}, timers: timers{isAsked: t.OnTimer != nil}, offersModules: t.Modules != nil, bundles: len(t.Bundle) > 0}
	p.from.allocate = c.payloadBuffer
	defer func() { p.from.allocate = nil }()
	resident := maxResident(t)
	p.boundMemory(w, resident)
	defer p.memory.limit.Store(0)
	err = p.send(t, plan)
	w.repeatRequest()
	// The heap gets its memory here, while the worker runs, because clearing memory takes time.
	c.expectHeap(p.lastHeap)
	reserved, discard := false, false
	for err == nil && !c.isComplete {
		var ft frameType
		var payload []byte
		if ft, payload, err = p.from.next(); err != nil {
			break
		}
		var got []events.Line
		if got, err = c.take(ft, payload); err != nil {
			break
		}
		if c.accepted && t.OnHeapReceived != nil {
			t.Heap, t.Code, t.WASMModules = nil, nil, nil
			t.OnHeapReceived()
			t.OnHeapReceived = nil
		}
		if c.hasEnd && !reserved {
			reserved = true
			err = c.reserveHeap(lineCtx, t.ReserveHeap)
			if err != nil && lineCtx.Err() != nil {
				c.discardHeap() // the run was stopped: its heap is not kept
				err = nil
			}
			if err != nil {
				w.stopRun(err, false, 0)
				break
			}
		}
		if len(got) > 0 && !discard {
			if err := lines(lineCtx, got); err != nil {
				discard = true // later output would follow a gap
				w.stopRun(fmt.Errorf("process output: %w", err), false, cancelGrace)
			}
		}
		if fired := c.timers.fired; fired != nil && !discard {
			c.timers.fired = nil
			if err := t.OnTimer(*fired); err != nil {
				discard = true
				w.stopRun(fmt.Errorf("process a timer: %w", err), false, cancelGrace)
			}
		}
		if created := c.artifact; created != nil {
			c.artifact = nil
			if t.OnArtifact != nil && !discard {
				if err := t.OnArtifact(lineCtx, *created); err != nil {
					discard = true
					w.stopRun(fmt.Errorf("process an artifact: %w", err), false, cancelGrace)
				}
			}
		}
		if c.imports != nil && hostCtx.Err() == nil {
			if err := p.serveImports(hostCtx, &c, t.Modules); err != nil {
				w.stopRun(fmt.Errorf("provide the imported modules: %w", err), false, cancelGrace)
			}
			w.sendUnsent()
		}
		if t.Host != nil && hostCtx.Err() == nil {
			if err := p.serveHostCalls(hostCtx, &c, t.Host); err != nil {
				w.stopRun(fmt.Errorf("perform a host call: %w", err), false, cancelGrace)
			}
			w.sendUnsent()
		}
	}
	p.lastHeap = c.end.HeapSize
	timedOut, cause, spent := w.finish()
	// A worker that stopped when it was asked to may be used again. One that broke the
	// protocol at its end may not.
	stopped := err == nil && c.isStopReusable() && !spent
	p.runs++
	defer func() {
		o.WallTime = time.Since(started)
		o.CPUTime, o.PeakHeapBytes = c.cost(clock, p.reportedPeak)
		var warnings []string
		o.Pristine, warnings = c.carriedOutcome()
		o.Warnings = append(warnings, o.Warnings...)
		if c.isComplete { // also of a run that was stopped
			o.Nondeterministic = c.end.Nondeterministic
		}
	}()

	switch {
	case cause != nil:
		return runner.Outcome{}, stopped, cause
	case timedOut:
		o := runner.Outcome{Status: events.StatusTimedOut, Reason: runner.ReasonTimeout, Error: timedOutText}
		if c.isComplete {
			o.Warnings, o.TranspiledSHA256 = c.end.Warnings, c.end.TranspiledSHA256
		}
		return o, stopped, nil
	case err == nil:
		return c.outcome(), c.isReusable(), nil
	case errors.Is(err, errProtocol):
		p.kill()
		return runner.Outcome{Status: events.StatusFailed, Reason: runner.ReasonProtocol, Error: upperFirst(err.Error())}, false, nil
	}

	// The pipe broke: the process is dying or has closed it.
	p.kill()
	<-p.dead
	p.waiting.Wait()
	lacksMemory := p.ranOutOfMemory() || p.memory.killedAt.Load() > 0
	// In a worker that served before, the previous run may have used the memory.
	if !c.accepted && (!lacksMemory || p.runs > 1) {
		return runner.Outcome{}, false, fmt.Errorf("%w: %s", errNotAccepted, p.exitReason())
	}
	o = runner.Outcome{Status: events.StatusFailed, Reason: runner.ReasonWorkerDied, Error: "The worker process died: " + p.exitReason()}
	switch {
	case p.ranOutOfMemory() && t.Bundle != nil:
		o.Reason, o.Error = runner.ReasonOutOfMemory, bundleMemoryText
	case p.ranOutOfMemory():
		o.Reason, o.Error = runner.ReasonOutOfMemory, outOfMemoryText
	case p.diedOfUnreadStacks():
		o.Reason, o.Error = runner.ReasonUnserializableHeap, unreadStacksText
	case p.diedOnLongString():
		o.Reason, o.Error = runner.ReasonUnserializableHeap, longStringText
	}
	if used := p.memory.killedAt.Load(); used > 0 {
		o.Reason = runner.ReasonOutOfMemory
		o.Error = fmt.Sprintf("Out of memory: the worker process used %d MiB, and %d MiB are allowed at this heap limit. Try increasing heap_memory_max_mb.", used>>20, resident>>20)
		if t.Bundle != nil {
			o.Error = bundleMemoryText
		}
	}
	if call, ok := p.sandboxViolation(); ok {
		o.Reason, o.Error = runner.ReasonSandboxViolation, "sandbox violation: "+call
	}
	return o, false, nil
}
