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
	// SetLight is called when the load becomes light, and when it is no longer light.
	SetLight func(light bool)

	seen    [idleChecks]uint64 // allocated at the last checks, a ring
	checks  int
	trimmed uint64 // allocated at the last trim
	last    int    // the check of the last trim
	light   bool
	// stuck is the memory that no trim returns, such as free memory between objects:
	// the unused memory after the last trim, or less. It is 0 after a busy time.
	stuck int64
}

// Check trims everything if less than idleBytes was allocated in the last idleChecks checks,
// and at least idleBytes since the last such trim. It trims everything but the caches if
// much memory is unused under a light load.
func (t *Trimmer) Check() {
	now, unused := t.Allocated(), t.Unused()
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
		t.SetLight(light)
	}
	if !t.light {
		t.stuck = 0 // this memory may be free when the load ends
	}
	idle := grown < idleBytes && now-t.trimmed >= idleBytes
	if !idle && (!t.light || t.checks-t.last < idleChecks || unused-t.stuck < keptBytes) {
		return
	}
	t.Trim(idle)
	t.last, t.stuck = t.checks, t.Unused()
	if idle {
		t.trimmed = t.Allocated()
	}
}

// GCPercent returns the allocation between two collections, in percent of the memory in
// use. Under a light load the collector has little to do, and a lower percentage leaves
// less garbage: the scrub of a ledger alone allocates some MB per second.
func GCPercent(percent int, light bool) int {
	if light && percent > 0 {
		return max(percent/4, 1)
	}
	return percent
}
