package httpapi

import (
	"context"
	"time"
)

const (
	// leastPause and mostPause bound the time between two deliveries to a follower.
	// The longest is that within which a line must appear.
	leastPause = 10 * time.Millisecond
	mostPause  = 50 * time.Millisecond
	// followerPause is added for each follower of the same events: together they
	// may take a bounded number of deliveries a second.
	followerPause = mostPause / 64
)

// livePause is the least time between two deliveries to each of some followers. A
// script that writes much has its output recorded every millisecond, and its
// followers would do little but receive.
func livePause(followers int64) time.Duration {
	return min(leastPause+time.Duration(followers)*followerPause, mostPause)
}

// readLimiter spaces the reads that are made because something changed. The first is
// immediate.
type readLimiter struct{ last time.Time }

// wait returns when the next read may be made, or with ctx's error.
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
