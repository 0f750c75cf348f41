package embed

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"daybook/internal/resources/gomemory"
)

const (
	// memoryCheck is the interval of checks of the memory.
	memoryCheck = time.Second
	// unusedKept is the time for which a heap without a run, and a part of an archive without a
	// lookup, are kept in memory, however busy the server is: the scrub of a long ledger alone
	// may keep it busy for hours. They are read again from disk.
	unusedKept = 30 * time.Second
	// limitHeadroom is the memory that the Go runtime may use besides the budget before
	// the collector runs more often: the embedded NATS server, indexes, stacks.
	limitHeadroom = 16 << 20
)

// startTrimming starts to return memory to the operating system while the server is
// idle or lightly loaded.
func (d *Daybook) startTrimming(ctx context.Context) error {
	d.trimming = startTask(ctx, func(ctx context.Context) {
		t := gomemory.Trimmer{Allocated: gomemory.AllocatedBytes, Unused: gomemory.UnusedBytes, Trim: d.trim}
		setPercent := func(light bool) {}
		if d.opts.Resources.LimitMemory {
			percent := debug.SetGCPercent(100)
			debug.SetGCPercent(percent)
			defer debug.SetGCPercent(percent)
			now := percent
			setPercent = func(light bool) {
				// A change stops all goroutines for a moment, so small ones are not made.
				want := gomemory.GCPercent(percent, light, gomemory.LiveBytes())
				if want != now && (want == percent || max(want, now) > min(want, now)*5/4) {
					now = want
					debug.SetGCPercent(now)
				}
			}
		}
		everyMemoryCheck(ctx, func() {
			d.store.DropUnused(unusedKept)
			d.memoryShort.Store(d.isMemoryShort())
			setPercent(t.Check())
		})
	})
	return nil
}

// limitMemory limits the growth of the process beyond the memory budget, from the start
// on: a server that reads its ledger after a crash allocates as much as a busy one.
func (d *Daybook) limitMemory(ctx context.Context) error {
	if !d.opts.Resources.LimitMemory {
		return nil
	}
	most := debug.SetMemoryLimit(-1)
	limit := gomemory.NewLimit(int64(d.opts.Resources.MemoryMB)<<20+limitHeadroom, most)
	adjust := func() {
		if n, changed := limit.Adjust(gomemory.LiveBytes(), gomemory.ScannedBytes(), gomemory.OverheadBytes()); changed {
			debug.SetMemoryLimit(n)
		}
	}
	adjust()
	d.limiting = startTask(ctx, func(ctx context.Context) {
		defer debug.SetMemoryLimit(most)
		everyMemoryCheck(ctx, adjust)
	})
	return nil
}

// everyMemoryCheck calls check every memoryCheck until ctx is done.
func everyMemoryCheck(ctx context.Context, check func()) {
	tick := time.NewTicker(memoryCheck)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			check()
		case <-ctx.Done():
			return
		}
	}
}

// trim returns free memory to the operating system. With caches it also drops the
// caches, whose content can be read again.
func (d *Daybook) trim(caches bool) {
	if caches {
		d.store.ClearCache()
	}
	d.projections.ReleaseMemory()
	runtime.GC() // pools drop what was not used between two collections
	debug.FreeOSMemory()
}
