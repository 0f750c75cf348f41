package embed

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// memoryCheck is the interval of checks of the memory.
	memoryCheck = time.Second
	// idleChecks is the number of checks in which little must be allocated before
	// memory is returned.
	idleChecks = 20
	// idleBytes is the most that counts as little: what an idle server allocates in
	// that time for metrics and health checks.
	idleBytes = 16 << 20
	// lightBytes is the allocation of a server with few requests in that time.
	// keptBytes is the unused memory that such a server may keep although it could
	// return it.
	lightBytes, keptBytes = 256 << 20, 48 << 20
	// heapsKept is the time for which a heap without a run is kept in memory, however
	// busy the server is. Sessions whose next run comes later read it from disk.
	heapsKept = 30 * time.Second
	// limitHeadroom is the memory that the Go runtime may use besides the budget before
	// the collector runs more often: the embedded NATS server, indexes, stacks.
	limitHeadroom = 16 << 20
	// leastGarbage is the minimum of garbage below the limit of the Go runtime, however
	// little the collector has to scan: each collection also empties pools.
	leastGarbage = 32 << 20
)

// startTrimming starts to return memory to the operating system while the server is
// idle or lightly loaded.
func (d *Daybook) startTrimming(ctx context.Context) error {
	d.trimming = startTask(ctx, func(ctx context.Context) {
		t := trimmer{allocated: allocatedBytes, unused: unusedBytes, trim: d.trim, setLight: func(bool) {}}
		if d.opts.Resources.LimitMemory {
			percent := debug.SetGCPercent(100)
			debug.SetGCPercent(percent)
			defer debug.SetGCPercent(percent)
			t.setLight = func(light bool) { debug.SetGCPercent(gcPercent(percent, light)) }
		}
		everyMemoryCheck(ctx, func() {
			d.store.DropUnusedHeaps(heapsKept)
			t.check()
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
	limit := memoryLimit{most: most, least: int64(d.opts.Resources.MemoryMB)<<20 + limitHeadroom, now: most}
	adjust := func() {
		if n, changed := limit.adjust(liveBytes(), scannedBytes(), overheadBytes()); changed {
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

// trimmer decides when memory is returned. Without it the garbage collector keeps twice
// the size of the last busy time, and the caches keep content that may never be
// requested again.
type trimmer struct {
	allocated func() uint64 // total bytes allocated since the start
	unused    func() int64  // bytes that the Go runtime has and does not use
	trim      func(caches bool)
	setLight  func(light bool) // called when the load becomes light, and when it is no longer light

	seen    [idleChecks]uint64 // allocated at the last checks, a ring
	checks  int
	trimmed uint64 // allocated at the last trim
	last    int    // the check of the last trim
	light   bool
	// stuck is the memory that no trim returns, such as free memory between objects:
	// the unused memory after the last trim, or less. It is 0 after a busy time.
	stuck int64
}

// check trims everything if little was allocated in the last idleChecks checks but more
// since the last trim. It trims everything but the caches if much memory is unused
// under a light load.
func (t *trimmer) check() {
	now, unused := t.allocated(), t.unused()
	t.stuck = min(t.stuck, unused)
	slot := t.checks % idleChecks
	grown := now - t.seen[slot]
	t.seen[slot] = now
	t.checks++
	if t.checks <= idleChecks {
		return
	}
	if light := grown < lightBytes; light != t.light {
		t.light = light
		t.setLight(light)
	}
	if !t.light {
		t.stuck = 0 // what was stuck then is free when the load ends
	}
	idle := grown < idleBytes && now-t.trimmed >= idleBytes
	if !idle && (!t.light || t.checks-t.last < idleChecks || unused-t.stuck < keptBytes) {
		return
	}
	t.trim(idle)
	t.last, t.stuck = t.checks, t.unused()
	if idle {
		t.trimmed = t.allocated()
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

// gcPercent returns the allocation between two collections, in percent of the memory in
// use. Under a light load the collector has little to do, and a lower percentage leaves
// less garbage: the scrub of a ledger alone allocates some MB per second.
func gcPercent(percent int, light bool) int {
	if light && percent > 0 {
		return max(percent/4, 1)
	}
	return percent
}

// memoryLimit is the limit of the Go runtime that fits the memory in use. Below it the
// collector lets the heap double. Near it the collector runs more often and returns
// free memory at once. A fixed low limit would make the collector run all the time on a
// server whose indexes alone are larger.
type memoryLimit struct {
	most  int64 // the limit that the process was given
	least int64 // what the budget needs
	now   int64
}

// adjust returns the limit for the memory in use after the last collection, and whether
// it changed. The limit is the memory in use, plus a third of what the collector scans,
// plus the overhead that no collection frees, and at least what the budget needs.
// Memory in use that is not scanned, such as heaps of runs and output that the NATS
// server keeps, costs the collector nothing, so it adds no garbage to the limit. The
// overhead may be a quarter of a heap of small objects; without it the collector of
// such a heap would take more time than the server. A small difference does not change
// the limit: a limit that is too low may lack at most a quarter of the garbage, or the
// collector would not stop.
func (l *memoryLimit) adjust(live, scanned, overhead int64) (limit int64, changed bool) {
	garbage := max(min(scanned, live)/3, leastGarbage)
	want := min(max(l.least, live+garbage+min(overhead, live/3)), l.most)
	if d := want - l.now; d == 0 || want != l.most && want != l.least && d > -l.now/20 && d < min(l.now/20, garbage/4) {
		return l.now, false
	}
	l.now = want
	return want, true
}

func allocatedBytes() uint64 { return counter("/gc/heap/allocs:bytes") }

// liveBytes returns the memory that the last collection found in use.
func liveBytes() int64 { return int64(counter("/gc/heap/live:bytes")) }

// scannedBytes returns the memory of the Go runtime that the collector has to read: all
// but objects without pointers.
func scannedBytes() int64 { return int64(counter("/gc/scan/heap:bytes")) }

// unusedBytes returns the memory of the process beyond liveBytes.
func unusedBytes() int64 { return mappedBytes() - liveBytes() }

// overheadBytes returns the memory of the Go runtime besides objects and free pages:
// stacks, its own data, and free memory between objects.
func overheadBytes() int64 {
	return mappedBytes() - int64(counter("/memory/classes/heap/objects:bytes")+counter("/memory/classes/heap/free:bytes"))
}

// mappedBytes returns the memory that counts against the limit.
func mappedBytes() int64 {
	return int64(counter("/memory/classes/total:bytes") - counter("/memory/classes/heap/released:bytes"))
}
