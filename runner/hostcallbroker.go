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
type exchange struct {
	request ledger.Request
	servers Servers
	log     HostLog
	start   *future[*ledger.Run]
	records context.Context // for recording
	began   time.Time
	origin  time.Time // the script's time at startedAt
	calling sync.WaitGroup
	over    context.Context // ends with the script
	end     context.CancelFunc

	// lastCallDone is closed once the newest call is recorded or never will be: calls
	// are recorded in the order of their numbers. Used by Call only.
	last chan struct{}

	recording sync.Mutex // held while an event about calls is appended: they share an expected position

	mu      sync.Mutex // guards the fields below
	feed    *feed
	changed chan struct{} // closed and replaced at every change
	ready   []readyAnswer // recorded, not yet received by the script
	given   func()        // releases the memory of the answer that the script received last
	stamped time.Time     // time of the answer that is being recorded; zero for none
	floor   time.Time     // no later answer has an earlier time
	err     error         // why calls can no longer be recorded
}

// readyAnswer is an answer that the script has not received yet. release returns its
// memory.
type readyAnswer struct {
	HostAnswer
	release func()
}

func newExchange(a *attempt) *exchange {
	callCtx, cancelCalls := context.WithCancel(a.records)
	return &exchange{
		over: callCtx, end: cancelCalls,
		request: a.plan.Request, servers: a.r.opts.Servers, log: a.r.opts.Ledger, start: &a.start, records: a.records,
		began: time.Now(), origin: a.plan.StartTime, floor: a.plan.StartTime, feed: newFeed(a.plan.Calls), changed: make(chan struct{}),
	}
}

// Call implements Host.
func (x *exchange) Call(ctx context.Context, number int, server, tool string, arguments []byte) error {
	x.mu.Lock()
	recorded, err := x.feed.call(number, server, tool, arguments)
	if err == nil {
		err = x.err
	}
	x.mu.Unlock()
	if err != nil || recorded {
		return err
	}
	previous, done := x.last, make(chan struct{})
	x.last = done
	c := ledger.HostCall{Number: number, Server: server, Tool: tool, Arguments: arguments}
	x.calling.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(x.over, cancel)()
		var run *ledger.Run
		err := guard(func() (err error) {
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
		if err := guard(func() error { return x.carry(ctx, run, c) }); err != nil {
			x.fail(err)
		}
	})
	return nil
}

// recordCall records a call after the one before it. It returns no run if the call is
// not recorded and never will be: the script has ended, or recording has failed.
func (x *exchange) recordCall(ctx context.Context, previous <-chan struct{}, c ledger.HostCall) (*ledger.Run, error) {
	run, err := x.start.get(x.records)
	if err != nil {
		return nil, err
	}
	if previous != nil {
		<-previous
	}
	x.recording.Lock()
	defer x.recording.Unlock()
	if ctx.Err() != nil || x.failed() {
		return nil, nil
	}
	if err := x.log.RecordCall(x.records, run, c); err != nil {
		return nil, err
	}
	return run, nil
}

// perform makes a recorded call and records its answer.
func (x *exchange) carry(ctx context.Context, run *ledger.Run, c ledger.HostCall) error {
	startedAt := time.Now()
	r := x.servers.Call(ctx, x.request, c)
	release := r.Release
	if release == nil {
		release = func() {}
	}
	if ctx.Err() != nil {
		// The run ended first. No script receives the answer.
		release()
		r, release = ServerResult{Outcome: events.HostCancelled, Text: []byte("the run ended first")}, func() {}
	}
	isQueued := false
	defer func() {
		if !isQueued {
			release()
		}
	}()
	var err error
	isQueued, err = x.recordReturn(run, ledger.HostReturn{Number: c.Number, Outcome: r.Outcome, Duration: time.Since(startedAt), Result: r.Text}, release)
	return err
}

