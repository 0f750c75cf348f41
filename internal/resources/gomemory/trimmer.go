package gomemory

const (
	// idleChecks is the number of checks in which little must be allocated before
	// memory is returned.
	idleChecks = 20
	// idleBytes is the most that counts as little: the allocation of an idle server in
	// that time, for metrics and health checks.
	idleBytes = 16 << 20
	// lightBytes is the allocation of a server with few requests in that time.
	// keptBytes is the unused memory that such a server may keep although it could
	// return it.
	lightBytes, keptBytes = 256 << 20, 48 << 20
	// burstBytes is the allocation between two checks that ends a light load immediately.
	burstBytes = 16 << 20
	// busyGarbage is the garbage that a server without a light load may have before a
	// collection, however little memory is in use. More than that costs more in the caches of
	// the processor than fewer collections save.
	busyGarbage = 32 << 20
	// lightGarbage is the same for a server with a light load.
	lightGarbage = 8 << 20
	// leastLive is the smallest heap that the Go runtime collects at 100 percent; it scales this
	// minimum with the percentage.
	leastLive = 4 << 20
)

// Trimmer decides when memory is returned. Without it the garbage collector keeps twice
// the size of the last busy time, and the caches keep content that may never be
// requested again.
type Trimmer struct {
	// Allocated returns the total bytes allocated since the start, Unused the bytes that
	// the Go runtime has and does not use.
	Allocated func() uint64
	Unused    func() int64
	// Trim returns memory, with caches also that of the caches.
	Trim func(caches bool)

	seen    [idleChecks]uint64 // allocated at the last checks, a ring
	checks  int
	trimmed uint64 // allocated at the last trim
	last    int    // the check of the last trim
	// stuck is the memory that no trim returns, such as free memory between objects:
	// the unused memory after the last trim, or less. It is 0 after a busy time.
	stuck int64
}

// Check trims everything if less than idleBytes was allocated in the last idleChecks checks,
// and at least idleBytes since the last such trim. It trims everything but the caches if
// much memory is unused under a light load. It reports whether the load is light and still
// was since the last check.
func (t *Trimmer) Check() (light bool) {
	now, unused := t.Allocated(), t.Unused()
	t.stuck = min(t.stuck, unused)
	slot := t.checks % idleChecks
	grown := now - t.seen[slot]
	burst := now-t.seen[(t.checks+idleChecks-1)%idleChecks] >= burstBytes
	t.seen[slot] = now
	t.checks++
	if t.checks <= idleChecks {
		return false
	}
	light = grown < lightBytes
	if !light {
		t.stuck = 0 // this memory may be free when the load ends
	}
	idle := grown < idleBytes && now-t.trimmed >= idleBytes
	if !idle && (!light || t.checks-t.last < idleChecks || unused-t.stuck < keptBytes) {
		return light && !burst
	}
	t.Trim(idle)
	t.last, t.stuck = t.checks, t.Unused()
	if idle {
		t.trimmed = t.Allocated()
	}
	return light && !burst
}

// GCPercent returns the allocation between two collections, in percent of the memory in
// use, which is live. Under a light load the collector has little to do, and a lower
// percentage leaves less garbage: the scrub of a ledger alone allocates some MB per second.
// But a small heap may have at least lightGarbage or busyGarbage, because each collection also
// empties pools and shrinks stacks, and would otherwise follow every few requests. percent is
// the percentage of the process and scales all of this.
func GCPercent(percent int, light bool, live int64) int {
	if percent <= 0 {
		return percent
	}
	share, least := percent, int64(busyGarbage)
	if light {
		share, least = max(percent/4, 1), lightGarbage
	}
	return max(share, int(int64(percent)*least/max(live, leastLive)))
}
