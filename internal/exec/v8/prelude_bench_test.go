package v8_test

import (
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// discard is an Output that drops messages.
type discard struct{ bytes int }

func (d *discard) WriteMessage(_ uint8, _ time.Time, text []byte) error {
	d.bytes += len(text)
	return nil
}

// BenchmarkConsole writes 100,000 messages of each kind.
func BenchmarkConsole(b *testing.B) {
	for _, bench := range []struct{ name, source string }{
		{"text", "for (let i = 0; i < 1e5; i++) console.log('line of output')"},
		{"number", "for (let i = 0; i < 1e5; i++) console.log(i)"},
		{"text and number", "for (let i = 0; i < 1e5; i++) console.log('line', i)"},
		{"format", "for (let i = 0; i < 1e5; i++) console.log('line %d of %s', i, 'output')"},
		{"small object", "for (let i = 0; i < 1e5; i++) console.log({ id: i, name: 'some name', ok: true })"},
		{"small array", "for (let i = 0; i < 1e5; i++) console.log([i, i + 1, i + 2])"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				var out discard
				i, err := v8.New(v8.Config{HeapLimit: 64 << 20, Output: &out, Start: start})
				if err != nil {
					b.Fatal(err)
				}
				if r, err := i.Run(v8.Script{Source: []byte(bench.source)}); err != nil || r.Status != v8.Completed {
					b.Fatal(r.Status, err)
				}
				i.Dispose()
				b.SetBytes(int64(out.bytes))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e5, "ns/message")
		})
	}
}

// BenchmarkBase saves the heap after the smallest run. The metric bytes is its size.
func BenchmarkBase(b *testing.B) {
	size := 0
	for b.Loop() {
		size = len(run(b, v8.Config{}, "0").heap)
	}
	b.ReportMetric(float64(size), "bytes")
}
