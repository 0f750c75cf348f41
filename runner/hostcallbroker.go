package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// hostCallBroker performs the host calls of one attempt. It records each call before it
// sends it, and each answer before the script receives it, in the order in which the
// script receives them. It is also the script's clock while calls are pending: if an
// answer and a timer are both due, the earlier one comes first. A decision about that
// order is final.
type hostCallBroker struct {
	request     ledger.Request
	servers     Servers
	log         HostLog
	start       *future[*ledger.StartedAttempt]
	recordCtx   context.Context // for recording
	startedAt   time.Time
	clockOrigin time.Time // the script's time at startedAt
	calls       sync.WaitGroup
	callCtx     context.Context // ends with the script
	cancelCalls context.CancelFunc

	// lastCallDone is closed once the newest call is recorded or has failed: calls
	// are recorded in the order of their numbers. Used by Call only.
	lastCallDone chan struct{}

	recordMu *sync.Mutex // attempt.positionMu

	mu                sync.Mutex // guards the fields below
	replay            *recordedAnswers
	changeCh          chan struct{} // closed and replaced at every change
	readyAnswers      []readyAnswer // recorded, not yet received by the script
	releaseLastAnswer func()        // releases the memory of the answer that the script received last
	pendingAnswerTime time.Time     // time of the answer that is being recorded; zero for none
	minAnswerTime     time.Time     // no later answer has an earlier time
	err               error         // why calls can no longer be recorded
}

// readyAnswer is an answer that the script has not received yet. release returns its
// memory.
type readyAnswer struct {
	HostAnswer
	release func()
}

func newHostCallBroker(a *attempt) *hostCallBroker {
	callCtx, cancelCalls := context.WithCancel(a.recordCtx)
	return &hostCallBroker{
		callCtx: callCtx, cancelCalls: cancelCalls, recordMu: &a.positionMu,
		request: a.plan.Request, servers: a.r.opts.Servers, log: a.r.opts.Ledger, start: &a.start, recordCtx: a.recordCtx,
		startedAt: time.Now(), clockOrigin: a.plan.StartTime, minAnswerTime: a.plan.StartTime, replay: newRecordedAnswers(a.plan.Calls), changeCh: make(chan struct{}),
	}
}

// Call implements Host.
func (x *hostCallBroker) Call(ctx context.Context, number int, server, tool string, arguments []byte) error {
	x.mu.Lock()
	recorded, err := x.replay.matchCall(number, server, tool, arguments)
	if err == nil {
		err = x.err
	}
	x.mu.Unlock()
	if err != nil || recorded {
		return err
	}
	previous, done := x.lastCallDone, make(chan struct{})
	x.lastCallDone = done
	c := ledger.HostCall{Number: number, Server: server, Tool: tool, Arguments: arguments}
	x.calls.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(x.callCtx, cancel)()
		var run *ledger.StartedAttempt
		err := recoverPanic(func() (err error) {
			run, err = x.recordCall(ctx, previous, c)
			return err
		})
		if err != nil {
			x.fail(err) // before the next call checks
		}
		close(done)
		if run == nil {
			return
		}
		if err := recoverPanic(func() error { return x.perform(ctx, run, c) }); err != nil {
			x.fail(err)
		}
	})
	return nil
}

// recordCall records a call after the one before it. It returns no run if it does not
// record the call, because the script has ended or recording has failed.
func (x *hostCallBroker) recordCall(ctx context.Context, previous <-chan struct{}, c ledger.HostCall) (*ledger.StartedAttempt, error) {
	run, err := x.start.get(x.recordCtx)
	if err != nil {
		return nil, err
	}
	if previous != nil {
		<-previous
	}
	x.recordMu.Lock()
	defer x.recordMu.Unlock()
	if ctx.Err() != nil || x.hasFailed() {
		return nil, nil
	}
	if err := x.log.RecordCall(x.recordCtx, run, c); err != nil {
		return nil, err
	}
	return run, nil
}

// perform makes a recorded call and records its answer.
func (x *hostCallBroker) perform(ctx context.Context, run *ledger.StartedAttempt, c ledger.HostCall) error {
	startedAt := time.Now()
	r := x.servers.Call(ctx, x.request, c)
	release := r.Release
	if release == nil {
		release = func() {}
	}
	if ctx.Err() != nil {
		// The run ended first. No script receives the answer.
		release()
		r, release = ServerResult{Outcome: events.HostCancelled, Text: []byte("the run ended first"), Fetch: r.Fetch, Requests: r.Requests}, func() {}
	}
	isQueued := false
	defer func() {
		if !isQueued {
			release()
		}
	}()
	var err error
	isQueued, err = x.recordReturn(run, ledger.HostReturn{Number: c.Number, Outcome: r.Outcome, Duration: time.Since(startedAt), Result: r.Text, Fetch: r.Fetch, Requests: r.Requests}, release)
	return err
}

