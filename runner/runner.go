package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/ledger"
)

// Options configures a Runner. Ledger, Work, Heaps, Texts and Workers are required.
type Options struct {
	// ID names this runner process in the ledger. Default: a new UUID.
	ID string
	// Pool is the group of runners that this runner belongs to. Default:
	// events.DefaultPool.
	Pool string
	// Slots is the number of runs that execute at once. Default: the number of cores.
	Slots int
	// Shares defines how tenants share the slots. Its Total is ignored; Slots applies.
	Shares fairness.Slots
	// OutputRate limits the output that all runs together record, in bytes of events
	// per second, and defines how tenants share it. Default: no limit. A script waits
	// while its output waits, and its time limit includes that time.
	OutputRate fairness.Rate

	Ledger  Ledger
	Work    Work
	Heaps   Heaps
	Texts   Texts
	Workers Workers
	// Memory limits the memory of heaps. Default: no limit.
	Memory Memory
	// Migrations migrate heaps of other engines. Default: runs that need such a heap fail.
	Migrations Migrations
	// Servers calls tools for scripts. Default: scripts can call no tools.
	Servers Servers
	// Modules finds the packages that scripts import. Default: scripts can import none.
	Modules ModuleLock

	// NodeGlobals gives scripts the globals of Node, such as Buffer.
	NodeGlobals bool
	// WASMModules are given to runs without a heap, sorted by name. Default: none.
	WASMModules []WASMModule
	// DrainTimeout is how long runs may continue after Run's ctx is done, before they
	// are handed back. Default: 10 s. A negative value hands them back immediately.
	DrainTimeout time.Duration
	// RetryDelay is the delay before a request is delivered again after something was
	// unavailable. It doubles with each failed try of this runner, up to 30 times the
	// value. Default: 1 s.
	RetryDelay time.Duration
	// CheckRecording, if set, returns why events cannot be recorded now, or nil. If it
	// returns an error after DrainTimeout, events that are not recorded yet are
	// abandoned.
	CheckRecording func() error
	// Logger receives errors that no caller can receive. Default: slog.Default().
	Logger *slog.Logger
}

// Runner takes run requests and executes them. It is safe for concurrent use.
type Runner struct {
	opts  Options
	stats stats
	// failures counts the failed tries of requests that are not finished.
	// heapReadFailures counts the failed tries that could not read the heap.
	failures, heapReadFailures failures
	// workerIdentity caches the engines and layers that the workers reported.
	workerIdentity workerIdentity
	bundles        bundleCache
	storedWASM     storedWASM
	// pace is nil without Options.OutputRate.
	pace *outputPace
	// timeoutGrace, handBackTimeout and turnDelay are the constants, except in tests.
	timeoutGrace, handBackTimeout, turnDelay time.Duration
}

// New returns a Runner and starts nothing. It panics if a required port is missing.
func New(opts Options) *Runner {
	if opts.Memory == nil {
		opts.Memory = unboundedMemory{}
	}
	if opts.Ledger == nil || opts.Work == nil || opts.Heaps == nil || opts.Texts == nil || opts.Workers == nil {
		panic("runner.New: Options needs Ledger, Work, Heaps, Texts and Workers")
	}
	opts.ID = cmp.Or(opts.ID, events.NewID(time.Now()))
	opts.Pool = cmp.Or(opts.Pool, events.DefaultPool)
	opts.Slots = cmp.Or(opts.Slots, runtime.NumCPU())
	opts.Shares.Total = opts.Slots
	opts.DrainTimeout = cmp.Or(opts.DrainTimeout, 10*time.Second)
	opts.RetryDelay = cmp.Or(opts.RetryDelay, time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.CheckRecording == nil {
		opts.CheckRecording = func() error { return nil }
	}
	opts.Logger = opts.Logger.With("runner", opts.ID)
	return &Runner{opts: opts, pace: newOutputPace(opts.OutputRate), timeoutGrace: timeoutGrace, handBackTimeout: handBackTimeout, turnDelay: turnDelay}
}

// ID returns the name of this runner in the ledger.
func (r *Runner) ID() string { return r.opts.ID }

// Stats returns the counts of the runner since New.
func (r *Runner) Stats() Stats { return r.stats.read() }

// errDraining is the cause that stops runs that outlast DrainTimeout.
var errDraining = errors.New("the runner is shutting down")

// handBackTimeout limits the steps for a run after the shutdown stopped its script. A
// run that is not handed back in this time is delivered again, but that costs an
// attempt.
const handBackTimeout = 10 * time.Second

// recordingCheckInterval is the interval of the calls of Options.CheckRecording while
// runs are handed back.
const recordingCheckInterval = 100 * time.Millisecond

// Run takes requests and executes them until ctx is done. Then it drains: it takes no
// more requests, lets runs finish for Options.DrainTimeout, hands back the others and
// returns nil. It returns an error if requests cannot be consumed.
func (r *Runner) Run(ctx context.Context) error {
	var l shutdownPhases
	l.drain = ctx.Done()
	var stop context.CancelCauseFunc
	var abandon context.CancelCauseFunc
	l.recordCtx, abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	l.runCtx, stop = context.WithCancelCause(l.recordCtx)
	defer stop(nil)

	var timers sync.WaitGroup
	done := make(chan struct{})
	timers.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		if !waitOrStop(done, r.opts.DrainTimeout) {
			return
		}
		stop(errDraining)
		for deadline := time.Now().Add(r.handBackTimeout); time.Now().Before(deadline) && r.opts.CheckRecording() == nil; {
			if !waitOrStop(done, min(recordingCheckInterval, time.Until(deadline))) {
				return
			}
		}
		abandon(ledger.ErrAbandoned)
	})
	err := r.opts.Work.Consume(ctx, r.opts.Pool, r.opts.Shares, func(_ context.Context, d Delivery) {
		r.handleDelivery(&l, d)
	})
	close(done)
	timers.Wait()
	return err
}

// shutdownPhases holds the signals of the three shutdown phases of Run, in their order.
type shutdownPhases struct {
	// drain is closed when the runner takes no more requests.
	drain <-chan struct{}
	// runCtx ends when scripts must stop, with errDraining as the cause.
	runCtx context.Context
	// recordCtx ends when nothing more may be recorded.
	recordCtx context.Context
}

func (l *shutdownPhases) isDraining() bool {
	select {
	case <-l.drain:
		return true
	default:
		return false
	}
}

// waitOrStop waits for d and reports true. It reports false as soon as stop is closed.
func waitOrStop(stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop:
		return false
	case <-t.C:
		return true
	}
}

// recoverPanic calls do and turns a panic into an error whose text holds the stack: a
// fault in one run must not end the other runs.
func recoverPanic(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}
