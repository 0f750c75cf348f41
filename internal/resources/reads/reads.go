// Package reads divides the processor time for heavy reads: lists, logs, exports,
// proofs, blobs and all other reads that cost far more than their request.
//
// A Gate lets one heavy read of each tenant run at a time, and few of all tenants, so
// that runs keep their share of the processors. The reads of a tenant wait in a queue.
// While some wait, the tenant's reads use at most half of the time: each one is
// followed by a pause as long as it took, up to one second.
//
// A read holds its permit while it computes, and not while its client receives the
// answer: it yields the permit before it writes, and takes it again for the next piece.
// So slow clients do not affect others. reads.go is the only file.
package reads

import (
	"container/list"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Options configures a Gate.
type Options struct {
	// Running is the number of heavy reads of all tenants that run at the same time.
	// Default: half of the processors, at least 1.
	Running int
	// Waiting is the number of reads of one tenant that may wait. Further ones are
	// refused. Default: 256.
	Waiting int
	// Patience is the maximum time that a read waits for its first permit. Default: 45
	// s, less than most clients and proxies wait for an answer.
	Patience time.Duration
}

// holdTime is the time after which another tenant's read may run beside a long one.
const holdTime = 250 * time.Millisecond

// maxPause bounds the pause between two reads of a tenant.
const maxPause = time.Second

// Gate limits heavy reads. It is safe for concurrent use and needs no closing.
type Gate struct {
	opts Options

	mu      sync.Mutex
	running int               // guarded by mu; permits that count against Options.Running
	waiting int               // guarded by mu
	refused int64             // guarded by mu
	tenants map[string]*queue // guarded by mu; tenants with reads
	ready   list.List         // guarded by mu; the *queue with reads that may run next, in order
}

// queue holds the reads of a tenant.
type queue struct {
	tenant  string
	busy    bool      // a read runs, or the pause after one
	ready   bool      // in Gate.ready
	waiting list.List // of *waiter
}

// waiter is a read that waits for a permit.
type waiter struct {
	permit  *Permit
	granted chan struct{} // closed by Gate.dispatch
}

// New returns a Gate.
func New(o Options) *Gate {
	if o.Running <= 0 {
		o.Running = max(runtime.GOMAXPROCS(0)/2, 1)
	}
	if o.Waiting <= 0 {
		o.Waiting = 256
	}
	if o.Patience <= 0 {
		o.Patience = 45 * time.Second
	}
	return &Gate{opts: o, tenants: map[string]*queue{}}
}

// RetryAfter is the retry time for a refused client.
const RetryAfter = 2 * time.Second

// BusyError is returned if a tenant has too many heavy reads.
type BusyError struct {
	// Waiting is the number of the tenant's waiting reads.
	Waiting int
}

// Error returns a message that says what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("answer the request: %d heavy reads of this tenant wait, and they run one after the other; try again in %.0f s, with fewer at once",
		e.Waiting, RetryAfter.Seconds())
}

// Permit is the permission of one request to run its heavy reads. It is not safe for
// concurrent use. A nil Permit permits everything.
type Permit struct {
	gate   *Gate
	tenant string
	// Guarded by gate.mu.
	wasHeld   bool // whether the permit is held or was held before
	isHeldNow bool
	isCounted bool // in gate.running
	since     time.Time
	timer     *time.Timer // calls uncount
}

// Permit returns a permit for a request of a tenant. The permit is not held yet. The
// caller MUST call Yield at the end of the request.
func (g *Gate) Permit(tenant string) *Permit {
	if g == nil {
		return nil
	}
	return &Permit{gate: g, tenant: tenant}
}

// Enter takes a permit for one piece of a long answer, such as a stream, and returns a
// context that carries it. It waits as long as ctx allows. The caller MUST call leave.
// If ctx carries a held permit, Enter does nothing.
func (g *Gate) Enter(ctx context.Context, tenant string) (inside context.Context, leave func(), err error) {
	if p := From(ctx); p.isHeld() {
		return ctx, func() {}, nil
	}
	p := g.Permit(tenant)
	if err := p.take(ctx, false); err != nil {
		return nil, nil, err
	}
	return With(ctx, p), p.Yield, nil
}

// Take waits for the permit unless it is held. A request that never held it is refused
// with a *BusyError after Options.Patience, or if too many reads of its tenant wait. A
// request that held it before has an answer to finish, and waits as long as ctx allows.
func (p *Permit) Take(ctx context.Context) error { return p.take(ctx, true) }

// Continue takes the permit again after Yield. For a request that never held it,
// Continue does nothing.
func (p *Permit) Continue(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.gate.mu.Lock()
	admitted := p.wasHeld
	p.gate.mu.Unlock()
	if !admitted {
		return nil
	}
	return p.take(ctx, false)
}

func (p *Permit) take(ctx context.Context, bounded bool) error {
	if p == nil {
		return nil
	}
	g := p.gate
	g.mu.Lock()
	if p.isHeldNow {
		g.mu.Unlock()
		return nil
	}
	q := g.tenants[p.tenant]
	if q == nil {
		q = &queue{tenant: p.tenant}
		g.tenants[p.tenant] = q
	}
	bounded = bounded && !p.wasHeld
	if n := q.waiting.Len(); bounded && n >= g.opts.Waiting {
		g.refused++
		g.mu.Unlock()
		return &BusyError{Waiting: n}
	}
	w := &waiter{permit: p, granted: make(chan struct{})}
	place := q.waiting.PushBack(w)
	g.waiting++
	g.markReady(q)
	g.dispatch()
	held := p.isHeldNow
	g.mu.Unlock()
	if held {
		return nil
	}
	var late <-chan time.Time
	if bounded {
		timer := time.NewTimer(g.opts.Patience)
		defer timer.Stop()
		late = timer.C
	}
	var err error
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.isHeldNow { // granted meanwhile
		if err != nil {
			p.yield()
		}
		return err
	}
	if err == nil {
		g.refused++
		err = &BusyError{Waiting: q.waiting.Len()}
	}
	q.waiting.Remove(place)
	g.waiting--
	g.forget(q)
	return err
}

