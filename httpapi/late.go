package httpapi

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// lateLogEvery is the minimum time between two warnings about late reads: clients can
// cause any number of late reads.
const lateLogEvery = 10 * time.Second

// errLate is wrapped by the error of a late read.
var errLate = errors.New("late read")

// late counts late reads: reads whose position the projections did not apply within
// freshWait.
type late struct {
	reads  atomic.Uint64
	warned rate.Sometimes
	since  atomic.Uint64 // value of reads at the last warning
}

// sawLate counts a late read and logs a warning, at most every lateLogEvery.
func (a *api) sawLate(ctx context.Context, want uint64) {
	n := a.late.reads.Add(1)
	if a.countLate != nil {
		a.countLate()
	}
	a.late.warned.Do(func() {
		a.log.WarnContext(ctx, "reads are late: the projections are behind the ledger", "reads", n-a.late.since.Swap(n), "applied", a.q.Applied(), "wanted", want)
	})
}
