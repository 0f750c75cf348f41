package embed

import (
	"math"
	"testing"
)

func TestDefaultBudget(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int{math.MaxInt64: 512, 8 << 30: 512, 600 << 20: 300, 1 << 20: 64} {
		if got := memoryMB(limit); got != want {
			t.Errorf("with a limit of %d: %d MiB, want %d", limit, got, want)
		}
	}
}

// Memory is given back once after a busy time, and not while the server works.
func TestTrimming(t *testing.T) {
	t.Parallel()
	var total uint64
	trims := 0
	tr := trimmer{allocated: func() uint64 { return total }, trim: func() { trims++ }}
	check := func(times int, allocate uint64, want int) {
		t.Helper()
		for range times {
			total += allocate
			tr.check()
		}
		if trims != want {
			t.Errorf("after %d checks with %d bytes each: %d trims, want %d", times, allocate, trims, want)
		}
	}
	check(20, 5<<20, 0)
	check(idleChecks, 1<<10, 1)
	check(20, 1<<10, 1)
	check(3, 100<<20, 1)
	check(idleChecks+1, 0, 2)
}
