package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/v8"
	"daybook/runner"
)

// errClosed is returned when a Pool is used after Close.
var errClosed = errors.New("the worker pool is closed")

// Options configures a Pool. The zero value selects the defaults.
type Options struct {
	// Idle is the number of fresh workers that are kept ready. Default: 2. A negative
	// number keeps no idle workers, neither fresh nor used.
	Idle int
	// IdleUsed is the maximum number of used workers that wait for the next run of
	// their tenant. Default: Idle.
	IdleUsed int
	// Reuse selects which runs may share a worker. Default: ReuseTenant.
	Reuse Reuse
	// Ahead is the maximum number of idle workers that restore the heap of their last run
	// ahead of the next one; see runner.Task.RestoreAhead. Default: IdleUsed. A negative
	// number restores none.
	Ahead int
	// MemoryShort reports whether heaps that are restored ahead must be dropped, because
	// their memory is needed. It MUST return soon and MUST NOT use the Pool. Default: never.
	MemoryShort func() bool
	// MaxRuns and MaxAge limit the runs and the age of a worker. Default: 1,000 runs
	// and 1 h.
	MaxRuns int
	MaxAge  time.Duration
	// MaxHeapLimitBytes is the largest heap limit that a task may have. The limit of
	// the memory of a worker process is derived from it. Default: 256 MiB.
	MaxHeapLimitBytes int64
	// StartTimeout limits the start of a worker. Default: 20 s.
	StartTimeout time.Duration
	// Stateless selects the kind of the workers that are started ahead of their tasks.
	// A task of the other kind waits until a worker is started for it.
	Stateless bool
	// BestEffort accepts workers that lack required layers of the sandbox. Without it
	// they are refused with a *sandbox.MissingError.
	BestEffort bool
	// JIT permits stateful tasks that V8 optimizes (runner.Task.JIT). The first stateful worker
	// checks that V8 can; if not, it does not start.
	JIT bool
	// Prelude is JavaScript that the workers add to their prelude, which makes them workers
	// of another engine. It is for tests; see WithPrelude. Only the process of the pool can
	// set it: a worker receives it before it runs any script.
	Prelude string
	// Logger receives warnings about workers that could not be started ahead of their
	// tasks and about missing layers. Nil discards them.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Idle == 0 {
		o.Idle = 2
	}
	if o.IdleUsed <= 0 {
		o.IdleUsed = o.Idle
	}
	if o.Ahead == 0 {
		o.Ahead = o.IdleUsed
	}
	if o.MemoryShort == nil {
		o.MemoryShort = func() bool { return false }
	}
	if o.Reuse == "" {
		o.Reuse = ReuseTenant
	}
	if o.MaxRuns <= 0 {
		o.MaxRuns = 1000
	}
	if o.MaxAge <= 0 {
		o.MaxAge = time.Hour
	}
	if o.MaxHeapLimitBytes <= 0 {
		o.MaxHeapLimitBytes = 256 << 20
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 20 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Pool runs tasks in worker processes. It does not limit how many tasks run at a time.
// It is safe for concurrent use.
type Pool struct {
	opts Options
	path string   // path of the program that serves as worker
	args []string // its arguments
	// build names the build of the program; see buildOf.
	build string
	ways  startWays

	ctx      context.Context // is done when the pool closes, which stops all its workers
	stop     context.CancelCauseFunc
	spawn    chan spawnRequest
	once     sync.Once      // starts runSpawner and superviseWorkers
	warnOnce sync.Once      // logs the missing layers
	tasks    sync.WaitGroup // goroutines of the pool: spawner, supervision, starts and disposals of workers

	aheadAge time.Duration // the constant, except in tests

	bases map[bool]*base // the key is whether tasks are stateful; not changed after New

	mu       sync.Mutex // guards the fields below
	closed   bool
	idle     []*process // the most recently used last; those without an owner are fresh
	running  map[*process]struct{}
	starting int // number of fresh workers that are being started
	// shortWarned is when a shortage that prevented the start of a fresh worker was last
	// logged. shorter is the number of such failures since then, which were not logged.
	shortWarned time.Time
	shorter     int
	using       sync.WaitGroup
}

// shortWarnEvery is the minimum time between two warnings of a shortage.
const shortWarnEvery = time.Minute

// maxReusedCode is the longest source, in bytes, after which a worker is used again.
const maxReusedCode = 64 << 10

type spawnRequest struct {
	reply chan<- spawned
}

type spawned struct {
	p   *process
	err error
}

// New returns a pool. It starts no process: the first task starts workers, and so do
// Engine, Layers and BaseHeap. The caller MUST call Close.
func New(opts Options) *Pool {
	p := &Pool{opts: opts.withDefaults(), spawn: make(chan spawnRequest), running: map[*process]struct{}{}, bases: newBases(), aheadAge: aheadAge}
	p.path = executable()
	p.build = buildOf(p.path)
	// A heap and its buffers may use twice their limits while they are saved. The range
	// that V8 reserves for code counts as 512 MiB, and the process needs as much again
	// for stacks, parsing and its own garbage.
	p.args = workerArgs(int64(1)<<30 + 4*p.opts.MaxHeapLimitBytes)
	p.ctx, p.stop = context.WithCancelCause(context.Background())
	return p
}

// Engine returns the engine of stateful or of stateless runs, as a worker reports it. It
// fails if no worker can be started.
func (p *Pool) Engine(ctx context.Context, stateful bool) (events.Engine, error) {
	r, err := p.report(ctx, !p.opts.Stateless)
	if err != nil {
		return events.Engine{}, err
	}
	e := r.Engine
	flags := e.Flags
	switch {
	case !stateful:
		// Plain isolates have the optimizing compiler and save nothing.
		e.JIT, e.SnapshotFormat = true, 0
	case p.opts.JIT:
		e.JIT, flags = true, flags+" "+v8.JITFlags
	}
	return events.Engine{
		ID: e.ID(), V8Version: e.V8Version, Flags: flags, JIT: e.JIT, PreludeSHA256: e.PreludeSHA256, SnapshotFormat: e.SnapshotFormat,
		Locale: e.Locale, TimeZone: e.TimeZone, Build: p.build,
	}, nil
}

// Layers returns the names of the sandbox layers that workers have on this machine.
// Workers for stateful tasks have other layers than workers for stateless ones.
func (p *Pool) Layers(ctx context.Context, stateful bool) ([]string, error) {
	r, err := p.report(ctx, stateful)
	return slices.Clone(r.Layers), err
}

// BaseHeap returns the heap of an isolate in which no script ran. A fresh worker creates
// it. It is the same in all processes of the same engine.
func (p *Pool) BaseHeap(ctx context.Context) ([]byte, error) {
	w, err := p.acquire(ctx, owner{}, true, true)
	if err != nil {
		return nil, err
	}
	t := runner.Task{Stateful: true, Timeout: p.opts.StartTimeout, Start: time.Unix(0, 0)}
	o, clean, err := w.perform(ctx, &t, heapPlan{}, func(context.Context, []events.Line) error { return nil })
	p.release(w, clean, nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("create the base heap: %w", err)
	case o.Status != events.StatusCompleted:
		return nil, fmt.Errorf("create the base heap: %s", o.Error)
	}
	return o.Heap, nil
}

func (p *Pool) report(ctx context.Context, stateful bool) (readyMessage, error) {
	w, err := p.acquire(ctx, owner{}, stateful, true)
	if err != nil {
		return readyMessage{}, err
	}
	defer p.release(w, true, nil)
	return w.ready, nil
}

// Run runs one task and blocks until it has an outcome.
//
// Run passes the output to lines in order, the first line without delay. If lines returns
// an error, the run ends and later output is discarded. The context of lines is done when
// the run is stopped by ctx, by its time limit or by an error. Run still passes output that
// the worker wrote before that. lines MUST then return soon: the worker is killed 300 ms
// after the time limit of the run, or 500 ms after another stop.
//
// A script that fails is an outcome and no error. Run returns the cause of ctx if ctx is
// done, the error of lines, an error after Close, or why the task could not run. The last
// is a *runner.NotStartedError if the cause is temporary and no part of the script ran.
func (p *Pool) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	if err := checkTask(&t, &p.opts); err != nil {
		return runner.Outcome{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(p.ctx, func() { cancel(errClosed) })
	defer stop()

	const attempts = 3
	// A bundle serves other runs too, so a worker in which user code ran must not make it.
	bundles := len(t.Bundle) > 0
	reusable := len(t.Code) <= maxReusedCode && !bundles
	for attempt := 1; ; attempt++ {
		plan := heapPlan{keep: p.opts.mayKeepHeap(&t)}
		var w *process
		var err error
		if attempt == 1 && ctx.Err() == nil {
			w = p.takeAhead(&t)
			plan.isKept = w != nil
		}
		if w == nil {
			w, err = p.acquire(ctx, p.opts.owner(&t), t.Stateful, attempt > 1 || bundles)
		}
		if isShort(err) {
			return runner.Outcome{}, &runner.NotStartedError{Err: err}
		}
		if err != nil {
			return runner.Outcome{}, err
		}
		o, clean, err := w.perform(ctx, &t, plan, lines)
		// Parsing a large source can leave the process with a stack so large that V8
		// lacks memory beside it.
		clean = clean && reusable
		var ahead *aheadHeap
		if plan.keep && clean {
			ahead = p.newAhead(&t, &o)
		}
		p.release(w, clean, ahead)
		if errors.Is(err, errNotAccepted) && attempt < attempts {
			continue
		}
		return o, err
	}
}

// acquire returns a worker for the owner: one that served this owner before, unless fresh
// is set; else a fresh one that is ready; else one that it starts. It prefers a worker that keeps
// no heap for a next run, also a fresh one as long as there are fewer used ones than IdleUsed.
func (p *Pool) acquire(ctx context.Context, who owner, stateful, fresh bool) (*process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	p.using.Add(1)
	var w *process
	if !fresh {
		w = p.takeIdle(who, stateful, false)
	}
	if w == nil && !fresh && p.countUsed() >= p.opts.IdleUsed {
		w = p.takeIdle(who, stateful, true)
	}
	if w == nil {
		w = p.takeIdle(owner{}, stateful, false)
	}
	if w == nil && !fresh {
		w = p.takeIdle(who, stateful, true)
	}
	if w != nil {
		p.running[w] = struct{}{}
	}
	p.replenish()
	p.mu.Unlock()
	if w == nil {
		var err error
		if w, err = p.start(ctx, stateful); err != nil {
			p.using.Done()
			return nil, err
		}
		p.mu.Lock()
		p.running[w] = struct{}{}
		p.mu.Unlock()
	}
	w.owner = who
	return w, nil
}

// countUsed returns the number of workers that serve or served a run. The caller must hold p.mu.
func (p *Pool) countUsed() int {
	n := len(p.running)
	for _, w := range p.idle {
		if w.owner != (owner{}) {
			n++
		}
	}
	return n
}

// takeIdle removes the most recently used idle worker of the owner and the kind from the
// pool and returns it: one that keeps no heap for a next run, or with ahead the least recently
// used one that keeps one. It returns nil if there is none. The caller must hold p.mu.
func (p *Pool) takeIdle(who owner, stateful, ahead bool) *process {
	order := slices.Clone(p.idle)
	if !ahead {
		slices.Reverse(order)
	}
	for _, w := range order {
		usable := w.alive() && time.Since(w.born) < p.opts.MaxAge
		if usable && (w.owner != who || w.stateful != stateful || (w.ahead != nil) != ahead) {
			continue
		}
		i := slices.Index(p.idle, w)
		p.idle = slices.Delete(p.idle, i, i+1)
		if usable {
			w.forgetAhead()
			return w
		}
		p.discard(w)
	}
	return nil
}

// release returns a worker to the pool or disposes of it. ahead is the heap that the worker
// keeps, or nil.
func (p *Pool) release(w *process, clean bool, ahead *aheadHeap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.using.Done()
	delete(p.running, w)
	if p.closed || !clean || !p.opts.isReusable(w.owner) || p.opts.Idle < 0 || w.runs >= p.opts.MaxRuns || !w.alive() {
		p.discard(w)
		return
	}
	p.idle = append(p.idle, w)
	if i := p.surplus(); i >= 0 {
		p.discard(p.idle[i])
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	if ahead != nil && slices.Contains(p.idle, w) {
		p.keepAhead(w, ahead)
	}
}

// surplus returns the index in p.idle of the used worker to dispose of if there are more
// than IdleUsed, else -1. It selects the least recently used one of the tenant that has
// the most. The caller must hold p.mu.
func (p *Pool) surplus() int {
	used, of := 0, map[string]int{}
	for _, w := range p.idle {
		if w.owner != (owner{}) {
			used++
			of[w.owner.tenant]++
		}
	}
	if used <= p.opts.IdleUsed {
		return -1
	}
	worst := -1
	for i, w := range p.idle { // oldest first
		if w.owner != (owner{}) && (worst < 0 || of[w.owner.tenant] > of[p.idle[worst].owner.tenant]) {
			worst = i
		}
	}
	return worst
}

// discard kills a worker and reaps it in the background. The caller must hold p.mu, or
// the pool must be closing.
func (p *Pool) discard(w *process) {
	w.forgetAhead()
	w.kill()
	p.tasks.Go(w.close)
}

// replenish starts fresh workers until enough are ready or being started. The caller must
// hold p.mu.
func (p *Pool) replenish() {
	fresh := p.starting
	for _, w := range p.idle {
		if w.owner == (owner{}) && w.stateful == !p.opts.Stateless {
			fresh++
		}
	}
	for ; fresh < p.opts.Idle; fresh++ {
		p.starting++
		p.tasks.Go(func() {
			w, err := p.start(p.ctx, !p.opts.Stateless)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.starting--
			switch {
			case err != nil && !p.closed:
				p.warnNotStarted(err, time.Now())
			case err != nil:
			case p.closed:
				p.discard(w)
			default:
				// takeIdle searches from the end, so that it finds used workers first.
				p.idle = slices.Insert(p.idle, 0, w)
			}
		})
	}
}

// warnNotStarted logs that a fresh worker was not started. Of failures for a shortage it logs the
// first one, then one a minute with the number of those since. The caller must hold p.mu.
func (p *Pool) warnNotStarted(err error, now time.Time) {
	attrs := []any{"error", err}
	if isShort(err) {
		if now.Sub(p.shortWarned) < shortWarnEvery {
			p.shorter++
			return
		}
		if p.shorter > 0 {
			attrs = append(attrs, "equal_since_last", p.shorter)
		}
		p.shortWarned, p.shorter = now, 0
	}
	p.opts.Logger.Warn("worker not started ahead of time", attrs...)
}

// start starts a worker and waits until it is ready.
func (p *Pool) start(ctx context.Context, stateful bool) (*process, error) {
	p.once.Do(func() {
		p.tasks.Go(p.runSpawner)
		p.tasks.Go(p.superviseWorkers)
	})
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.StartTimeout, fmt.Errorf("start worker: not ready after %s", p.opts.StartTimeout))
	defer cancel()
	reply := make(chan spawned, 1)
	select {
	case p.spawn <- spawnRequest{reply}:
	case <-p.ctx.Done():
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s := <-reply
	if s.err != nil {
		return nil, s.err
	}
	err := p.awaitReady(ctx, s.p, stateful)
	if err == nil {
		err = p.admit(s.p)
	}
	if err != nil {
		s.p.close()
		return nil, err
	}
	return s.p, nil
}

// admit returns an error for a worker that lacks a required layer, unless BestEffort is
// set.
func (p *Pool) admit(w *process) error {
	missing := sandbox.Missing(w.ready.Layers, w.stateful)
	if len(missing) == 0 {
		return nil
	}
	err := &sandbox.MissingError{Layers: missing, Details: w.ready.Problem}
	if !p.opts.BestEffort {
		return fmt.Errorf("start worker: %w", err)
	}
	p.warnOnce.Do(func() {
		p.opts.Logger.Warn("layers of the sandbox are missing: run only code that you trust", "error", err)
	})
	return nil
}

// runSpawner starts processes on one thread that lives as long as the pool. The kernel
// sends the parent-death signal to a worker when the thread that started it ends, and Go
// can end other threads at any time.
func (p *Pool) runSpawner() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		select {
		case request := <-p.spawn:
			w, err := p.ways.try(func(way startWay) (*process, error) { return startProcess(p.path, p.args, way) })
			request.reply <- spawned{w, err}
		case <-p.ctx.Done():
			return
		}
	}
}

// Close ends every run with an error, kills all workers and waits until their processes
// have ended. It is safe to call more than once.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	p.stop(errClosed)
	for _, w := range idle {
		w.close()
	}
	p.using.Wait()
	p.tasks.Wait()
	return nil
}
