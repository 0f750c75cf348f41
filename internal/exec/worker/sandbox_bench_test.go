package worker_test

import (
	"slices"
	"testing"
	"time"

	"daybook/internal/exec/worker"
)

// bareProgram makes the pool start workers without any layer.
func bareProgram(p *worker.Pool) {
	p.UseProgram("/proc/self/exe", "bare-worker")
	p.ShareNamespaces()
}

// versus measures confined and bare workers alternately, because the speed of the machine changes. For
// each it reports the time that a tenth of the measurements stayed below, which other processes affect
// the least.
func versus(b *testing.B, stateful bool, measure func(*worker.Pool) (time.Duration, error)) {
	opts := worker.Options{Idle: -1, Stateless: !stateful}
	confined, bare := worker.New(opts), worker.New(opts)
	defer confined.Close()
	defer bare.Close()
	bareProgram(bare)
	var with, without []float64
	for b.Loop() {
		a, err := measure(confined)
		if err != nil {
			b.Fatal(err)
		}
		c, err := measure(bare)
		if err != nil {
			b.Fatal(err)
		}
		with, without = append(with, ms(a)), append(without, ms(c))
	}
	b.ReportMetric(tenth(with), "confined-ms")
	b.ReportMetric(tenth(without), "bare-ms")
	b.ReportMetric(tenth(with)-tenth(without), "added-ms")
	b.ReportMetric(0, "ns/op") // the time of both together is not useful
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func tenth(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/10]
}

// BenchmarkSandboxStart measures the time from the call until a worker is ready.
func BenchmarkSandboxStart(b *testing.B) {
	for name, stateful := range map[string]bool{"stateful": true, "plain": false} {
		b.Run(name, func(b *testing.B) {
			versus(b, stateful, func(p *worker.Pool) (time.Duration, error) { return p.TimeStart(b.Context(), stateful) })
		})
	}
}

// BenchmarkSandboxRun measures a run in a worker that is ready.
func BenchmarkSandboxRun(b *testing.B) {
	for _, script := range []struct{ name, code string }{
		{"small", "1+1"},
		{"large", "let a = []; for (let i = 0; i < 1e5; i++) a.push({i, s: 's' + i}); a.sort((x, y) => y.i - x.i); console.log(a.length); new Uint8Array(1 << 22).fill(1).length"},
	} {
		for name, stateful := range map[string]bool{"stateful": true, "plain": false} {
			b.Run(script.name+"/"+name, func(b *testing.B) {
				versus(b, stateful, func(p *worker.Pool) (time.Duration, error) {
					p.KeepIdle(1)
					task := patient(script.code)
					task.Stateful, task.HeapLimitBytes = stateful, 64<<20
					o, err := p.Run(b.Context(), task, discard)
					return o.WallTime, err
				})
			})
		}
	}
}
