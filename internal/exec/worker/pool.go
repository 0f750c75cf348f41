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

	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/v8"
)

// ErrClosed reports the use of a Pool after Close.
var ErrClosed = errors.New("the worker pool is closed")

// Engine identifies what runs the scripts; see v8.Engine.
type Engine = v8.Engine

// Options are a Pool's settings. The zero value is good.
type Options struct {
	// Idle is how many fresh workers are kept ready. 0 means 2, negative none, and
	// no used ones either.
	Idle int
	// IdleUsed is how many used workers at most wait for their tenant's next run. 0
	// means as many as Idle.
	IdleUsed int
	// Reuse says which runs may share a worker. "" means ReuseTenant.
	Reuse Reuse
	// MaxRuns and MaxAge retire a worker. 0 means 1,000 runs and one hour.
	MaxRuns int
	MaxAge  time.Duration
	// MaxHeapLimitBytes is the largest heap limit a task may ask for. 0 means
	// 256 MiB. A worker's whole memory is bounded by it.
	MaxHeapLimitBytes int64
	// StartTimeout bounds the start of a worker. 0 means 20 s.
	StartTimeout time.Duration
	// Stateless is the kind of the workers that are started ahead of their tasks.
	// A task of the other kind waits for a worker of its own.
	Stateless bool
	// BestEffort lets workers serve that did not reach every layer of confinement
	// (package sandbox). Otherwise they are refused, with a *sandbox.MissingError.
	BestEffort bool
	// Logger hears about workers that could not be started ahead of time. Nil
	// discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Idle == 0 {
		o.Idle = 2
	}
	if o.IdleUsed <= 0 {
		o.IdleUsed = o.Idle
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

// Pool runs tasks in worker processes. It is safe for concurrent use and sets no
// bound of its own on how many tasks run at a time.
type Pool struct {
	opts Options
	path string   // of the program that serves as worker
	args []string // its arguments
	ways startWays

	ctx      context.Context // ends with the pool; stops whatever its workers do
	stop     context.CancelCauseFunc
	spawn    chan spawnRequest
	once     sync.Once      // starts the spawner and the watch
	warnOnce sync.Once      // says what confinement lacks
	tasks    sync.WaitGroup // the spawner, replenishing, disposal of workers

	bases map[bool]*base // by whether tasks are stateful; not changed

	mu       sync.Mutex // guards what follows
	closed   bool
	idle     []*process // oldest first; those without an owner are fresh
	running  map[*process]struct{}
	starting int // fresh workers on their way
	// shortWarned is when a shortage was last logged that prevented the start of a fresh
	// worker, shorter how many were not logged since.
	shortWarned time.Time
	shorter     int
	using       sync.WaitGroup
}

// shortWarnEvery is the least time between two warnings of a shortage.
const shortWarnEvery = time.Minute

// maxReusedCode is the longest source, in bytes, whose worker serves on.
const maxReusedCode = 64 << 10

type spawnRequest struct {
	reply chan<- spawned
}

type spawned struct {
	p   *process
	err error
}

// New returns a pool. It starts nothing: workers come with the first task, or
// with Engine. The caller must call Close.
func New(opts Options) *Pool {
	p := &Pool{opts: opts.withDefaults(), spawn: make(chan spawnRequest), running: map[*process]struct{}{}, bases: newBases()}
	p.path = executable()
	// A heap and its buffers may need their limits twice while they are saved; the
	// range V8 keeps for code counts half a gigabyte, and the process itself needs
	// as much again for stacks, parsing and its own garbage.
	p.args = workerArgs(int64(1)<<30 + 4*p.opts.MaxHeapLimitBytes)
	p.ctx, p.stop = context.WithCancelCause(context.Background())
	return p
}

// Engine returns the identity of the engine, as a worker reports it. It makes
// sure that a worker can be started at all.
func (p *Pool) Engine(ctx context.Context) (Engine, error) {
	r, err := p.report(ctx, !p.opts.Stateless)
	return r.Engine, err
}

// Layers names the layers of confinement that workers reach on this machine.
// They differ between workers for stateful tasks and others.
func (p *Pool) Layers(ctx context.Context, stateful bool) ([]string, error) {
	r, err := p.report(ctx, stateful)
	return slices.Clone(r.Layers), err
}

// BaseHeap returns the heap of an isolate in which nothing ran, as a worker that
// served nobody makes it. It is the same in every process of the same engine.
func (p *Pool) BaseHeap(ctx context.Context) ([]byte, error) {
	w, err := p.acquire(ctx, owner{}, true, true)
	if err != nil {
		return nil, err
	}
	t := Task{Stateful: true, Timeout: p.opts.StartTimeout, Start: time.Unix(0, 0)}
	o, clean, err := w.perform(ctx, &t, func(context.Context, []Line) error { return nil })
	p.release(w, clean)
	switch {
	case err != nil:
		return nil, fmt.Errorf("make the base heap: %w", err)
	case o.Status != StatusCompleted:
		return nil, fmt.Errorf("make the base heap: %s", o.Error)
	}
	return o.Heap, nil
}

func (p *Pool) report(ctx context.Context, stateful bool) (readyMessage, error) {
	w, err := p.acquire(ctx, owner{}, stateful, true)
	if err != nil {
		return readyMessage{}, err
	}
	defer p.release(w, true)
	return w.ready, nil
}

// Run runs one task and blocks until it has an outcome. lines gets the output in
// order, the first line at once; an error of it ends the run, and the output after it is
// discarded. Its context ends when the run is stopped: by ctx, its time limit or an
// error. Output that the worker wrote before still comes then, and lines must take or
// refuse it soon, or the worker is killed after 300 ms. The error of Run is
// the cause of ctx when that ended, the error of lines, or the service's failure
// to run the task at all, which is a *ShortageError when it passes and nothing ran; a
// script that fails is no error.
func (p *Pool) Run(ctx context.Context, t Task, lines func(context.Context, []Line) error) (Outcome, error) {
	if err := t.check(p.opts.MaxHeapLimitBytes); err != nil {
		return Outcome{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(p.ctx, func() { cancel(ErrClosed) })
	defer stop()

	const attempts = 3
	reusable := len(t.Code) <= maxReusedCode
	for attempt := 1; ; attempt++ {
		w, err := p.acquire(ctx, p.opts.owner(&t), t.Stateful, attempt > 1)
		if isShort(err) {
			return Outcome{}, &ShortageError{err}
		}
		if err != nil {
			return Outcome{}, err
		}
		o, clean, err := w.perform(ctx, &t, lines)
		// Parsing a large source can leave the process with a stack that V8 then
		// has no room beside.
		p.release(w, clean && reusable)
		if errors.Is(err, errNotAccepted) && attempt < attempts {
			continue
		}
		return o, err
	}
}

// acquire returns a worker for the owner: one that served it before unless it must be
// fresh, a fresh one, or a new one.
func (p *Pool) acquire(ctx context.Context, who owner, stateful, fresh bool) (*process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	p.using.Add(1)
	var w *process
	if !fresh {
		w = p.takeIdle(who, stateful)
	}
	if w == nil {
		w = p.takeIdle(owner{}, stateful)
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

// takeIdle removes the most recently used idle worker of the owner and the kind.
// It needs the lock.
func (p *Pool) takeIdle(who owner, stateful bool) *process {
	for i := len(p.idle) - 1; i >= 0; i-- {
		w := p.idle[i]
		usable := w.alive() && time.Since(w.born) < p.opts.MaxAge
		if usable && (w.owner != who || w.stateful != stateful) {
			continue
		}
		p.idle = slices.Delete(p.idle, i, i+1)
		if usable {
			return w
		}
		p.discard(w)
	}
	return nil
}

// release takes a worker back, or disposes of it.
func (p *Pool) release(w *process, clean bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.using.Done()
	delete(p.running, w)
	if p.closed || !clean || !p.opts.reusable(w.owner) || p.opts.Idle < 0 || w.runs >= p.opts.MaxRuns || !w.alive() {
		p.discard(w)
		return
	}
	p.idle = append(p.idle, w)
	if i := p.surplus(); i >= 0 {
		p.discard(p.idle[i])
		p.idle = slices.Delete(p.idle, i, i+1)
	}
}

// surplus returns the place of the used worker that is one too many, -1 if none is: the
// oldest of those whose tenant has most of them. It needs the lock.
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

// discard kills a worker and reaps it in the background. It needs the lock, or
// a pool that is closing.
func (p *Pool) discard(w *process) {
	w.kill()
	p.tasks.Go(w.close)
}

// replenish starts fresh workers until enough are ready or on their way. It
// needs the lock.
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
				// Before the used ones: they are looked at from the end.
				p.idle = slices.Insert(p.idle, 0, w)
			}
		})
	}
}

// warnNotStarted logs that a fresh worker was not started. Of failures for a shortage it logs the
// first one, then one a minute with the number of those since. It needs the lock.
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
		return nil, ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	s := <-reply
	if s.err != nil {
		return nil, s.err
	}
	err := p.greet(ctx, s.p, stateful)
	if err == nil {
		err = p.admit(s.p)
	}
	if err != nil {
		s.p.close()
		return nil, err
	}
	return s.p, nil
}

// admit refuses a worker that is confined less than it must be.
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
		p.opts.Logger.Warn("scripts run with less confinement than they should: run only code you trust", "error", err)
	})
	return nil
}

// runSpawner starts processes on one thread that lives as long as the pool: the
// kernel delivers a worker's parent-death signal when the thread that started it
// ends, and Go ends threads as it likes.
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

// Close ends every run with ErrClosed, kills all workers and waits until they
// are gone. A second call does nothing more.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	p.stop(ErrClosed)
	for _, w := range idle {
		w.close()
	}
	p.using.Wait()
	p.tasks.Wait()
	return nil
}
