package budget_test

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"

	"daybook/internal/resources/budget"
)

// BenchmarkHeapsOfRuns measures runs of 16 clients that restore and save heaps of 20
// MB, in two slots and in sixteen, in a process with a million small objects. It
// reports the collections and the CPU time of the collector per run: with one
// collection after each heap, and with those that the budget requests. Callers that
// request a collection at the same time share it, so one after each heap costs most
// with few runs at once.
func BenchmarkHeapsOfRuns(b *testing.B) {
	type node struct {
		next *node
		_    [48]byte
	}
	var live *node
	for range 1 << 20 {
		live = &node{next: live}
	}
	for _, test := range []struct {
		name  string
		each  bool
		slots int
	}{{"2 slots, each heap", true, 2}, {"2 slots, bounded", false, 2}, {"16 slots, each heap", true, 16}, {"16 slots, bounded", false, 16}} {
		each := test.each
		b.Run(test.name, func(b *testing.B) {
			o := budget.Split(512 << 20)
			if !each {
				o.Collect, o.Cycles = runtime.GC, func() uint64 { return read("/gc/cycles/total:gc-cycles").Uint64() }
			}
			memory := budget.New(o)
			cycles, cpu := read("/gc/cycles/total:gc-cycles").Uint64(), read("/cpu/classes/gc/total:cpu-seconds").Float64()
			runs := make(chan struct{})
			var clients sync.WaitGroup
			for range test.slots {
				clients.Go(func() {
					for range runs {
						for range 2 { // its input and its output
							account := memory.Run()
							if err := account.Reserve(b.Context(), 20<<20); err != nil {
								b.Error(err)
							}
							heap := make([]byte, 20<<20)
							for i := 0; i < len(heap); i += 4096 {
								heap[i] = 1
							}
							runtime.KeepAlive(heap)
							if each {
								runtime.GC()
							}
							account.Release()
						}
					}
				})
			}
			for b.Loop() {
				runs <- struct{}{}
			}
			close(runs)
			clients.Wait()
			b.ReportMetric(float64(read("/gc/cycles/total:gc-cycles").Uint64()-cycles)/float64(b.N), "gc/run")
			b.ReportMetric((read("/cpu/classes/gc/total:cpu-seconds").Float64()-cpu)*1e3/float64(b.N), "gc-ms/run")
		})
	}
	runtime.KeepAlive(live)
}

func read(name string) metrics.Value {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value
}
