package v8_test

import (
	"testing"
	"time"

	"daybook/internal/v8"
)

// cycle is one stateful run at its barest: what every product around it is
// measured against.
func cycle(tb testing.TB, heap []byte, source string) []byte {
	tb.Helper()
	i, err := v8.New(v8.Config{Heap: heap, HeapLimit: 64 << 20, BufferLimit: 64 << 20, Start: time.Unix(1_700_000_000, 0)})
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	if _, err := i.Run([]byte(source)); err != nil {
		tb.Fatal(err)
	}
	blob, err := i.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte(nil), blob...)
}

// BenchmarkCycle restores, runs 1+1, saves and disposes, in one process.
func BenchmarkCycle(b *testing.B) {
	if err := v8.Warm(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		cycle(b, nil, "1+1")
	}
}

// BenchmarkPlain runs 1+1 in an ordinary isolate.
func BenchmarkPlain(b *testing.B) {
	for b.Loop() {
		i, err := v8.New(v8.Config{Plain: true, HeapLimit: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := i.Run([]byte("1+1")); err != nil {
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
