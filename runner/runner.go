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

// Options set up a Runner. The ports are required; the zero value of
// everything else is a sensible choice.
type Options struct {
	// ID names this runner process in the ledger; default a new UUID.
	ID string
	// Pool is the group of runners it belongs to; default events.DefaultPool.
	Pool string
	// Slots is how many runs it does at once; default the number of cores.
	Slots int
	// Shares says how tenants share the slots. Its Total is ignored: Slots counts.
	Shares fairness.Slots
	// Output is how many bytes of output all runs together record in a second, as
	// events, and how tenants share them; default no limit. A script whose output waits
	// is not stopped but by its time limit.
	Output fairness.Rate

	Ledger  Ledger
	Work    Work
	Heaps   Heaps
	Texts   Texts
	Workers Workers
	// Memory may be nil: then the heaps of runs take what they need.
	Memory Memory
	// Servers may be nil: then scripts have nothing to call.
	Servers Servers

	// DrainWait is how long runs may go on once Run is told to end, before they
	// are handed back; default 10 s, negative hands them back at once.
	DrainWait time.Duration
	// RetryDelay is how long a request waits that could not be dealt with
	// because something was unavailable; default 1 s, doubled with each
	// failed try of this runner up to 30 times as much.
	RetryDelay time.Duration
	// Silent, if set, is why nothing can be recorded now, or nil: what is not recorded at
	// the end of DrainWait is then given up.
	Silent func() error
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// Runner does runs. It is safe for concurrent use.
type Runner struct {
	opts  Options
	stats stats
	// failures are the failed tries of requests that are not dealt with, heapless
	// those among them that could not read the heap.
	failures, heapless failures
	// identity is what the workers said of themselves.
	identity identity
	// pace is nil without Options.Output.
	pace *outputPace
	// overtime, handBackWait and turnDelay are the constants, except in tests.
	overtime, handBackWait, turnDelay time.Duration
}

// New makes a runner. It starts nothing. It panics when a port is missing.
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
	opts.DrainWait = cmp.Or(opts.DrainWait, 10*time.Second)
	opts.RetryDelay = cmp.Or(opts.RetryDelay, time.Second)
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Silent == nil {
		opts.Silent = func() error { return nil }
	}
	opts.Logger = opts.Logger.With("runner", opts.ID)
	return &Runner{opts: opts, pace: newOutputPace(opts.Output), overtime: overtime, handBackWait: handBackWait, turnDelay: turnDelay}
}

// ID is the name this runner goes by in the ledger.
func (r *Runner) ID() string { return r.opts.ID }

// Stats tells what the runner has done so far.
func (r *Runner) Stats() Stats { return r.stats.read() }

// errDraining stops runs that outlast DrainWait.
var errDraining = errors.New("the runner is shutting down")

// handBackWait bounds what is done for a run after it was told to stop for
// shutting down. A run not handed back by then is redelivered all the same,
// but at the cost of an attempt.
const handBackWait = 10 * time.Second

// silentPause is how often Options.Silent is asked while runs are handed back.
const silentPause = 100 * time.Millisecond

// Run takes requests and does them until ctx is done. Then it drains: it takes
// no more, lets runs finish for Options.DrainWait, hands back the rest, and
// returns nil. An error means that the work cannot be had.
func (r *Runner) Run(ctx context.Context) error {
	var l life
	l.draining = ctx.Done()
	var stop context.CancelCauseFunc
	var abandon context.CancelCauseFunc
	l.records, abandon = context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	l.runs, stop = context.WithCancelCause(l.records)
	defer stop(nil)

	var timers sync.WaitGroup
	over := make(chan struct{})
	timers.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		}
		if !elapse(over, r.opts.DrainWait) {
			return
		}
		stop(errDraining)
		for last := time.Now().Add(r.handBackWait); time.Now().Before(last) && r.opts.Silent() == nil; {
			if !elapse(over, min(silentPause, time.Until(last))) {
				return
			}
		}
		abandon(ledger.ErrAbandoned)
	})
	err := r.opts.Work.Consume(ctx, r.opts.Pool, r.opts.Shares, func(_ context.Context, d Delivery) {
		r.deliver(&l, d)
	})
	close(over)
	timers.Wait()
	return err
}

// life holds the three ends of a Runner's Run, in the order in which they come.
type life struct {
	// draining is closed when no more work is to be taken.
	draining <-chan struct{}
	// runs ends when scripts are to stop, with errDraining as the cause.
	runs context.Context
	// records ends when nothing more is to be recorded.
	records context.Context
}

// over reports whether no more work is to be taken.
func (l *life) over() bool {
	select {
	case <-l.draining:
		return true
	default:
		return false
	}
}

// elapse waits for d and reports true, or reports false as soon as over is
// closed.
func elapse(over <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-over:
		return false
	case <-t.C:
		return true
	}
}

// guard calls do and turns a panic into an error with the stack in its text: a
// fault in one run must not end the others.
func guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}
