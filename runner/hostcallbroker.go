package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// exchange carries out what one attempt's script calls: each call is on record
// before it leaves, each answer before the script gets it, in the order in which
// it does. It also is the script's clock while calls are pending: of an answer and
// a timer the earlier one is first, and what it once said about that it keeps to.
type exchange struct {
	request ledger.Request
	servers Servers
	log     HostLog
	start   *future[*ledger.Run]
	records context.Context // for what is recorded
	began   time.Time
	origin  time.Time // the script's time at began
	calling sync.WaitGroup
	over    context.Context // ends with the script
	end     context.CancelFunc

	// last is closed once the newest call is on record, or never will be: they are
	// recorded in the order of their numbers. Only of Call.
	last chan struct{}

	recording sync.Mutex // held while an event about calls is appended: they share a position

	mu      sync.Mutex // guards what follows
	feed    *feed
	changed chan struct{} // closed, and replaced, at every change
	ready   []readyAnswer // recorded, not yet with the script
	given   func()        // gives back the memory of the answer that the script got last
	stamped time.Time     // of the answer that is being recorded; zero without one
	floor   time.Time     // no later answer is from before it
	err     error         // why calls can no longer be recorded
}

// readyAnswer is an answer that the script has yet to get. release gives back its
// memory.
type readyAnswer struct {
	HostAnswer
	release func()
}

func newExchange(a *attempt) *exchange {
	over, end := context.WithCancel(a.records)
	return &exchange{
		over: over, end: end,
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
	before, done := x.last, make(chan struct{})
	x.last = done
	c := ledger.HostCall{Number: number, Server: server, Tool: tool, Arguments: arguments}
	x.calling.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(x.over, cancel)()
		var run *ledger.Run
		err := guard(func() (err error) {
			run, err = x.recordCall(ctx, before, c)
			return err
		})
		if err != nil {
			x.fail(err) // before the next call looks
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

// recordCall records a call after the one before it. Without a run it is not on
// record, and never will be: the script has ended, or recording has failed.
func (x *exchange) recordCall(ctx context.Context, before <-chan struct{}, c ledger.HostCall) (*ledger.Run, error) {
	run, err := x.start.get(x.records)
	if err != nil {
		return nil, err
	}
	if before != nil {
		<-before
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

// carry makes a call that is on record, and records its answer.
func (x *exchange) carry(ctx context.Context, run *ledger.Run, c ledger.HostCall) error {
	began := time.Now()
	r := x.servers.Call(ctx, x.request, c)
	release := r.Release
	if release == nil {
		release = func() {}
	}
	if ctx.Err() != nil {
		// The run ended first. Whatever came, no script gets it.
		release()
		r, release = ServerResult{Outcome: events.HostCancelled, Text: []byte("the run ended first")}, func() {}
	}
	kept := false
	defer func() {
		if !kept {
			release()
		}
	}()
	var err error
	kept, err = x.recordReturn(run, ledger.HostReturn{Number: c.Number, Outcome: r.Outcome, Duration: time.Since(began), Result: r.Text}, release)
	return err
}

// recordReturn records an answer and has it ready for the script. It reports whether
// it is: then release is called once the script has it.
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

// stamp decides the script's time of the next answer.
func (x *exchange) stamp() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	at := later(wholeMillis(x.now()), x.floor)
	x.floor, x.stamped = at, at
	x.announce()
	return at
}

// now is the script's time. It needs the lock.
func (x *exchange) now() time.Time { return x.origin.Add(time.Since(x.began)) }

// reach moves the script's time forward to at, if it stands before it: answers on
// record are given without waiting. It needs the lock.
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

// wholeMillis rounds up: events keep milliseconds.
func wholeMillis(t time.Time) time.Time {
	if whole := t.Truncate(time.Millisecond); whole.Before(t) {
		return whole.Add(time.Millisecond)
	}
	return t
}

// announce wakes who waits for a change. It needs the lock.
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
		a, known, changed, err := x.look(ctx, due)
		if known || err != nil {
			return a, err
		}
		if !x.wait(ctx, due, changed) {
			return HostAnswer{}, context.Cause(ctx)
		}
	}
}

// look returns what the script is to be told, if that is known already.
func (x *exchange) look(ctx context.Context, due time.Time) (a HostAnswer, known bool, changed <-chan struct{}, err error) {
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
		x.ready[0] = readyAnswer{} // drops the text from memory
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

// releaseGiven gives back the memory of the answer that the script has got: it asks for
// the next one. The caller must hold mu.
func (x *exchange) releaseGiven() {
	if x.given != nil {
		x.given()
		x.given = nil
	}
}

// wait returns when something changed or due is reached, and false when ctx ended.
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

// close waits until no call is under way and everything about them is on record.
// The script has ended: what is still under way is given up. The error is why
// something could not be recorded.
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
		return fmt.Errorf("record what the script calls: %w", x.err)
	}
	return nil
}
