package embed

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// memoryCheck is how often the memory is looked at.
	memoryCheck = time.Second
	// idleChecks is for how many checks little may have been allocated before memory is
	// given back.
	idleChecks = 20
	// idleBytes is little: what an idle server allocates in that time for metrics and
	// health checks.
	idleBytes = 16 << 20
	// lightBytes is what a server with few requests allocates in that time, and
	// keptBytes how much memory it may keep then that it does not use and could give
	// back.
	lightBytes, keptBytes = 256 << 20, 48 << 20
	// heapsKept is for how long a heap that no run uses is kept in memory, however busy
	// the server is: sessions whose next run comes later wait for the disk.
	heapsKept = 30 * time.Second
	// limitHeadroom is what the Go runtime may use besides the budget before the
	// collector runs more often: the embedded NATS server, indexes, stacks.
	limitHeadroom = 16 << 20
	// leastGarbage is how much garbage the limit of the Go runtime leaves room for, however
	// little the collector has to scan: each collection also empties pools.
	leastGarbage = 32 << 20
)

// startTrimming gives memory back to the operating system while the server has little
// to do.
func (d *Daybook) startTrimming(ctx context.Context) error {
	d.trimming = follow(ctx, func(ctx context.Context) {
		t := trimmer{allocated: allocated, unused: unused, trim: d.trim, setLight: func(bool) {}}
		if d.opts.LimitMemory {
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

// limitMemory keeps the garbage collector from letting the process grow far beyond the
// memory budget, from the start on: a server that reads its ledger after a crash
// allocates as much as a busy one.
func (d *Daybook) limitMemory(ctx context.Context) error {
	if !d.opts.LimitMemory {
		return nil
	}
	most := debug.SetMemoryLimit(-1)
	limit := memoryLimit{most: most, least: int64(d.opts.MemoryMB)<<20 + limitHeadroom, now: most}
	adjust := func() {
		if n, changed := limit.adjust(live(), scanned(), overhead()); changed {
			debug.SetMemoryLimit(n)
		}
	}
	adjust()
	d.limiting = follow(ctx, func(ctx context.Context) {
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

// trimmer decides when memory is given back. The garbage collector alone keeps twice
// the size of the last busy moment, and the caches what no caller may ask for again.
type trimmer struct {
	allocated func() uint64 // bytes that were ever allocated
	unused    func() int64  // bytes that the Go runtime has and does not use
	trim      func(caches bool)
	setLight  func(light bool) // is called when the load becomes light, and when it does no longer

	seen    [idleChecks]uint64 // allocated at the last checks, a ring
	checks  int
	trimmed uint64 // allocated at the last trim
	last    int    // the check of the last trim
	light   bool
	// stuck is what no trim gives back, such as free memory between objects: what was
	// unused after the last trim, or less. It is 0 after a busy time.
	stuck int64
}

// check trims all if little was allocated during the last checks, but more since the
// last trim, and all but the caches if much is unused while there is little to do.
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
		t.stuck = 0 // what was stuck then is free once the load ends
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

// trim returns free memory to the operating system, with that of caches, whose content
// can be read again, if asked to.
func (d *Daybook) trim(caches bool) {
	if caches {
		d.store.ClearCache()
	}
	d.projections.ReleaseMemory()
	runtime.GC() // pools drop what was not used between two collections
	debug.FreeOSMemory()
}

// gcPercent is how much may be allocated between two collections, in percent of what is
// in use. Under a light load the collector has little to do, and less of the garbage
// waits for it: the scrub of a ledger alone allocates some MB a second.
func gcPercent(percent int, light bool) int {
	if light && percent > 0 {
		return max(percent/4, 1)
	}
	return percent
}

// memoryLimit is the limit of the Go runtime that fits what is in use. Below it the
// collector lets the heap double; near it, it runs more often and returns free memory
// at once. A limit that is always as low would have the collector run all the time on a
// server whose indexes alone are larger.
type memoryLimit struct {
	most  int64 // that the process was given
	least int64 // what the budget needs
	now   int64
}

// adjust returns the limit for what was in use after the last collection, and whether
// it is another one: a third of what the collector scans more than that, and the overhead
// that no collection frees, at least what the budget needs. What is in use and not
// scanned, such as heaps of runs and output that the NATS server keeps, costs the
// collector nothing, so it earns no room for garbage. Without the overhead, which may be a
// quarter of a heap of small objects, the collector of such a heap would take more time
// than the server. A small difference is not worth a change: a limit that is too low may
// lack a quarter of the room for garbage at most, or the collector would not stop.
func (l *memoryLimit) adjust(live, scanned, overhead int64) (limit int64, changed bool) {
	garbage := max(min(scanned, live)/3, leastGarbage)
	want := min(max(l.least, live+garbage+min(overhead, live/3)), l.most)
	if d := want - l.now; d == 0 || want != l.most && want != l.least && d > -l.now/20 && d < min(l.now/20, garbage/4) {
		return l.now, false
	}
	l.now = want
	return want, true
}

func allocated() uint64 { return counter("/gc/heap/allocs:bytes") }

// live is what the last collection found in use.
func live() int64 { return int64(counter("/gc/heap/live:bytes")) }

// scanned is how much of the memory of the Go runtime the collector has to read, which is
// all but objects without pointers.
func scanned() int64 { return int64(counter("/gc/scan/heap:bytes")) }

// unused is what the process has beyond live.
func unused() int64 { return mapped() - live() }

// overhead is the memory of the Go runtime besides objects and free pages: stacks, its
// own data, and free memory between objects.
func overhead() int64 {
	return mapped() - int64(counter("/memory/classes/heap/objects:bytes")+counter("/memory/classes/heap/free:bytes"))
}

// mapped is the memory that counts against the limit.
func mapped() int64 {
	return int64(counter("/memory/classes/total:bytes") - counter("/memory/classes/heap/released:bytes"))
}
