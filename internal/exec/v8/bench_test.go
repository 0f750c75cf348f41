package v8_test

import (
	"testing"

	"daybook/internal/exec/v8"
)

// BenchmarkCycle restores the base heap, runs 1+1, saves the heap and disposes of the isolate. It is
// the minimum for a stateful run, without a process, a pipe or a ledger.
func BenchmarkCycle(b *testing.B) {
	if _, err := v8.Warm(false, nil); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		run(b, v8.Config{}, "1+1")
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
