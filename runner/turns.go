package runner

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/ledger"
)

// errTurnCome reports a run that waited for its turn in a session and need not
// any longer: whoever is delivered the request next runs it.
var errTurnCome = errors.New("the run's turn has come")

// How often a waiting run looks whether its turn has come: of a run that it
// waits for elsewhere it is not told, and of one in this runner's hands it is.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = 250 * time.Millisecond
	nearLook  = 10 * time.Second
)

// await keeps a run in hand until the run before it in its session has ended,
// and then gives it back to be delivered at once. Meanwhile it takes no slot and
// costs no attempt; if the process dies it is delivered to another. Nil means
// that the execution has ended.
func (r *Runner) await(l *life, req ledger.Request, plan ledger.Plan, d Delivery) (err error) {
	d.Park()
	r.stats.add(func(s *Stats) { s.Waiting++ })
	defer r.stats.add(func(s *Stats) { s.Waiting-- })

	cancelled, over := make(chan struct{}, 1), make(chan struct{})
	silence, err := r.opts.Work.ListenCancel(req.Tenant, req.ExecutionID, func() bool {
		select {
		case cancelled <- struct{}{}:
		default:
		}
		<-over
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("listen for cancel requests: %w", err)
	}
	defer silence()
	defer close(over)
	for look := firstLook; ; look = min(2*look, lastLook) {
		// Asked for before the record is read: an end after that is told of.
		ended, near := r.hands.of(req.Tenant, plan.After)
		next, err := r.opts.Ledger.Plan(l.records, req, true)
		switch {
		case err != nil:
			return fmt.Errorf("plan the run: %w", err)
		case next.Ended != nil:
			return r.settle(l.records, req, *next.Ended)
		case next.Attempt != plan.Attempt:
			return ledger.ErrSuperseded // somebody took this run for lost, and began it
		case next.After == "":
			return errTurnCome
		case next.After != plan.After:
			plan.After, look = next.After, firstLook
			continue
		}
		delay := look
		if near {
			delay = nearLook
		}
		late := time.NewTimer(delay)
		select {
		case <-late.C:
		case <-ended:
		case <-cancelled:
		case <-l.draining:
			late.Stop()
			return errTurnCome
		}
		late.Stop()
	}
}

// hands tells which executions are in the hands of a runner, and when one is no
// longer.
type hands struct {
	mu sync.Mutex
	by map[handKey]*hand
}

type handKey struct{ tenant, execution string }

type hand struct {
	holders int
	empty   chan struct{}
}

// take is called when a request is delivered; drop when it has been dealt with.
func (h *hands) take(tenant, execution string) (drop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := handKey{tenant, execution}
	one := h.by[key]
	if one == nil {
		one = &hand{empty: make(chan struct{})}
		if h.by == nil {
			h.by = map[handKey]*hand{}
		}
		h.by[key] = one
	}
	one.holders++
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if one.holders--; one.holders == 0 {
			delete(h.by, key)
			close(one.empty)
		}
	})
}

// of returns what is closed when an execution is no longer in hand. It reports
// false, and nothing to wait for, when it is not.
func (h *hands) of(tenant, execution string) (empty <-chan struct{}, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.by[handKey{tenant, execution}]
	if one == nil {
		return nil, false
	}
	return one.empty, true
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
