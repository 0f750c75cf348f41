package v8_test

import (
	"testing"

	"daybook/internal/exec/v8"
)

// BenchmarkCycle restores the base heap, runs 1+1, saves the heap and disposes of the isolate. It is
// the minimum for a stateful run, without a process, a pipe or a ledger. It reports the size of the
// saved heap in bytes, heap-B.
func BenchmarkCycle(b *testing.B) {
	if _, err := v8.Warm(false, nil); err != nil {
		b.Fatal(err)
	}
	var heap []byte
	for b.Loop() {
		heap = run(b, v8.Config{}, "1+1").heap
	}
	b.ReportMetric(float64(len(heap)), "heap-B")
}

// The heap of a run that left nothing has at most 400 KB, whatever the platform offers: what scripts
// do not use is not evaluated.
func TestSmallestHeapSize(t *testing.T) {
	const maxSize = 400_000
	if size := len(run(t, v8.Config{}, "1+1").heap); size > maxSize {
		t.Errorf("the heap has %d bytes, at most %d are allowed", size, maxSize)
	}
}

// BenchmarkPlain runs 1+1 in an ordinary isolate.
func BenchmarkPlain(b *testing.B) {
	for b.Loop() {
		i, err := v8.New(v8.Config{Plain: true, HeapLimit: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := i.Run(v8.Script{Source: []byte("1+1")}); err != nil {
			b.Fatal(err)
		}
		i.Dispose()
	}
}

// BenchmarkRestore restores the base heap and disposes of it.
func BenchmarkRestore(b *testing.B) {
	for b.Loop() {
		i, err := v8.New(v8.Config{HeapLimit: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		i.Dispose()
	}
}

// BenchmarkCycleRegExps is BenchmarkCycle with a run that creates regular expressions: one that
// is garbage, and a thousand that are kept, of ten literals.
func BenchmarkCycleRegExps(b *testing.B) {
	if _, err := v8.Warm(false, nil); err != nil {
		b.Fatal(err)
	}
	for name, code := range map[string]string{
		"garbage": `"a-b".replace(/-/, "")`,
		"kept":    `globalThis.all = []; for (let i = 0; i < 100; i++) all.push(/a/, /b+/, /c|d/i, /[e-f]*/g, /^(g)(h)$/, /\d{4}/, /\s+/, /[^x]y/u, /z(?=a)/, /(\w+)\s(\w+)/); 1`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				run(b, v8.Config{}, code)
			}
		})
	}
}