// recordReturn records an answer and queues it for the script. ready is true if it did
// both; release is then called once the script has received the answer.
func (x *hostCallBroker) recordReturn(run *ledger.StartedAttempt, a ledger.HostReturn, release func()) (ready bool, err error) {
	x.recordMu.Lock()
	defer x.recordMu.Unlock()
	a.AnsweredAt = x.stampAnswer()
	err = x.log.RecordReturn(x.recordCtx, run, a)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pendingAnswerTime = time.Time{}
	if ready = err == nil && a.Outcome != events.HostCancelled; ready {
		x.readyAnswers = append(x.readyAnswers, readyAnswer{HostAnswer{Number: a.Number, OK: a.Outcome == events.HostOK, Text: a.Result, At: a.AnsweredAt}, release})
	}
	x.notifyChange()
	return ready, err
}

// stampAnswer returns the time on the script's clock for the next answer, and keeps it
// as the earliest time of later ones.
func (x *hostCallBroker) stampAnswer() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := laterOf(ceilToMillis(x.scriptTime()), x.minAnswerTime)
	x.minAnswerTime, x.pendingAnswerTime = at, at
	x.notifyChange()
	return at
}

// scriptTime returns the script's time. The caller must hold mu.
func (x *hostCallBroker) scriptTime() time.Time { return x.clockOrigin.Add(time.Since(x.startedAt)) }

// advanceClockTo moves the script's time forward to at, unless it is later already:
// recorded answers are returned without waiting. The caller must hold mu.
func (x *hostCallBroker) advanceClockTo(at time.Time) {
	if now := x.scriptTime(); at.After(now) {
		x.clockOrigin = x.clockOrigin.Add(at.Sub(now))
	}
	x.minAnswerTime = laterOf(x.minAnswerTime, ceilToMillis(at))
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ceilToMillis rounds up: events store milliseconds.
func ceilToMillis(t time.Time) time.Time {
	if truncated := t.Truncate(time.Millisecond); truncated.Before(t) {
		return truncated.Add(time.Millisecond)
	}
	return t
}

// notifyChange wakes the waiters for a change. The caller must hold mu.
func (x *hostCallBroker) notifyChange() {
	close(x.changeCh)
	x.changeCh = make(chan struct{})
}

func (x *hostCallBroker) hasFailed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err != nil
}

func (x *hostCallBroker) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
	x.notifyChange()
}

// Next implements Host.
func (x *hostCallBroker) Next(ctx context.Context, due time.Time) (HostAnswer, error) {
	for {
		a, isKnown, changed, err := x.decideNext(ctx, due)
		if isKnown || err != nil {
			return a, err
		}
		if !x.wait(ctx, due, changed) {
			return HostAnswer{}, context.Cause(ctx)
		}
	}
}

// decideNext returns the next answer or timer for the script, if that is known. If not,
// it returns a channel that is closed at the next change.
func (x *hostCallBroker) decideNext(ctx context.Context, due time.Time) (a HostAnswer, isKnown bool, changed <-chan struct{}, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.releaseDelivered()
	if a, ok, err := x.replay.nextAnswer(ctx, due); ok || err != nil {
		at := a.At
		if a.Number == 0 {
			at = due
		}
		x.advanceClockTo(at)
		return a, true, nil, err
	}
	tick := func(at time.Time) bool { return !due.IsZero() && !due.After(at) }
	switch {
	case len(x.readyAnswers) > 0 && !tick(x.readyAnswers[0].At):
		next := x.readyAnswers[0]
		x.readyAnswers[0] = readyAnswer{} // frees the text
		x.readyAnswers, x.releaseLastAnswer = x.readyAnswers[1:], next.release
		return next.HostAnswer, true, nil, nil
	case len(x.readyAnswers) > 0:
		return HostAnswer{}, true, nil, nil
	case x.err != nil:
		return HostAnswer{}, false, nil, x.err
	case !x.pendingAnswerTime.IsZero():
		return HostAnswer{}, tick(x.pendingAnswerTime), x.changeCh, nil
	case tick(x.scriptTime()):
		x.minAnswerTime = laterOf(x.minAnswerTime, ceilToMillis(due))
		return HostAnswer{}, true, nil, nil
	}
	return HostAnswer{}, false, x.changeCh, nil
}

// releaseDelivered releases the memory of the last answer, which the script no longer
// needs when it requests the next one. The caller must hold mu.
func (x *hostCallBroker) releaseDelivered() {
	if x.releaseLastAnswer != nil {
		x.releaseLastAnswer()
		x.releaseLastAnswer = nil
	}
}

// wait blocks until a change or until due. It reports false if ctx ended.
func (x *hostCallBroker) wait(ctx context.Context, due time.Time, changed <-chan struct{}) bool {
	var reached <-chan time.Time
	if !due.IsZero() {
		x.mu.Lock()
		left := due.Sub(x.scriptTime())
		x.mu.Unlock()
		t := time.NewTimer(left)
		defer t.Stop()
		reached = t.C
	}
	select {
	case <-changed:
	case <-reached:
		if ctx.Err() == nil {
			return true
		}
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// close waits until no call is in progress and every event about calls is recorded. The
// script has ended, so calls in progress are cancelled. The error is why an event could
// not be recorded.
func (x *hostCallBroker) close() error {
	if x == nil {
		return nil
	}
	x.cancelCalls()
	x.calls.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.releaseDelivered()
	for _, a := range x.readyAnswers {
		a.release()
	}
	x.readyAnswers = nil
	if x.err != nil {
		return fmt.Errorf("record the calls of the script: %w", x.err)
	}
	return nil
}
