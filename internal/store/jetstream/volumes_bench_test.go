package jetstream_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// volumesOf creates a ledger of n volumes with a few events each.
func volumesOf(b *testing.B, s *jetstream.Store, n int) {
	b.Helper()
	for i := range n {
		for range 5 {
			mustAppend(b, s, requested(newID()), 0)
		}
		if i < n-1 {
			seal(b, s)
		}
	}
}

// BenchmarkAppendOverVolumes measures an append that expects no event on its subject,
// for which every sealed volume is searched.
func BenchmarkAppendOverVolumes(b *testing.B) {
	for _, n := range []int{1, 12, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := storetest.Start(b)
			volumesOf(b, s, n)
			for b.Loop() {
				mustAppend(b, s, requested(newID()), 0)
			}
		})
	}
}

// BenchmarkSealing measures appends of 16 writers while volumes are rotated every given
// number of events, 0 for never. It waits for the disk.
func BenchmarkSealing(b *testing.B) {
	for _, every := range []int64{0, 10_000, 1_000} {
		b.Run(fmt.Sprint(every), func(b *testing.B) {
			server, err := natsserver.Start(b.Context(), natsserver.Options{StoreDir: b.TempDir(), Logger: storetest.Logger(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(server.Close)
			s := storetest.Open(b, server, jetstream.Options{Client: jet.Options{Sync: server.Sync}})
			var n atomic.Int64
			b.SetParallelism(8)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mustAppend(b, s, output(newID(), 1), -1)
					if i := n.Add(1); every > 0 && i%every == 0 {
						if _, err := s.Rotate(b.Context(), stream.RotateOptions{Reason: events.VolumeFull}); err != nil {
							b.Error(err)
						}
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkStart measures the time to open a ledger of several volumes.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir := b.TempDir()
			server := storetest.StartServer(b, dir)
			volumesOf(b, storetest.Open(b, server, jetstream.Options{}), n)
			server.Close()
			for b.Loop() {
				server := storetest.StartServer(b, dir)
				storetest.Open(b, server, jetstream.Options{})
				server.Close()
			}
		})
	}
}