// Yield returns the permit. It MAY be called when the permit is not held.
func (p *Permit) Yield() {
	if p == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.yield()
}

// yield is Yield. The caller must hold gate.mu.
func (p *Permit) yield() {
	if !p.isHeldNow {
		return
	}
	g, q := p.gate, p.gate.tenants[p.tenant]
	p.isHeldNow = false
	p.uncount()
	if q.waiting.Len() > 0 {
		time.AfterFunc(min(time.Since(p.since), maxPause), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.endRead(q)
		})
		g.dispatch()
		return
	}
	g.endRead(q)
}

// endRead lets the next read of a tenant run. The caller must hold mu.
func (g *Gate) endRead(q *queue) {
	q.busy = false
	g.markReady(q)
	g.dispatch()
	g.forget(q)
}

// markReady adds a tenant with waiting reads to ready. The caller must hold mu.
func (g *Gate) markReady(q *queue) {
	if q.busy || q.ready || q.waiting.Len() == 0 {
		return
	}
	q.ready = true
	g.ready.PushBack(q)
}

// dispatch grants permits, to one tenant after the other. The caller must hold mu.
func (g *Gate) dispatch() {
	for g.running < g.opts.Running && g.ready.Len() > 0 {
		q := g.ready.Remove(g.ready.Front()).(*queue)
		q.ready = false
		if q.waiting.Len() == 0 { // its reads left the queue
			g.forget(q)
			continue
		}
		w := q.waiting.Remove(q.waiting.Front()).(*waiter)
		g.waiting--
		g.running++
		q.busy = true
		p := w.permit
		p.isHeldNow, p.wasHeld, p.isCounted, p.since = true, true, true, time.Now()
		p.timer = time.AfterFunc(holdTime, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if p.isHeldNow && time.Since(p.since) >= holdTime {
				p.uncount()
				g.dispatch()
			}
		})
		close(w.granted)
	}
}

// uncount ends the count of the permit against Options.Running, so that another read can
// run. The caller must hold gate.mu.
func (p *Permit) uncount() {
	if !p.isCounted {
		return
	}
	p.timer.Stop()
	p.isCounted = false
	p.gate.running--
}

// forget drops a tenant without reads. The caller must hold mu.
func (g *Gate) forget(q *queue) {
	if !q.busy && !q.ready && q.waiting.Len() == 0 && g.tenants[q.tenant] == q {
		delete(g.tenants, q.tenant)
	}
}

func (p *Permit) isHeld() bool {
	if p == nil {
		return false
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	return p.isHeldNow
}

// Stats is the state of a Gate.
type Stats struct {
	// Running and Waiting count the current heavy reads.
	Running, Waiting int
	// Refused counts the refused ones.
	Refused int64
}

// Stats returns the current state.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{Running: g.running, Waiting: g.waiting, Refused: g.refused}
}

type permitKey struct{}

// With returns a context that carries a permit.
func With(ctx context.Context, p *Permit) context.Context {
	return context.WithValue(ctx, permitKey{}, p)
}

// From returns the permit that ctx carries, or nil.
func From(ctx context.Context) *Permit {
	p, _ := ctx.Value(permitKey{}).(*Permit)
	return p
}

// Pass lets other reads of the tenant run if the permit in ctx was held for holdTime or
// longer. A read that computes long and writes little calls it between two pieces.
func Pass(ctx context.Context) error {
	p := From(ctx)
	if p == nil {
		return nil
	}
	g := p.gate
	g.mu.Lock()
	pass := p.isHeldNow && g.tenants[p.tenant].waiting.Len() > 0 && time.Since(p.since) >= holdTime
	if pass {
		p.yield()
	}
	g.mu.Unlock()
	if !pass {
		return nil
	}
	return p.take(ctx, false)
}

// RetryFunc returns a function for repeated calls of fn, as by budget.Retry. The permit
// in ctx is not held between the calls.
func RetryFunc(ctx context.Context, fn func() error) func() error {
	p := From(ctx)
	if p == nil {
		return fn
	}
	return func() error {
		if err := p.Continue(ctx); err != nil {
			return err
		}
		err := fn()
		if err != nil {
			p.Yield()
		}
		return err
	}
}

// Wait calls fn without the permit in ctx, and takes the permit again if it was held.
// It is for an fn that waits for something other than the processor.
func Wait(ctx context.Context, fn func() error) error {
	p := From(ctx)
	if !p.isHeld() {
		return fn()
	}
	p.Yield()
	if err := fn(); err != nil {
		return err
	}
	return p.take(ctx, false)
}

// ReportWait reports that the read waited until now without using the processor, while it
// held the permit in ctx. The pause after the read then depends only on the time from
// now on.
func ReportWait(ctx context.Context) {
	p := From(ctx)
	if p == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.since = time.Now()
	if p.isCounted {
		p.timer.Reset(holdTime) // its function reads since
	}
}
