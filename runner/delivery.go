package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// errHandedBack reports a run that was handed back. The runner that receives the
// request next continues it.
var errHandedBack = errors.New("the run was handed back")

// maxReplans limits how often a plan may become out of date in one delivery. Each time,
// another writer recorded an event about this execution.
const maxReplans = 10

// handleDelivery processes one delivery of a request. It is the outermost function of a
// run. It logs each error, and it acknowledges or naks the request unless another delivery
// of the request is in progress.
func (r *Runner) handleDelivery(l *shutdownPhases, d Delivery) {
	log := r.opts.Logger.With("execution", d.Event.About(), "tenant", d.Event.Tenant, "delivered", d.Delivered)
	if l.isDraining() {
		if err := d.Nak(l.recordCtx, 0); err != nil {
			log.WarnContext(l.recordCtx, "nak a request while draining", "err", err)
		}
		return
	}
	r.stats.add(func(s *Stats) { s.InFlight++ })
	defer r.stats.add(func(s *Stats) { s.InFlight-- })

	err := recoverPanic(func() error { return r.handleRequest(l, d) })
	action := "acknowledge a run request"
	switch {
	case err == nil:
		r.failures.forget(d.Event.Seq)
		r.heapReadFailures.forget(d.Event.Seq)
		err = d.Ack(l.recordCtx)
	case errors.Is(err, ledger.ErrSuperseded):
		// A newer delivery of the request belongs to another attempt. An ack or nak of
		// this delivery would end the newer one.
		log.WarnContext(l.recordCtx, "an attempt was superseded: a newer attempt has taken over the run, or the run was handed back")
		return
	case errors.Is(err, errTurnPending):
		return
	case errors.Is(err, ledger.ErrHeld):
		// The request was delivered twice, and no attempt is lost. An ack or nak of this
		// delivery would end the other one.
		return
	case errors.Is(err, errHandedBack):
		r.stats.add(func(s *Stats) { s.HandedBack++ })
		action, err = "nak a run request", d.Nak(l.recordCtx, 0)
	case errors.Is(err, ErrMigrationUnfinished):
		log.InfoContext(l.recordCtx, "the migration of the heap of a run gives its slot to other runs, and continues with the next delivery")
		action, err = "nak a run request", d.Nak(l.recordCtx, 0)
	default:
		r.stats.add(func(s *Stats) { s.Retried++ })
		delay := r.retryDelay(r.failures.add(d.Event.Seq))
		log.ErrorContext(l.recordCtx, "a run request failed and will be delivered again", "delay", delay, "err", err)
		action, err = "nak a run request", d.Nak(l.recordCtx, delay)
	}
	if err != nil {
		// Without the ack or nak, the queue delivers the request again after its ack
		// deadline. The plan then finds in the ledger that nothing is left to do.
		log.WarnContext(l.recordCtx, action, "err", err)
	}
}

// retryDelay returns the delay after a number of failed tries.
func (r *Runner) retryDelay(failed int) time.Duration {
	return min(r.opts.RetryDelay<<min(max(failed, 1)-1, 5), 30*r.opts.RetryDelay)
}

// handleRequest runs the execution of a request to its end. It returns nil once the
// execution has ended and is finalized.
func (r *Runner) handleRequest(l *shutdownPhases, d Delivery) error {
	if d.Unreadable != nil {
		return r.endUnreadable(l, d)
	}
	req, ok := ledger.NewRequest(d.Event)
	if !ok {
		return fmt.Errorf("this version cannot run a request of type %s", d.Event.Type)
	}
	redelivered := d.Delivered > 1
	var unheldAt uint64 // position of an attempt that no runner holds according to IsHeld
	for range maxReplans {
		plan, err := r.opts.Ledger.Plan(l.recordCtx, req, redelivered)
		if err != nil {
			return fmt.Errorf("plan the run: %w", err)
		}
		if plan.Ended != nil {
			return r.finalize(l.recordCtx, req, *plan.Ended)
		}
		if plan.WaitFor != "" {
			return r.postpone(l, req, plan, d)
		}
		if takesOverRun(plan) && plan.Position != unheldAt {
			switch isHeld, err := r.opts.Work.IsHeld(l.recordCtx, req.Tenant, req.ExecutionID); {
			case err != nil:
				return fmt.Errorf("find the runner of the previous attempt: %w", err)
			case isHeld:
				return ledger.ErrHeld
			}
			unheldAt, redelivered = plan.Position, true
			continue // the attempt may have ended just before IsHeld
		}
		err = r.attempt(l, plan, d)
		var endedErr *ledger.EndedError
		switch {
		case errors.As(err, &endedErr):
			return r.finalize(l.recordCtx, req, endedErr.Event)
		case !errors.Is(err, ledger.ErrReplan):
			return err
		}
		redelivered = true
	}
	return fmt.Errorf("the plan was out of date %d times", maxReplans)
}

// endUnreadable ends an execution whose request is damaged. It returns an error for a
// request that is intact but that this version cannot decode; another version may run it.
func (r *Runner) endUnreadable(l *shutdownPhases, d Delivery) error {
	_, malformed := errors.AsType[*events.DecodeError](d.Unreadable)
	switch {
	case !malformed && !errors.Is(d.Unreadable, events.ErrDamaged):
		return fmt.Errorf("read the request: %w", d.Unreadable)
	case !events.ValidID(d.Event.About()) || d.Event.Tenant == "":
		return nil // its subject names no execution that a client can query
	}
	if err := r.opts.Ledger.EndUnreadable(l.recordCtx, d.Event.Tenant, d.Event.About(), d.Event.Seq); err != nil {
		return fmt.Errorf("end a run that cannot be read: %w", err)
	}
	return nil
}

func (r *Runner) finalize(ctx context.Context, req ledger.Request, terminal events.Event) error {
	if err := r.opts.Ledger.Finalize(ctx, req, terminal); err != nil {
		return fmt.Errorf("finalize the run: %w", err)
	}
	return nil
}

// maxFailures limits the requests whose failed tries are counted. Above it all counts
// restart at 0, which only costs further tries.
const maxFailures = 10_000

// failures counts, by the position of a request, the tries of this runner that failed
// because something was unavailable. The number of deliveries does not show that: it
// includes deliveries of requests that were taken ahead and returned for another
// runner, and of turns that had to wait.
type failures struct {
	mu     sync.Mutex
	counts map[uint64]int // guarded by mu
}

// add counts a failed try and returns the number of failed tries.
func (f *failures) add(position uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil || len(f.counts) >= maxFailures {
		f.counts = map[uint64]int{}
	}
	f.counts[position]++
	return f.counts[position]
}

// count returns the number of failed tries.
func (f *failures) count(position uint64) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[position]
}

// forget removes the count of a finished request.
func (f *failures) forget(position uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.counts, position)
}
