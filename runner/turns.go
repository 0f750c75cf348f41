package runner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"daybook/ledger"
)

// errTurnWaits reports a request that was given back with a delay because the
// turn of its run has not come.
var errTurnWaits = errors.New("the run waits for its turn")

// turnDelay is how long a request is given back for when the turn of its run has
// not come, at most; half of it at least. The end of the turn before releases the
// request earlier: the delay only bounds what a lost release costs.
const turnDelay = 10 * time.Minute

// postpone gives back the request of a run whose turn has not come. The request
// then costs nothing but its entry in the queue. The turn before may have ended
// between the plan and the giving back, when its release had no effect yet. So
// the run is planned again afterwards, and released here if its turn has come.
// Nil means that the execution has ended.
func (r *Runner) postpone(l *life, req ledger.Request, plan ledger.Plan, d Delivery) error {
	delay := plan.Again
	if delay <= 0 {
		delay = r.turnDelay/2 + rand.N(r.turnDelay/2+1)
	}
	if err := d.Nak(l.records, delay); err != nil {
		return fmt.Errorf("give back a run that waits for its turn: %w", err)
	}
	r.stats.add(func(s *Stats) { s.Postponed++ })
	next, err := r.opts.Ledger.Plan(l.records, req, true)
	switch {
	case err != nil:
		return fmt.Errorf("plan the run: %w", err)
	case next.Ended != nil:
		return r.settle(l.records, req, *next.Ended)
	case next.After != "":
		return errTurnWaits
	}
	if err := d.Nak(l.records, 0); err != nil {
		return fmt.Errorf("give back a run whose turn has come: %w", err)
	}
	return errTurnWaits
}

// replaces reports whether a plan takes a run from another runner, which may
// still hold it. A request with a turn may be delivered while a runner holds it:
// it was released twice, or just when it was delivered for the first time.
func replaces(plan ledger.Plan) bool {
	return plan.Request.Turn != nil && plan.Runner != ""
}

// headLost fails a turn whose session head cannot be restored.
func headLost(req ledger.Request, in *input) {
	if req.Turn == nil || req.Heap == "" {
		return
	}
	switch {
	case in.refused == nil && in.hash == "":
		in.warnings = nil
		in.refused = &refusal{message: fmt.Sprintf("Heap %s is not on record.", req.Heap)}
	case in.refused == nil, in.refused.reason == ReasonHeapUnavailable:
		return
	}
	in.refused = &refusal{ledger.ReasonSessionHeadLost, in.refused.message +
		" This session continues from that heap. Call open_session with the same intent to start the session from a fresh isolate, or reset the session to another of its heaps."}
}
