package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// When a run starts, its worker still has the memory of the previous run, which may have had a higher
// limit.
func TestMemoryLimitsOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &process{}
		for n, run := range []struct{ limit, first int64 }{{100, 100}, {10, 100}, {10, 10}, {50, 50}, {0, 0}, {20, 0}} {
			w := &runWatch{p: p}
			p.boundMemory(w, run.limit)
			p.runs++
			if got := p.memory.limit.Load(); got != run.first {
				t.Errorf("run %d starts with a limit of %d bytes, want %d", n+1, got, run.first)
			}
			time.Sleep(2 * handover)
			if got := p.memory.limit.Load(); got != run.limit {
				t.Errorf("run %d continues with a limit of %d bytes, want %d", n+1, got, run.limit)
			}
			w.finish()
		}
		ended := &runWatch{p: p}
		p.memory.previousLimit = 100
		p.boundMemory(ended, 10)
		ended.finish()
		p.memory.limit.Store(0)
		if time.Sleep(2 * handover); p.memory.limit.Load() != 0 {
			t.Error("a run that has ended bounds the memory of its worker")
		}
	})
}
