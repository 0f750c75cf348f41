package httpapi

import (
	"context"
	"time"
)

const (
	// minPause and maxPause bound the time between two deliveries to a follower. A line
	// must appear within maxPause.
	minPause = 10 * time.Millisecond
	maxPause = 50 * time.Millisecond
	// followerPause is added for each follower of the same events. It bounds the number of
	// deliveries per second to all of them.
	followerPause = maxPause / 64
)

// livePause returns the minimum time between two deliveries to each of a number of
// followers. The output of a busy script is recorded every millisecond, which would
// keep its followers busy receiving.
func livePause(followers int64) time.Duration {
	return min(minPause+time.Duration(followers)*followerPause, maxPause)
}

// readLimiter limits the rate of reads that follow a change signal. The first read is
// immediate.
type readLimiter struct{ last time.Time }

// wait blocks until pause has elapsed since the last read, or returns the error of ctx.
func (p *readLimiter) wait(ctx context.Context, pause time.Duration) error {
	if early := pause - time.Since(p.last); !p.last.IsZero() && early > 0 {
		t := time.NewTimer(early)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.last = time.Now()
	return nil
}
