package jetstream_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/storetest"
)

// BenchmarkAppend measures a durable append next to its lower bound: one write and
// fsync on the same disk.
func BenchmarkAppend(b *testing.B) {
	dir := b.TempDir()
	b.Run("fsync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(dir, "floor"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		page := make([]byte, 512)
		for b.Loop() {
			if _, err := f.Write(page); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		server, err := natsserver.Start(b.Context(), natsserver.Options{StoreDir: dir, Logger: storetest.Logger(b)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(server.Close)
		s := storetest.Open(b, server, jetstream.Options{})
		for b.Loop() {
			mustAppend(b, s, requested(newID()), 0)
		}
	})
}

func BenchmarkFollow(b *testing.B) {
	s := storetest.Start(b)
	const n = 20_000
	for range n {
		mustAppend(b, s, requested(newID()), 0)
	}
	enough := errors.New("enough")
	for b.Loop() {
		seen := 0
		err := s.Follow(context.Background(), 0, func(batch []events.Event, _ uint64) error {
			if seen += len(batch); seen == n {
				return enough
			}
			return nil
		})
		if !errors.Is(err, enough) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkHeap(b *testing.B) {
	server := storetest.StartServer(b, b.TempDir())
	s := storetest.Open(b, server, jetstream.Options{CacheBytes: -1})
	blob := make([]byte, 340<<10)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range blob {
		blob[i] = byte(random.IntN(16)) // compresses to about half; heaps compress to a quarter
	}
	b.Run("put", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			blob[i%len(blob)]++
			if _, err := s.PutHeap(b.Context(), tenant, blob, "e"); err != nil {
				b.Fatal(err)
			}
		}
	})
	// From the cache: the newest heaps are kept decoded, the others encoded.
	for _, newer := range []int{0, 30} {
		b.Run(fmt.Sprintf("restore/newer=%d", newer), func(b *testing.B) {
			kept := storetest.Open(b, server, jetstream.Options{})
			if err := kept.SetBase(b.Context(), "e", bytes.Clone(blob)); err != nil {
				b.Fatal(err)
			}
			var first string
			for i := range newer + 1 {
				blob[i*7]++
				hash, err := kept.PutHeap(b.Context(), tenant, bytes.Clone(blob), "e")
				if err != nil {
					b.Fatal(err)
				}
				first = cmp.Or(first, hash)
			}
			for b.Loop() {
				if _, _, err := kept.Heap(b.Context(), tenant, first); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("get", func(b *testing.B) {
		hash, err := s.PutHeap(b.Context(), tenant, blob, "e")
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, _, err := s.Heap(b.Context(), tenant, hash); err != nil {
				b.Fatal(err)
			}
		}
	})
}
