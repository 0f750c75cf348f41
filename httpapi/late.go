package httpapi

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// lateLogEvery is the least time between two warnings about late reads: clients can
// cause any number of late reads.
const lateLogEvery = 10 * time.Second

// errLate is wrapped by the answer to a read that did not get the position it needs in
// time.
var errLate = errors.New("late read")

// late counts the reads that did not get the position they need in time.
type late struct {
	reads  atomic.Uint64
	warned rate.Sometimes
	since  atomic.Uint64 // of reads, at the last warning
}

// sawLate counts a late read.
func (a *api) sawLate(ctx context.Context, want uint64) {
	n := a.late.reads.Add(1)
	if a.countLate != nil {
		a.countLate()
	}
	a.late.warned.Do(func() {
		a.log.WarnContext(ctx, "reads are late: the projections are behind the ledger", "reads", n-a.late.since.Swap(n), "applied", a.q.Applied(), "wanted", want)
	})
}