// recordReturn records an answer and queues it for the script. It reports whether it
// did; release is then called once the script has received the answer.
func (x *exchange) recordReturn(run *ledger.Run, a ledger.HostReturn, release func()) (ready bool, err error) {
	x.recording.Lock()
	defer x.recording.Unlock()
	a.AnsweredAt = x.stamp()
	err = x.log.RecordReturn(x.records, run, a)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stamped = time.Time{}
	if ready = err == nil && a.Outcome != events.HostCancelled; ready {
		x.ready = append(x.ready, readyAnswer{HostAnswer{Number: a.Number, OK: a.Outcome == events.HostOK, Text: a.Result, At: a.AnsweredAt}, release})
	}
	x.announce()
	return ready, err
}

// stampAnswer sets the script's time of the next answer.
func (x *exchange) stamp() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := later(wholeMillis(x.now()), x.floor)
	x.floor, x.stamped = at, at
	x.announce()
	return at
}

// scriptTime returns the script's time. The caller must hold mu.
func (x *exchange) now() time.Time { return x.origin.Add(time.Since(x.began)) }

// advanceClockTo moves the script's time forward to at, unless it is later already:
// recorded answers are returned without waiting. The caller must hold mu.
func (x *exchange) reach(at time.Time) {
	if now := x.now(); at.After(now) {
		x.origin = x.origin.Add(at.Sub(now))
	}
	x.floor = later(x.floor, wholeMillis(at))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ceilToMillis rounds up: events store milliseconds.
func wholeMillis(t time.Time) time.Time {
	if truncated := t.Truncate(time.Millisecond); truncated.Before(t) {
		return truncated.Add(time.Millisecond)
	}
	return t
}

// notifyChange wakes the waiters for a change. The caller must hold mu.
func (x *exchange) announce() {
	close(x.changed)
	x.changed = make(chan struct{})
}

func (x *exchange) failed() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.err != nil
}

func (x *exchange) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err == nil {
		x.err = err
	}
	x.announce()
}

// Next implements Host.
func (x *exchange) Next(ctx context.Context, due time.Time) (HostAnswer, error) {
	for {
		a, isKnown, changed, err := x.look(ctx, due)
		if isKnown || err != nil {
			return a, err
		}
		if !x.wait(ctx, due, changed) {
			return HostAnswer{}, context.Cause(ctx)
		}
	}
}

// decideNext returns the next answer or timer for the script, if that is known.
func (x *exchange) look(ctx context.Context, due time.Time) (a HostAnswer, isKnown bool, changed <-chan struct{}, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.releaseGiven()
	if a, ok, err := x.feed.next(ctx, due); ok || err != nil {
		at := a.At
		if a.Number == 0 {
			at = due
		}
		x.reach(at)
		return a, true, nil, err
	}
	tick := func(at time.Time) bool { return !due.IsZero() && !due.After(at) }
	switch {
	case len(x.ready) > 0 && !tick(x.ready[0].At):
		next := x.ready[0]
		x.ready[0] = readyAnswer{} // frees the text
		x.ready, x.given = x.ready[1:], next.release
		return next.HostAnswer, true, nil, nil
	case len(x.ready) > 0:
		return HostAnswer{}, true, nil, nil
	case x.err != nil:
		return HostAnswer{}, false, nil, x.err
	case !x.stamped.IsZero():
		return HostAnswer{}, tick(x.stamped), x.changed, nil
	case tick(x.now()):
		x.floor = later(x.floor, wholeMillis(due))
		return HostAnswer{}, true, nil, nil
	}
	return HostAnswer{}, false, x.changed, nil
}

// releaseDelivered releases the memory of the last answer: the script asks for the next
// one, so it no longer needs it. The caller must hold mu.
func (x *exchange) releaseGiven() {
	if x.given != nil {
		x.given()
		x.given = nil
	}
}

// wait blocks until a change or until due. It reports false if ctx ended.
func (x *exchange) wait(ctx context.Context, due time.Time, changed <-chan struct{}) bool {
	var reached <-chan time.Time
	if !due.IsZero() {
		x.mu.Lock()
		left := due.Sub(x.now())
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
func (x *exchange) close() error {
	if x == nil {
		return nil
	}
	x.end()
	x.calling.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.releaseGiven()
	for _, a := range x.ready {
		a.release()
	}
	x.ready = nil
	if x.err != nil {
		return fmt.Errorf("record the calls of the script: %w", x.err)
	}
	return nil
}
