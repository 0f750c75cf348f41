package queue

import (
	"context"
	"sync"
	"time"
)

// holders holds the runs that this process holds, with the functions that cancel them.
// If no other process takes requests of the ledger, these are all runs that are held, and
// cancel requests need no server. A run can be held twice, if its request was delivered
// twice.
type holders struct {
	mu   sync.Mutex
	runs map[heldRun]map[*func() bool]struct{} // guarded by mu
}

type heldRun struct{ tenant, execution string }

// add adds a run. remove removes it and may be called more than once.
func (h *holders) add(run heldRun, cancel func() bool) (remove func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[heldRun]map[*func() bool]struct{}{}
	}
	if h.runs[run] == nil {
		h.runs[run] = map[*func() bool]struct{}{}
	}
	h.runs[run][&cancel] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.runs[run], &cancel)
		if len(h.runs[run]) == 0 {
			delete(h.runs, run)
		}
	}
}

// of returns the functions that cancel a run, none if it is not held.
func (h *holders) of(run heldRun) (cancel []func() bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for fn := range h.runs[run] {
		cancel = append(cancel, *fn)
	}
	return cancel
}

// cancel cancels a run and waits up to timeout for the first answer. It reports false
// if the run is not held, was not ended, or gave no answer in time.
func (h *holders) cancel(ctx context.Context, run heldRun, timeout time.Duration) (done bool, err error) {
	list := h.of(run)
	if len(list) == 0 {
		return false, nil
	}
	answers := make(chan bool, len(list))
	for _, fn := range list {
		go func() { answers <- fn() }()
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case done := <-answers:
		return done, nil
	case <-late.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
