package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long a worker has to end a run by itself once told to, before it is killed.
const (
	timeoutGrace = 300 * time.Millisecond
	cancelGrace  = 500 * time.Millisecond
)

// handover is how long a worker that served before may have the memory of the run before:
// it reports a run before it takes that down.
const handover = time.Second

// errNotAccepted reports a worker that died before it started the task, for another
// reason than that the task takes too much memory: it can be given to another worker.
var errNotAccepted = errors.New("worker died before it took the task")

// watch ends a run from outside: by its timeout, its context, or its own side.
type watch struct {
	p *process

	mu       sync.Mutex // guards what follows
	over     bool       // the run has its outcome; nothing ends it any more
	timedOut bool
	cause    error
	spent    bool // the worker was killed, or the request to stop is cut off within the pipe
	unsent   bool // the pipe was in use when the worker was to be asked to stop
	// onEnd ends the contexts of the run's calls and of its output.
	onEnd  func()
	timers []*time.Timer
}

func (w *watch) after(d time.Duration, f func()) {
	w.timers = append(w.timers, time.AfterFunc(d, f))
}

// end asks the worker to stop and kills it after grace. The first reason wins. The
// lock is held throughout: after finish neither the request nor the kill can meet the
// worker's next run.
func (w *watch) end(cause error, timedOut bool, grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.timedOut || w.cause != nil {
		return
	}
	w.cause, w.timedOut = cause, timedOut
	w.after(grace, w.kill)
	if w.onEnd != nil {
		w.onEnd()
	}
	w.ask()
}

// repeat asks once more when the task was sent. A request that came before it is taken
// for one of the previous run, and none is made while the task is being sent.
func (w *watch) repeat() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timedOut || w.cause != nil {
		w.ask()
	}
}

// answered asks if an answer to a call was in the way of the request.
func (w *watch) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unsent {
		w.ask()
	}
}

// ask asks the worker to end its run. The caller must hold mu.
func (w *watch) ask() {
	sent, err := w.p.terminate()
	w.unsent = !sent
	if err != nil {
		w.spent = true
	}
}

// kill kills the worker unless the run has its outcome.
func (w *watch) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.spent = true
		w.p.kill()
	}
}

// finish closes the window in which the run can be ended from outside, and says
// whether it was, and whether the worker is spent.
func (w *watch) finish() (timedOut bool, cause error, spent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, t := range w.timers {
		t.Stop()
	}
	return w.timedOut, w.cause, w.spent
}

