package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/store/fill"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
)

// executionsPerVolume is the number of executions in each volume of these benchmarks.
const executionsPerVolume = 20_000

// longLedger makes a ledger of n sealed volumes and the active one, and returns the ids of
// executions of the oldest volume. The volumes but the newest sealed one are archives if archived
// is true.
func longLedger(b *testing.B, dir string, n int, archived bool) (ids []string) {
	b.Helper()
	server := storetest.StartServer(b, dir)
	s := storetest.Open(b, server, jetstream.Options{})
	conn, err := server.Conn("fill")
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	for volume := range n {
		list := make([]events.Event, 0, 3*executionsPerVolume)
		for range executionsPerVolume {
			id := newID()
			if volume == 0 {
				ids = append(ids, id)
			}
			list = append(list, requested(id), events.New(tenant, time.Now(), &events.ExecutionStarted{ExecutionID: id, Attempt: 1}),
				events.New(tenant, time.Now(), &events.ExecutionCompleted{Ending: events.Ending{ExecutionID: id, Attempt: 1}}))
		}
		last, err := s.LastSeq(b.Context())
		if err == nil {
			_, err = fill.Events(b.Context(), conn, events.Volume(volume+1), last, slices.Values(list))
		}
		if err != nil {
			b.Fatal(err)
		}
		seal(b, s)
	}
	for v := range n - 1 {
		if !archived {
			break
		}
		noWork := func(context.Context, events.Volume) (uint64, error) { return 0, nil }
		if _, err := s.Archive(b.Context(), stream.ArchiveOptions{Volume: events.Volume(v + 1), PendingWork: noWork}); err != nil {
			b.Fatal(err)
		}
	}
	server.Close()
	return ids
}

// BenchmarkArchiving measures the archiving of a volume, and reading it in order as a stream and as an
// archive.
func BenchmarkArchiving(b *testing.B) {
	const volumes = 5
	dir := b.TempDir()
	longLedger(b, dir, volumes, false)
	s := storetest.Open(b, storetest.StartServer(b, dir), jetstream.Options{})
	read := func(what string) {
		b.Run("reading "+what, func(b *testing.B) {
			n := 0
			for b.Loop() {
				enough := errors.New("enough")
				err := s.FollowRaw(b.Context(), 0, func(batch []events.Stored, _ uint64) error {
					if n += len(batch); batch[len(batch)-1].Seq >= volumes*3*executionsPerVolume {
						return enough
					}
					return nil
				})
				if !errors.Is(err, enough) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
		})
	}
	read("streams")
	b.Run("archiving", func(b *testing.B) {
		began := time.Now()
		for v := range events.Volume(volumes) {
			noWork := func(context.Context, events.Volume) (uint64, error) { return 0, nil }
			if _, err := s.Archive(b.Context(), stream.ArchiveOptions{Volume: v + 1, PendingWork: noWork}); err != nil {
				b.Skip(err) // another round of the benchmark archived it
			}
		}
		b.ReportMetric(volumes*3*executionsPerVolume/time.Since(began).Seconds(), "events/s")
	})
	read("archives")
}

// BenchmarkOldVolumes measures lookups in a ledger of many volumes, as streams and as archives, and
// reports the memory of each execution: after a start, and once the server has dropped the blocks that
// it caches. The memory of another volume is the difference between the numbers of volumes.
func BenchmarkOldVolumes(b *testing.B) {
	for _, n := range []int{2, 10} {
		for _, kind := range []string{"streams", "archives"} {
			dir := b.TempDir()
			ids := longLedger(b, dir, n, kind == "archives")
			memory := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			before := memory()
			server := storetest.StartServer(b, dir)
			s := storetest.Open(b, server, jetstream.Options{})
			if _, err := s.Execution(b.Context(), tenant, events.DerivedID(tenant, "unknown")); err != nil { // reads what lookups keep
				b.Fatal(err)
			}
			perExecution := func(now uint64) float64 { return (float64(now) - float64(before)) / float64(n*executionsPerVolume) }
			first := memory()
			settled := first
			for last := 2 * first; settled < last-last/100; {
				last = settled
				time.Sleep(12 * time.Second) // the server caches a block for 10 s
				settled = memory()
			}
			i := 0
			for name, fn := range map[string]func() error{
				"of the oldest volume": func() error {
					i++
					list, err := s.Execution(b.Context(), tenant, ids[i%len(ids)])
					if err == nil && len(list) != 3 {
						err = fmt.Errorf("%d events", len(list))
					}
					return err
				},
				"unknown": func() error {
					i++
					list, err := s.Execution(b.Context(), tenant, events.DerivedID(tenant, fmt.Sprint(i)))
					if len(list) > 0 {
						err = fmt.Errorf("%d events", len(list))
					}
					return err
				},
			} {
				b.Run(fmt.Sprintf("%d %s/%s", n, kind, strings.ReplaceAll(name, " ", "_")), func(b *testing.B) {
					for b.Loop() {
						if err := fn(); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(perExecution(first), "first-B/execution")
					b.ReportMetric(perExecution(settled), "B/execution")
				})
			}
			server.Close()
		}
	}
}
