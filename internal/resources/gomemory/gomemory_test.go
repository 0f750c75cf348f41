package gomemory

import (
	"math"
	"testing"
)

// Memory is returned once after a busy time, and not while the server works.
func TestTrimming(t *testing.T) {
	t.Parallel()
	var total uint64
	var unused, stuck int64
	all, some := 0, 0
	light := false
	tr := Trimmer{Allocated: func() uint64 { return total }, Unused: func() int64 { return unused }, Trim: func(caches bool) {
		if caches {
			all++
		} else {
			some++
		}
		unused = stuck
	}}
	check := func(times int, allocate uint64, wantAll, wantSome int) {
		t.Helper()
		for range times {
			total += allocate
			light = tr.Check()
		}
		if all != wantAll || some != wantSome {
			t.Errorf("after %d checks with %d bytes each: %d trims, and %d without the caches; want %d and %d", times, allocate, all, some, wantAll, wantSome)
		}
	}
	check(100, 2<<20, 0, 0)
	if !light {
		t.Error("40 MiB in 20 s count as a heavy load")
	}
	check(idleChecks, 1<<10, 1, 0)
	check(100, 1<<10, 1, 0)
	check(3, 100<<20, 1, 0)
	if light {
		t.Error("300 MiB in 3 s count as a light load")
	}
	check(idleChecks+1, 0, 2, 0)
	// Requests at a moderate rate keep the caches.
	unused = 200 << 20
	check(100, 20<<20, 2, 0)
	unused = 200 << 20
	check(2*idleChecks, 2<<20, 2, 1)
	check(100, 2<<20, 2, 1)
	unused = 200 << 20
	check(idleChecks, 2<<20, 2, 2)
	// Memory that no trim returns does not cause further trims.
	unused, stuck = 200<<20, 120<<20
	check(idleChecks, 2<<20, 2, 3)
	check(10*idleChecks, 2<<20, 2, 3)
	unused = stuck + keptBytes
	check(1, 2<<20, 2, 4)
	unused, stuck = 10<<20, 10<<20 // the large objects between the free memory were freed
	check(idleChecks, 2<<20, 2, 4)
	unused = 70 << 20
	check(1, 2<<20, 2, 5)
	// After a busy time there is one more trim.
	unused, stuck = 200<<20, 180<<20
	check(idleChecks, 2<<20, 2, 6)
	check(2*idleChecks, 2<<20, 2, 6)
	check(2*idleChecks, 20<<20, 2, 6)
	check(2*idleChecks, 2<<20, 2, 7)
}

// A load is light only if it was at several checks and still is. Otherwise a small heap may have more
// garbage than it has memory in use.
func TestCollectorPercent(t *testing.T) {
	t.Parallel()
	var total uint64
	tr := Trimmer{Allocated: func() uint64 { return total }, Unused: func() int64 { return 0 }, Trim: func(bool) {}}
	for range idleChecks {
		if tr.Check() {
			t.Error("the load of a server that has just started counts as light")
		}
	}
	for _, step := range []struct {
		allocate uint64
		light    bool
	}{{1 << 20, true}, {burstBytes, false}, {burstBytes - 1, true}, {lightBytes, false}, {0, false}} {
		total += step.allocate
		if got := tr.Check(); got != step.light {
			t.Errorf("a check after %d bytes says light load: %v", step.allocate, got)
		}
	}
	for _, c := range []struct {
		percent int
		light   bool
		live    int64
		want    int
	}{
		{100, true, 16 << 20, 50},
		{100, true, 32 << 20, 25},
		{100, true, 1 << 30, 25},
		{100, true, 0, 200},
		{100, false, 16 << 20, 200},
		{100, false, 30 << 20, 106},
		{100, false, 32 << 20, 100},
		{100, false, 1 << 30, 100},
		{100, false, 0, 800},
		{50, false, 16 << 20, 100},
		{2, true, 64 << 20, 1},
		{-1, false, 16 << 20, -1},
		{-1, true, 16 << 20, -1},
		{0, false, 16 << 20, 0},
	} {
		if got := GCPercent(c.percent, c.light, c.live); got != c.want {
			t.Errorf("GCPercent(%d, %v, %d MiB) = %d, want %d", c.percent, c.light, c.live>>20, got, c.want)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	const most, least = 8 << 30, 576 << 20
	l := NewLimit(least, most)
	for _, step := range []struct{ live, want int64 }{
		{70 << 20, least}, {400 << 20, least}, {600 << 20, 800 << 20}, {610 << 20, 800 << 20}, {900 << 20, 1200 << 20}, {7 << 30, most}, {70 << 20, least},
	} {
		before := l.now
		if got, changed := l.Adjust(step.live, step.live, 0); got != step.want || changed != (got != before) {
			t.Errorf("with %d MiB in use the limit is %d MiB (changed: %v), want %d", step.live>>20, got>>20, changed, step.want>>20)
		}
	}
	unlimited := NewLimit(least, math.MaxInt64)
	if got, _ := unlimited.Adjust(60<<20, 60<<20, 0); got != least {
		t.Errorf("without a limit of the process it is %d", got)
	}
	small := NewLimit(300<<20, 256<<20)
	if got, changed := small.Adjust(1<<30, 1<<30, 0); got != 256<<20 || changed {
		t.Errorf("the limit of the process is exceeded: %d", got)
	}
	fragmented := NewLimit(least, most)
	if got, _ := fragmented.Adjust(480<<20, 480<<20, 120<<20); got != 760<<20 {
		t.Errorf("with 480 MiB in use and 120 MiB of overhead the limit is %d MiB", got>>20)
	}
	if got, _ := fragmented.Adjust(900<<20, 900<<20, 4<<30); got != 1500<<20 {
		t.Errorf("however large the overhead is, the limit is %d MiB", got>>20)
	}
	blobs := NewLimit(least, most)
	if got, _ := blobs.Adjust(900<<20, 300<<20, 0); got != 1000<<20 {
		t.Errorf("with 900 MiB in use of which 300 are scanned the limit is %d MiB", got>>20)
	}
	if got, _ := blobs.Adjust(900<<20, 3<<20, 0); got != 900<<20+leastGarbage {
		t.Errorf("with 900 MiB in use of which 3 are scanned the limit is %d MiB", got>>20)
	}
	// Growth of the memory in use takes at most a quarter of the garbage.
	for live := int64(901 << 20); live <= 1000<<20; live += 1 << 20 {
		if got, _ := blobs.Adjust(live, 3<<20, 0); got < live+leastGarbage*3/4 {
			t.Fatalf("with %d MiB in use the limit stays at %d MiB", live>>20, got>>20)
		}
	}
}
