package embed

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// use counts the requests and clients that keep a background owner running.
type use struct {
	released chan struct{}

	mu     sync.Mutex
	why    string // guarded by mu; empty until the directory is released
	active int    // requests and clients on the socket
	last   time.Time
}

func newUse() *use { return &use{released: make(chan struct{}), last: time.Now()} }

// countRequests counts the requests of a handler.
func (u *use) countRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.add(1)
		defer u.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (u *use) add(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active += n
	u.last = time.Now()
}

// release closes released, once.
func (u *use) release(why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.why == "" {
		u.why = why
		close(u.released)
	}
}

// releaseIdle releases the directory if it was not used for the given duration.
func (u *use) releaseIdle(after time.Duration) {
	u.mu.Lock()
	idle := u.active == 0 && time.Since(u.last) >= after
	u.mu.Unlock()
	if idle {
		u.release("nothing used it for " + after.String())
	}
}

// Released returns a channel that is closed if a Daybook with Options.Owner.Background is to
// be closed: another process requests the data directory, or the Daybook is idle. The
// program MUST then call Close.
func (d *Daybook) Released() <-chan struct{} { return d.use.released }

// ReleaseReason returns the reason why Released is closed, or an empty string.
func (d *Daybook) ReleaseReason() string {
	d.use.mu.Lock()
	defer d.use.mu.Unlock()
	return d.use.why
}

// watchUse releases a background owner that is idle.
func (d *Daybook) watchUse(ctx context.Context) error {
	if !d.opts.Owner.Background || d.opts.Owner.IdleExit <= 0 {
		return nil
	}
	d.use.add(0) // idle time counts from here: the start may have taken longer
	every := min(max(d.opts.Owner.IdleExit/4, 10*time.Millisecond), 10*time.Second)
	d.watchingUse = startTask(ctx, func(ctx context.Context) {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if d.hasRuns(ctx) {
				d.use.add(0) // idle time counts from the end of the last run
				continue
			}
			d.use.releaseIdle(d.opts.Owner.IdleExit)
		}
	})
	return nil
}

// hasRuns reports whether a run of any tenant is running or queued. An error counts as
// a run.
func (d *Daybook) hasRuns(ctx context.Context) bool {
	if d.runner == nil {
		return false // the ledger is damaged: no run starts here
	}
	if d.runner.Stats().InFlight > 0 {
		return true
	}
	n, err := d.projections.UnfinishedRuns(ctx)
	return err != nil || n > 0
}
