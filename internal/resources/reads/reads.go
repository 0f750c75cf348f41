// Package reads shares the processor time for heavy reads: lists, logs, exports,
// proofs, blobs and whatever else costs far more than the request for it.
//
// A Gate lets one heavy read of each tenant run at a time, and few of all tenants, so
// that runs keep their share of the processors. Reads of a tenant queue behind each
// other. While some wait, the tenant's reads use half of the time at most: the next
// one starts after as long a pause as the one before took.
//
// A read holds its permit while it computes, not while its client takes the answer:
// it yields the permit before it writes, and takes it again for the next piece. The
// number of slow clients has no influence on others.
package reads

import (
	"container/list"
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Options set up a Gate.
type Options struct {
	// Running is how many heavy reads of all tenants run at once. Default: half of
	// the processors, at least 1.
	Running int
	// Waiting is how many reads of one tenant wait before more are refused. Default:
	// 256.
	Waiting int
	// Patience is how long a read waits for its first permit before it is refused.
	// Default: 45 s, less than most clients and proxies wait for an answer.
	Patience time.Duration
}

// holdTime is how long a read keeps others from running in its place. After it a read
// of another tenant may run beside it.
const holdTime = 250 * time.Millisecond

// maxPause bounds the pause between two reads of a tenant.
const maxPause = time.Second

// Gate is safe for concurrent use. It holds nothing to close.
type Gate struct {
	opts Options

	mu      sync.Mutex
	running int               // guarded by mu; permits that count against Options.Running
	waiting int               // guarded by mu
	refused int64             // guarded by mu
	tenants map[string]*queue // guarded by mu; those with reads
	ready   list.List         // guarded by mu; the *queue with reads whose turn it may be, in order
}

// queue are the reads of a tenant.
type queue struct {
	tenant  string
	busy    bool      // one runs, or the pause after it lasts
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

// RetryAfter is when a client that was refused is asked to try again.
const RetryAfter = 2 * time.Second

// BusyError is returned when a tenant has too many heavy reads.
type BusyError struct {
	// Waiting is how many reads of the tenant wait.
	Waiting int
}

// Error says what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("answer the request: %d heavy reads of this tenant wait, and they run one after the other; try again in %.0f s, with fewer at once",
		e.Waiting, RetryAfter.Seconds())
}

// Permit lets one request run its heavy reads. It belongs to one goroutine at a time.
// A nil Permit permits everything.
type Permit struct {
	gate   *Gate
	tenant string
	// The rest is guarded by gate.mu.
	admitted bool // it was held before
	held     bool
	counted  bool // in gate.running
	since    time.Time
	timer    *time.Timer // ends counted
}

// Permit returns a permit for a request of a tenant, which is not held yet. The
// caller MUST call Yield at the end of the request.
func (g *Gate) Permit(tenant string) *Permit {
	if g == nil {
		return nil
	}
	return &Permit{gate: g, tenant: tenant}
}

// Enter takes a permit for one piece of an answer that lasts long, such as a stream, and
// returns a context that carries it. It waits as long as ctx allows. The caller MUST call
// leave. It does nothing when ctx carries a permit that is held.
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

// Take waits for the permit unless it is held. A request that never held it is
// refused with a *BusyError after Options.Patience, or when too many of its tenant
// wait. One that did has an answer to finish and waits as long as ctx allows.
func (p *Permit) Take(ctx context.Context) error { return p.take(ctx, true) }

// Continue takes the permit again after Yield. It does nothing for a request that
// never held it.
func (p *Permit) Continue(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.gate.mu.Lock()
	admitted := p.admitted
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
	if p.held {
		g.mu.Unlock()
		return nil
	}
	q := g.tenants[p.tenant]
	if q == nil {
		q = &queue{tenant: p.tenant}
		g.tenants[p.tenant] = q
	}
	bounded = bounded && !p.admitted
	if n := q.waiting.Len(); bounded && n >= g.opts.Waiting {
		g.refused++
		g.mu.Unlock()
		return &BusyError{Waiting: n}
	}
	w := &waiter{permit: p, granted: make(chan struct{})}
	place := q.waiting.PushBack(w)
	g.waiting++
	g.queued(q)
	g.dispatch()
	held := p.held
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
	if p.held { // granted meanwhile
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

// Yield gives the permit back. It may be called when the permit is not held.
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
	if !p.held {
		return
	}
	g, q := p.gate, p.gate.tenants[p.tenant]
	p.held = false
	p.uncount()
	if q.waiting.Len() > 0 {
		time.AfterFunc(min(time.Since(p.since), maxPause), func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.end(q)
		})
		g.dispatch()
		return
	}
	g.end(q)
}

// end lets the next read of a tenant run. The caller must hold mu.
func (g *Gate) end(q *queue) {
	q.busy = false
	g.queued(q)
	g.dispatch()
	g.forget(q)
}

// queued makes the reads of a tenant ready to run. The caller must hold mu.
func (g *Gate) queued(q *queue) {
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
		if q.waiting.Len() == 0 { // they left
			g.forget(q)
			continue
		}
		w := q.waiting.Remove(q.waiting.Front()).(*waiter)
		g.waiting--
		g.running++
		q.busy = true
		p := w.permit
		p.held, p.admitted, p.counted, p.since = true, true, true, time.Now()
		p.timer = time.AfterFunc(holdTime, func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			if p.held && time.Since(p.since) >= holdTime {
				p.uncount()
				g.dispatch()
			}
		})
		close(w.granted)
	}
}

// uncount lets another read run. The caller must hold gate.mu.
func (p *Permit) uncount() {
	if !p.counted {
		return
	}
	p.timer.Stop()
	p.counted = false
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
	return p.held
}

// Stats is the state of a Gate at one moment.
type Stats struct {
	// Running and Waiting count heavy reads now.
	Running, Waiting int
	// Refused counts those that were refused.
	Refused int64
}

// Stats returns the state.
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

// Pass lets other reads of the tenant run if the permit that ctx carries is held for
// holdTime or longer. A read that goes through much and writes little calls it
// between two pieces.
func Pass(ctx context.Context) error {
	p := From(ctx)
	if p == nil {
		return nil
	}
	g := p.gate
	g.mu.Lock()
	pass := p.held && g.tenants[p.tenant].waiting.Len() > 0 && time.Since(p.since) >= holdTime
	if pass {
		p.yield()
	}
	g.mu.Unlock()
	if !pass {
		return nil
	}
	return p.take(ctx, false)
}

// Retried makes fn one that is tried again after it has failed, as budget.Retry does:
// the permit that ctx carries is not held in between.
func Retried(ctx context.Context, fn func() error) func() error {
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

// Wait calls fn without the permit that ctx carries, and takes it again if it was
// held: fn waits for something other than the processor.
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

// Waited notes that the read waited until now, and did not use the processor, while it
// held the permit that ctx carries: the pause after it is as short as what it does next.
func Waited(ctx context.Context) {
	p := From(ctx)
	if p == nil {
		return
	}
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	p.since = time.Now()
	if p.counted {
		p.timer.Reset(holdTime) // it looks at since
	}
}
