package audit_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
	"daybook/proof"
)

// size is the number of events in the ledgers of benchmarks.
var size = flag.Int("events", 100_000, "events in the ledger that is verified")

// runs appends complete executions of four events each, n events in total.
func runs(b *testing.B, store *jetstream.Store, n int) {
	b.Helper()
	work := make(chan struct{})
	var writers sync.WaitGroup
	for range 32 {
		writers.Go(func() {
			for range work {
				oneRun(b, store)
			}
		})
	}
	for range n / 4 {
		work <- struct{}{}
	}
	close(work)
	writers.Wait()
}

func oneRun(b *testing.B, store *jetstream.Store) {
	id, text := events.NewID(time.Now()), "counted to a number that is not small"
	append1 := func(d events.Data, after int64) uint64 {
		seq, err := store.Append(context.Background(), events.New(events.DefaultTenant, time.Now(), d), after)
		if err != nil {
			b.Error(err)
		}
		return seq
	}
	append1(&events.ExecutionRequested{
		ExecutionID: id, Pool: events.DefaultPool, Content: events.Plain(events.RequestedContent{Source: events.Body{Text: "let n = 0; while (n < 1e6) n++; console.log(n)"}}),
	}, 0)
	started := append1(&events.ExecutionStarted{ExecutionID: id, Attempt: 1, FirstLine: 1, Seed: "00112233445566778899aabbccddeeff"}, 0)
	append1(&events.ExecutionOutput{
		ExecutionID: id, Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: text, TimeMillis: 1795253401125}}}),
	}, -1)
	append1(events.NewEnding(events.StatusCompleted, events.Ending{
		ExecutionID: id, Attempt: 1, Content: events.Plain(events.EndingContent{Result: &events.Body{Text: "1000000"}}),
		Output: &events.OutputTotals{Lines: 1, Bytes: int64(len(text)) + 1, SHA256: events.Hash([]byte(text + "\n"))},
	}), int64(started))
}

// cpuTime returns the processor time of this process. On a busy machine it is more precise than
// the clock.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkVerify verifies a complete ledger. The floor, measured before each verification, reads the same
// events and computes the SHA-256 of their payloads.
func BenchmarkVerify(b *testing.B) {
	store := newStore(b)
	runs(b, store, *size)
	dir := b.TempDir()
	log := start(b, store, translog.Options{Dir: dir})
	if err := errors.Join(log.FinalCheckpoint(b.Context(), store), log.Close()); err != nil {
		b.Fatal(err)
	}
	last, err := store.LastSeq(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var floor, took, floorCPU, tookCPU time.Duration
	for b.Loop() {
		floorTime, cpu := timed(b, func() error { return hashPayloads(b.Context(), store, last) })
		floor, floorCPU = floor+floorTime, floorCPU+cpu
		tookTime, cpu := timed(b, func() error {
			report, err := audit.Verify(b.Context(), store, store, audit.VerifyOptions{Dir: translog.Dir(dir), Keys: []string{log.VKey()}})
			if err == nil && !report.OK {
				err = fmt.Errorf("the verdict is\n%s", report)
			}
			return err
		})
		took, tookCPU = took+tookTime, tookCPU+cpu
	}
	verified := float64(last) * float64(b.N)
	b.ReportMetric(verified/took.Seconds(), "events/s")
	b.ReportMetric(verified/floor.Seconds(), "floor-events/s")
	b.ReportMetric(float64(tookCPU.Nanoseconds())/verified, "cpu-ns/event")
	b.ReportMetric(float64(floorCPU.Nanoseconds())/verified, "floor-cpu-ns/event")
}

// timed returns the time and the processor time that f takes.
func timed(b *testing.B, f func() error) (took, cpu time.Duration) {
	b.Helper()
	began, before := time.Now(), cpuTime(b)
	if err := f(); err != nil {
		b.Fatal(err)
	}
	return time.Since(began), cpuTime(b) - before
}

// hashPayloads reads the events up to a position and computes the SHA-256 of their payloads.
func hashPayloads(ctx context.Context, store *jetstream.Store, last uint64) error {
	for after := uint64(0); after < last; {
		batch, err := store.ReadRaw(ctx, after, 1000)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return fmt.Errorf("there is no event after %d", after)
		}
		for _, m := range batch {
			sha256.Sum256(m.Body)
		}
		after = batch[len(batch)-1].Seq
	}
	return nil
}

// tileDir stores tiles in files without syncs, as a running ledger does.
type tileDir string

func (dir tileDir) Put(t proof.Tile, hashes []proof.Hash) error {
	path := filepath.Join(string(dir), filepath.FromSlash(t.Path()))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, proof.EncodeTile(hashes), 0o644)
}

func (tileDir) Get(t proof.Tile, _ int) ([]byte, error) {
	return nil, fmt.Errorf("%s: %w", t.Path(), fs.ErrNotExist)
}

// BenchmarkHash measures the cost of the tree per event.
func BenchmarkHash(b *testing.B) {
	store := newStore(b)
	runs(b, store, 1000)
	stored, err := store.ReadRaw(b.Context(), 0, 1000)
	if err != nil {
		b.Fatal(err)
	}
	tree := proof.NewTree(tileDir(b.TempDir()))
	b.ReportAllocs()
	before, i := cpuTime(b), 0
	for b.Loop() {
		leaf, err := proof.LeafHash(eventproof.RecordOf(stored[i%len(stored)]))
		if err == nil {
			err = tree.Add(leaf)
		}
		if err != nil {
			b.Fatal(err)
		}
		i++
	}
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// BenchmarkAppend measures the throughput of many writers while one reader follows, as the
// projections do, without and with a log that hashes and signs.
func BenchmarkAppend(b *testing.B) {
	for _, with := range []bool{false, true} {
		name := "plain"
		if with {
			name = "audited"
		}
		b.Run(name, func(b *testing.B) {
			store := newStore(b)
			tail := store.NewTail()
			ctx, stop := context.WithCancel(context.Background())
			var beside sync.WaitGroup
			beside.Go(func() { _ = tail.Run(ctx, 0) })
			beside.Go(func() { _ = tail.Follow(ctx, 0, func([]events.Event, uint64) error { return nil }) })
			if with {
				log, err := translog.Open(translog.Options{Dir: b.TempDir(), NoSync: true})
				if err != nil {
					b.Fatal(err)
				}
				beside.Go(func() { _ = log.Run(ctx, tail, store) })
			}
			b.Cleanup(func() { stop(); beside.Wait() })
			b.SetParallelism(16)
			before := cpuTime(b)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := store.Append(b.Context(), request(events.NewID(time.Now())), 0); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/event")
		})
	}
}
