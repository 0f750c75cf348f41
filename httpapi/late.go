package httpapi

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// lateLogInterval is the minimum time between two warnings about late reads: clients can
// cause any number of late reads.
const lateLogInterval = 10 * time.Second

// errLate is wrapped by the error of a late read.
var errLate = errors.New("late read")

// lateReads counts late reads: reads whose position the projections did not apply within
// positionTimeout.
type lateReads struct {
	reads  atomic.Uint64
	warned rate.Sometimes
	since  atomic.Uint64 // value of reads at the last warning
}

// countLateRead counts a late read and logs a warning, at most every lateLogInterval.
func (a *api) countLateRead(ctx context.Context, want uint64) {
	n := a.late.reads.Add(1)
	if a.countLate != nil {
		a.countLate()
	}
	a.late.warned.Do(func() {
		a.log.WarnContext(ctx, "reads are late: the projections are behind the ledger", "reads", n-a.late.since.Swap(n), "applied", a.q.Applied(), "wanted", want)
	})
}
