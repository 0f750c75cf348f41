package owner

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

// Released returns a channel that is closed if a background owner is to release the data
// directory: another process requests it, or the owner is idle.
func (s *Server) Released() <-chan struct{} { return s.use.released }

// ReleaseReason returns the reason why Released is closed, or an empty string.
func (s *Server) ReleaseReason() string {
	s.use.mu.Lock()
	defer s.use.mu.Unlock()
	return s.use.why
}

// WatchUse releases a background owner that is idle for IdleExit, or not at all if that is
// not positive. hasRuns reports whether a run is running or queued. WatchUse blocks until
// ctx is done.
func (s *Server) WatchUse(ctx context.Context, hasRuns func(context.Context) bool) {
	if !s.opts.Background || s.opts.IdleExit <= 0 {
		return
	}
	s.use.add(0) // idle time counts from here: the start may have taken longer
	tick := time.NewTicker(min(max(s.opts.IdleExit/4, 10*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if hasRuns(ctx) {
			s.use.add(0) // idle time counts from the end of the last run
			continue
		}
		s.use.releaseIdle(s.opts.IdleExit)
	}
}
