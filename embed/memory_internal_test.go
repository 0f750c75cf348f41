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
