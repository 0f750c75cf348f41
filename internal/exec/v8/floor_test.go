package v8_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"daybook/internal/exec/v8"
)

// barePrelude has the functions that the bridge calls, and none of them does anything.
const barePrelude = `(function () {
const nothing = () => {}, no = () => -1, value = () => "";
return { __proto__: null, setMode: nothing, begin: nothing, nextDue: no, result: value, error: value, cancelTimers: no,
  forgetCalls: nothing, prepareStack: value, noteNames: nothing, end: nothing };
})`

// BenchmarkCycleAboveFloor runs BenchmarkCycle and, in the same iteration, the same cycle without
// the prelude, which is what V8 itself takes. It reports the CPU time of both in milliseconds, and
// their ratio.
func BenchmarkCycleAboveFloor(b *testing.B) {
	if _, err := v8.Warm(false, nil); err != nil {
		b.Fatal(err)
	}
	bare := bareHeap(b)
	var took [2]time.Duration
	for b.Loop() {
		for i, heap := range [][]byte{nil, bare} {
			began := cpuTime(b)
			run(b, v8.Config{Heap: heap}, "1+1")
			took[i] += cpuTime(b) - began
		}
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(b.N) }
	b.ReportMetric(per(took[0]), "cycle-cpu-ms")
	b.ReportMetric(per(took[1]), "bare-cpu-ms")
	b.ReportMetric(float64(took[0])/float64(took[1]), "of-floor")
	b.ReportMetric(float64(len(bare)), "bare-B")
	b.ReportMetric(0, "ns/op") // the time of both together is not useful
}

// bareHeap returns a heap that has only what V8 itself makes.
func bareHeap(b *testing.B) []byte {
	b.Helper()
	i, err := v8.NewWithPrelude(v8.Config{}, barePrelude)
	if err != nil {
		b.Fatal(err)
	}
	defer i.Dispose()
	heap, err := i.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	return append([]byte(nil), heap...)
}

// cpuTime returns the CPU time of the process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
