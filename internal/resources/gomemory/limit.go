package gomemory

import "runtime/metrics"

// leastGarbage is the minimum amount of garbage that fits below the limit of the Go
// runtime, however little the collector has to scan: each collection also empties pools.
const leastGarbage = 32 << 20

// Limit is the limit of the Go runtime that fits the memory in use. Below it the
// collector lets the heap double. Near it the collector runs more often and returns
// free memory immediately. A fixed low limit would make the collector run all the time on
// a server whose indexes alone are larger.
type Limit struct {
	most  int64 // the limit that the process was given
	least int64 // the memory that the budget needs
	now   int64
}

// NewLimit returns the limit of a process whose Go runtime may use most bytes and whose
// budget needs least.
func NewLimit(least, most int64) *Limit { return &Limit{most: most, least: least, now: most} }

// Adjust returns the limit for the memory in use after the last collection, and whether
// it changed. The limit is the memory in use, plus a third of the memory that the collector
// scans, plus the overhead that no collection frees, and at least the need of the budget.
// Memory in use that is not scanned, such as heaps of runs and output that the NATS
// server keeps, costs the collector nothing, so it adds no garbage to the limit. The
// overhead may be a quarter of a heap of small objects; if the limit did not include the
// overhead, the collector of such a heap would take more time than the server. A small
// difference does not change the limit. If the limit is too low, it may lack at most a
// quarter of the garbage, because otherwise the collector would not stop.
func (l *Limit) Adjust(live, scanned, overhead int64) (limit int64, changed bool) {
	garbage := max(min(scanned, live)/3, leastGarbage)
	want := min(max(l.least, live+garbage+min(overhead, live/3)), l.most)
	if d := want - l.now; d == 0 || want != l.most && want != l.least && d > -l.now/20 && d < min(l.now/20, garbage/4) {
		return l.now, false
	}
	l.now = want
	return want, true
}

// AllocatedBytes returns the total bytes allocated since the start.
func AllocatedBytes() uint64 { return counter("/gc/heap/allocs:bytes") }

// LiveBytes returns the memory that the last collection found in use.
func LiveBytes() int64 { return int64(counter("/gc/heap/live:bytes")) }

// ScannedBytes returns the memory of the Go runtime that the collector has to read: all
// but objects without pointers.
func ScannedBytes() int64 { return int64(counter("/gc/scan/heap:bytes")) }

// UnusedBytes returns the memory of the process beyond LiveBytes.
func UnusedBytes() int64 { return mappedBytes() - LiveBytes() }

// OverheadBytes returns the memory of the Go runtime besides objects and free pages:
// stacks, its own data, and free memory between objects.
func OverheadBytes() int64 {
	return mappedBytes() - int64(counter("/memory/classes/heap/objects:bytes")+counter("/memory/classes/heap/free:bytes"))
}

// mappedBytes returns the memory that counts against the limit.
func mappedBytes() int64 {
	return int64(counter("/memory/classes/total:bytes") - counter("/memory/classes/heap/released:bytes"))
}

// Collections returns the number of completed collections.
func Collections() uint64 { return counter("/gc/cycles/total:gc-cycles") }

func counter(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
