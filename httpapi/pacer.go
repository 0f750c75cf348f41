package httpapi

import (
	"context"
	"time"
)

// readPace is the least time between two reads of one follower: a script that
// writes much commits every millisecond, and its followers would do little but
// read. It is well below the 50 ms within which a line must appear.
const readPace = 10 * time.Millisecond

// pacer spaces the reads that one follower makes because something changed. The
// first is immediate.
type pacer struct{ last time.Time }

// wait returns when the next read may be made, or with ctx's error.
func (p *pacer) wait(ctx context.Context) error {
	if early := readPace - time.Since(p.last); !p.last.IsZero() && early > 0 {
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
