package runner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"daybook/ledger"
)

// errTurnPending reports a request that was returned with a delay because the turn of
// its run has not come.
var errTurnPending = errors.New("the run waits for its turn")

// turnDelay is the longest delay of a request whose turn has not come. The shortest is
// half of it. The process that ends the previous turn releases the request earlier, so the
// delay matters only if that release is lost.
const turnDelay = 10 * time.Minute

// postpone naks the request of a run whose turn has not come. The request then costs
// only its entry in the queue. If the previous turn ends between the plan and the nak, its
// release has no effect. Therefore postpone plans the run again after the nak, and
// releases the request if its turn has come. It returns nil if the execution has ended.
func (r *Runner) postpone(l *shutdownPhases, req ledger.Request, plan ledger.Plan, d Delivery) error {
	delay := plan.PlanAgainAfter
	if delay <= 0 {
		delay = r.turnDelay/2 + rand.N(r.turnDelay/2+1)
	}
	if err := d.Nak(l.recordCtx, delay); err != nil {
		return fmt.Errorf("nak a run that waits for its turn: %w", err)
	}
	r.stats.add(func(s *Stats) { s.Postponed++ })
	next, err := r.opts.Ledger.Plan(l.recordCtx, req, true)
	switch {
	case err != nil:
		return fmt.Errorf("plan the run: %w", err)
	case next.Ended != nil:
		return r.finalize(l.recordCtx, req, *next.Ended)
	case next.WaitFor != "":
		return errTurnPending
	}
	if err := d.Nak(l.recordCtx, 0); err != nil {
		return fmt.Errorf("nak a run whose turn has come: %w", err)
	}
	return errTurnPending
}

// takesOverRun reports whether a plan takes a run from another runner, which may still
// hold it. A request with a turn can be delivered while a runner holds it: it was
// released twice, or at the moment of its first delivery.
func takesOverRun(plan ledger.Plan) bool {
	return plan.Request.Turn != nil && plan.Runner != ""
}
