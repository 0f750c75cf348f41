package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/link"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/fairness"
	"daybook/internal/resources/gomemory"
	"daybook/internal/tools/toolserver"
	"daybook/runner"
)

// defaultMemoryMB is the default of Options.Resources.MemoryMB if the Go runtime has no lower
// limit.
const defaultMemoryMB = 512

// memoryMB returns the default of Options.Resources.MemoryMB: at most half of the limit of the Go
// runtime, which also counts memory outside of the budget.
func memoryMB(limit int64) int {
	if limit <= 0 || limit == math.MaxInt64 {
		return defaultMemoryMB
	}
	return int(min(defaultMemoryMB, max(limit>>21, MinMemoryMB)))
}

// MinMemoryMB and MaxMemoryMB are the bounds of Options.Resources.MemoryMB, in MiB, both
// included. A smaller budget cannot hold one large page of output; a larger value is
// likely a number of bytes by mistake. MaxMemoryMB is also the maximum of the heap limits of
// runs.
const (
	MinMemoryMB = 64
	MaxMemoryMB = 1 << 20
)

func newBudget(megabytes int) *budget.Budget {
	o := budget.Split(int64(megabytes) << 20)
	o.Collect, o.Cycles = runtime.GC, gomemory.Collections
	return budget.New(o)
}

// runMemory accounts for the heaps of runs.
type runMemory struct{ budget *budget.Budget }

func (m runMemory) OpenAccount(ctx context.Context) (context.Context, runner.MemoryAccount) {
	account := m.budget.Run()
	// The account of an answer in ctx would take the heap, and has memory for few heaps.
	return budget.WithRun(budget.With(ctx, nil), account), account
}

// outputRate returns the rate of recorded output of all runs together. The embedded
// NATS server keeps what was written in the last 10 s in memory, outside of the memory
// budget. An outside server has memory of its own.
func (o Options) outputRate() fairness.Rate {
	if o.NATS.URL != "" {
		return fairness.Rate{}
	}
	budget := int64(o.Resources.MemoryMB) << 20
	return fairness.Rate{PerSecond: budget / 32, Burst: budget / 16, Reserve: budget / 64, Little: budget / 512}
}

// toolMemory accounts for the results of host calls. They share the memory for answers,
// because the tools decide how large the results are and when they arrive.
type toolMemory struct{ budget *budget.Budget }

// Take waits for memory until ctx is done: the tool has performed the call, so the result is
// not refused while a caller waits for it. An answer for which memory can never be enough is
// refused at once.
func (m toolMemory) Take(ctx context.Context, tenant string, n int64) (toolserver.Held, error) {
	account := m.budget.Answer(tenant, 1)
	n = account.Limit(n)
	for {
		err := budget.Retry(budget.With(ctx, account), func() error { return account.Take(n) })
		full, _ := errors.AsType[*budget.ExhaustedError](err)
		switch {
		case err == nil:
			return toolHeld{account}, nil
		case full == nil || full.IsPermanent() || ctx.Err() != nil:
			return nil, errors.New("no memory is free for the server's answer; make fewer calls with large answers at once")
		}
	}
}

// toolHeld is the memory account of one result of a tool.
type toolHeld struct{ *budget.Account }

// Shrink releases the memory that was needed only to decode the result.
func (h toolHeld) Shrink(n int64) { h.DropTo(n) }

// clientPace returns the minimum speed of clients.
func (o Options) clientPace() httpapi.Pace { return httpapi.Pace{Bytes: o.Resources.MinClientBytes} }

// linkPace returns the minimum speed of clients on the socket of the data directory.
func (o Options) linkPace() link.Pace {
	return link.Pace{Bytes: cmp.Or(o.Resources.MinClientBytes, 64<<10), Window: 30 * time.Second}
}

// holdLine waits until n bytes of the memory for answers are free for a line of a
// client on the socket. Such clients have the default tenant.
func (d *Daybook) holdLine(ctx context.Context, n int64) (release func(), err error) {
	account := d.budget.Answer(events.DefaultTenant, 1)
	n = account.Limit(n)
	for {
		err := budget.Retry(budget.With(ctx, account), func() error { return account.TakeOnce(n) })
		if err == nil {
			return account.Release, nil
		}
		if !budget.IsExhausted(err) || ctx.Err() != nil {
			account.Release()
			return nil, fmt.Errorf("hold a line of %d bytes: %w", n, err)
		}
	}
}

// memoryMetrics sends the shares of the budget and the heavy reads.
func (c *collector) memoryMetrics(out chan<- prometheus.Metric) {
	s := c.d.budget.Stats()
	for share, u := range map[string]budget.Usage{"answers": s.Answers, "runs": s.Runs, "heap_cache": s.Cache} {
		out <- prometheus.MustNewConstMetric(desc("memory_budget_used_bytes", "Memory that is taken of a share of the budget.", "share"), prometheus.GaugeValue, float64(u.Used), share)
		out <- prometheus.MustNewConstMetric(desc("memory_budget_bytes", "Size of a share of the memory budget.", "share"), prometheus.GaugeValue, float64(u.Size), share)
	}
	out <- prometheus.MustNewConstMetric(desc("memory_budget_refused_total", "Requests for memory for answers that were refused: other answers held it, or one answer may not take so much."), prometheus.CounterValue, float64(s.Refused))
	r := c.d.reads.Stats()
	out <- prometheus.MustNewConstMetric(desc("heavy_reads_running", "Lists, logs, exports, proofs and blobs that are being read."), prometheus.GaugeValue, float64(r.Running))
	out <- prometheus.MustNewConstMetric(desc("heavy_reads_waiting", "Heavy reads that wait for others of their tenant."), prometheus.GaugeValue, float64(r.Waiting))
	out <- prometheus.MustNewConstMetric(desc("heavy_reads_refused_total", "Heavy reads that were refused because too many of their tenant waited."), prometheus.CounterValue, float64(r.Refused))
	out <- prometheus.MustNewConstMetric(desc("memory_budget_runs_waiting", "Runs that wait for memory for their heap."), prometheus.GaugeValue, float64(s.RunsWaiting))
}
