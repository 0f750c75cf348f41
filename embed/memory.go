package embed

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/httpapi"
	"daybook/internal/budget"
	"daybook/runner"
)

// defaultMemoryMB is Options.MemoryMB where the Go runtime has no lower limit.
const defaultMemoryMB = 512

// memoryMB returns the default of Options.MemoryMB: at most half of the limit of the
// Go runtime, which holds more than what the budget counts.
func memoryMB(limit int64) int {
	if limit <= 0 || limit == math.MaxInt64 {
		return defaultMemoryMB
	}
	return int(min(defaultMemoryMB, max(limit>>21, MinMemoryMB)))
}

// MinMemoryMB and MaxMemoryMB are the bounds of Options.MemoryMB, in MiB. Less does
// not hold one large page of output. More is a number of bytes by mistake.
const (
	MinMemoryMB = 64
	MaxMemoryMB = 1 << 20
)

func newBudget(megabytes int) *budget.Budget {
	o := budget.Split(int64(megabytes) << 20)
	o.Collect, o.Cycles = runtime.GC, collections
	return budget.New(o)
}

// runMemory accounts for the heaps of runs.
type runMemory struct{ budget *budget.Budget }

func (m runMemory) Hold(ctx context.Context) (context.Context, runner.HeldMemory) {
	account := m.budget.Run()
	return budget.WithRun(ctx, account), account
}

// pace is the least speed of clients.
func (o Options) pace() httpapi.Pace { return httpapi.Pace{Bytes: o.MinClientBytes} }

const (
	// idleCheck is how often the memory is looked at, idleChecks for how many checks
	// little may have been allocated before it is given back.
	idleCheck  = 5 * time.Second
	idleChecks = 4
	// idleBytes is little: what an idle server allocates between the checks, for
	// metrics and health checks.
	idleBytes = 16 << 20
)

// startTrimming gives memory back to the operating system while the server is idle.
// The garbage collector alone keeps twice the size of the last busy moment, and
// the caches what no caller may ask for again.
func (d *Daybook) startTrimming(ctx context.Context) error {
	d.trimming = follow(ctx, func(ctx context.Context) {
		tick := time.NewTicker(idleCheck)
		defer tick.Stop()
		t := trimmer{allocated: allocated, trim: d.trim}
		for {
			select {
			case <-tick.C:
				t.check()
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// trimmer decides when memory is given back.
type trimmer struct {
	allocated func() uint64 // bytes that were ever allocated
	trim      func()

	seen    [idleChecks]uint64 // by the last checks, a ring
	checks  int
	trimmed uint64 // what was allocated at the last trim
}

// check trims if little was allocated during the last checks, but more since the
// last trim.
func (t *trimmer) check() {
	now := t.allocated()
	slot := t.checks % idleChecks
	before := t.seen[slot]
	t.seen[slot] = now
	t.checks++
	if t.checks > idleChecks && now-before < idleBytes && now-t.trimmed >= idleBytes {
		t.trim()
		t.trimmed = t.allocated()
	}
}

// trim drops what can be read again and returns free memory to the operating system.
func (d *Daybook) trim() {
	d.store.ClearCache()
	d.projections.ReleaseMemory()
	// Pools of encoders and decoders drop what was not used between two collections.
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

func allocated() uint64 { return counter("/gc/heap/allocs:bytes") }

func collections() uint64 { return counter("/gc/cycles/total:gc-cycles") }

func counter(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// memoryMetrics reports the shares of the budget.
func (c *collector) memoryMetrics(out chan<- prometheus.Metric) {
	s := c.d.budget.Stats()
	for share, u := range map[string]budget.Usage{"answers": s.Answers, "runs": s.Runs, "heap_cache": s.Cache} {
		out <- prometheus.MustNewConstMetric(desc("memory_budget_used_bytes", "Memory that is taken of a share of the budget.", "share"), prometheus.GaugeValue, float64(u.Used), share)
		out <- prometheus.MustNewConstMetric(desc("memory_budget_bytes", "Size of a share of the memory budget.", "share"), prometheus.GaugeValue, float64(u.Size), share)
	}
	out <- prometheus.MustNewConstMetric(desc("memory_budget_refused_total", "Answers that were refused because others held the memory for answers."), prometheus.CounterValue, float64(s.Refused))
	out <- prometheus.MustNewConstMetric(desc("memory_budget_runs_waiting", "Runs that wait for memory for their heap."), prometheus.GaugeValue, float64(s.RunsWaiting))
}
