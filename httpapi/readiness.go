package httpapi

import (
	"context"
	"sync"
	"time"
)

// readyShareTime is the time for which the result of a readiness check is shared. The check
// sends requests to the NATS server, and clients without a token may request it.
const readyShareTime = 100 * time.Millisecond

// sharedCheck runs a check once for the requests that need it at about the same time.
// It is safe for concurrent use.
type sharedCheck struct {
	check func(context.Context) error

	mu      sync.Mutex
	running chan struct{} // closed when the running check has ended; nil if none runs
	ended   time.Time     // end of the last check; zero without a result to share
	err     error         // the result
}

// do returns the result of a check that ended less than readyShareTime ago, or runs a check.
func (s *sharedCheck) do(ctx context.Context) error {
	for {
		s.mu.Lock()
		if !s.ended.IsZero() && time.Since(s.ended) < readyShareTime {
			defer s.mu.Unlock()
			return s.err
		}
		running := s.running
		if running == nil {
			s.running = make(chan struct{})
			s.mu.Unlock()
			return s.run(ctx)
		}
		s.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run runs the check. A result for a client that has disconnected is not shared.
func (s *sharedCheck) run(ctx context.Context) (err error) {
	answered := false
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		close(s.running)
		s.running = nil
		if answered && ctx.Err() == nil {
			s.ended, s.err = time.Now(), err
		}
	}()
	err = s.check(ctx)
	answered = true
	return err
}