// perform runs the task on p. clean reports whether p may serve again. With an error the
// outcome has only what the run cost and what the task's heap brought along.
func (p *process) perform(ctx context.Context, t *Task, lines func(context.Context, []Line) error) (o Outcome, clean bool, err error) {
	started := time.Now()
	w := &watch{p: p}
	// Calls and output stop to wait when the run is stopped: a worker whose pipe is full
	// does not stop. Calls end first, so none is made after output that was refused.
	hostCtx, endHost := context.WithCancel(ctx)
	defer endHost()
	lineCtx, endLines := context.WithCancel(context.WithoutCancel(ctx))
	defer endLines()
	w.mu.Lock()
	w.onEnd = func() { endHost(); endLines() }
	w.after(t.Timeout, func() { w.end(nil, true, timeoutGrace) })
	w.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { w.end(context.Cause(ctx), false, cancelGrace) })
	defer stop()

	clock := p.startCPUClock()
	c := frameChecker{maxHeap: t.maxHeap(), resumes: len(t.Heap) > 0, hideNames: t.HideNames, calls: calls{servers: t.Servers}}
	p.from.room = c.payloadBuffer
	defer func() { p.from.room = nil }()
	p.boundMemory(w, t.maxResident())
	defer p.memory.limit.Store(0)
	err = p.send(t)
	w.repeat()
	// While the worker is at work: new memory has to be cleared.
	c.expectHeap(p.lastHeap)
	reserved, discard := false, false
	for err == nil && !c.complete {
		var ft frameType
		var payload []byte
		if ft, payload, err = p.from.next(); err != nil {
			break
		}
		var got []Line
		if got, err = c.take(ft, payload); err != nil {
			break
		}
		if c.accepted && t.HeapSent != nil {
			t.Heap, t.Code = nil, nil
			t.HeapSent()
			t.HeapSent = nil
		}
		if c.ended && !reserved {
			reserved = true
			err = c.reserveHeap(lineCtx, t.ReserveHeap)
			if err != nil && lineCtx.Err() != nil {
				c.discardHeap() // the run was stopped: its heap is not kept
				err = nil
			}
			if err != nil {
				w.end(err, false, 0)
				break
			}
		}
		if len(got) > 0 && !discard {
			if err := lines(lineCtx, got); err != nil {
				discard = true // the recorded output has no gap
				w.end(fmt.Errorf("take output: %w", err), false, cancelGrace)
			}
		}
		if t.Host != nil && hostCtx.Err() == nil {
			if err := p.carry(hostCtx, &c, t.Host); err != nil {
				w.end(fmt.Errorf("carry out what the script calls: %w", err), false, cancelGrace)
			}
			w.answered()
		}
	}
	p.lastHeap = c.end.HeapSize
	timedOut, cause, spent := w.finish()
	// A worker that stopped when it was asked to is as good as any other. One that broke
	// the rules at its end is not.
	stopped := err == nil && c.stopped() && !spent
	p.runs++
	defer func() {
		o.WallTime = time.Since(started)
		o.CPUTime, o.PeakHeapBytes = c.cost(clock, p.reportedPeak)
		var warnings []string
		o.Pristine, warnings = c.carriedOutcome()
		o.Warnings = append(warnings, o.Warnings...)
	}()

	switch {
	case cause != nil:
		return Outcome{}, stopped, cause
	case timedOut:
		o := Outcome{Status: StatusTimedOut, Reason: ReasonTimeout, Error: timedOutText}
		if c.complete {
			o.Warnings, o.TranspiledSHA256 = c.end.Warnings, c.end.TranspiledSHA256
		}
		return o, stopped, nil
	case err == nil:
		return c.outcome(), c.reusable(), nil
	case errors.Is(err, errProtocol):
		p.kill()
		return Outcome{Status: StatusFailed, Reason: ReasonProtocol, Error: upperFirst(err.Error())}, false, nil
	}

	// The pipe broke: the process is dying, or has closed it by itself.
	p.kill()
	<-p.dead
	p.waiting.Wait()
	lacksMemory := p.ranOutOfMemory() || p.memory.killedAt.Load() > 0
	// In a worker that served before, the memory may be that of the run before.
	if !c.accepted && (!lacksMemory || p.runs > 1) {
		return Outcome{}, false, fmt.Errorf("%w: %s", errNotAccepted, p.exitReason())
	}
	o = Outcome{Status: StatusFailed, Reason: ReasonWorkerDied, Error: "The worker process died: " + p.exitReason()}
	switch {
	case p.ranOutOfMemory():
		o.Reason, o.Error = ReasonOutOfMemory, outOfMemoryText
	case p.diedOfErrors():
		o.Reason, o.Error = ReasonUnserializableHeap, linkedErrorsText
	case p.diedOnLongString():
		o.Reason, o.Error = ReasonUnserializableHeap, longStringText
	}
	if used := p.memory.killedAt.Load(); used > 0 {
		o.Reason = ReasonOutOfMemory
		o.Error = fmt.Sprintf("Out of memory: the worker process used %d MiB, and %d MiB are allowed at this heap limit. Try increasing heap_memory_max_mb.", used>>20, t.maxResident()>>20)
	}
	if call, ok := p.sandboxViolation(); ok {
		o.Reason, o.Error = ReasonSandboxViolation, "sandbox violation: "+call
	}
	return o, false, nil
}
