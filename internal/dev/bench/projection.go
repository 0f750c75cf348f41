package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/projections"
)

// cores is the number of processors, by which the floor of throughput scales.
var cores = runtime.NumCPU()

// projectionResult holds the speed of the projections.
type projectionResult struct {
	Events                           int
	ApplyPerSecond, RebuildPerSecond float64
	Rebuild                          time.Duration
}

// syntheticEvents returns the four events of an invented execution.
func syntheticEvents(at time.Time) []events.Event {
	id := events.NewID(at)
	lines := make([]events.Line, 20)
	for i := range lines {
		lines[i] = events.Line{Text: fmt.Sprintf("line %d of the output of a made-up execution", i), TimeMillis: at.UnixMilli()}
	}
	heap := events.Hash([]byte(id))
	result := events.Body{Text: "2"}
	list := []events.Event{
		events.New(events.DefaultTenant, at, &events.ExecutionRequested{ExecutionID: id, Pool: events.DefaultPool, Stateful: true,
			Content: events.Plain(events.RequestedContent{Source: events.Body{Text: strings.Repeat("console.log(1);", 20)}}), Limits: events.Limits{HeapMemoryMaxMB: 64, ExecutionTimeoutSecs: 30}}),
		events.New(events.DefaultTenant, at, &events.ExecutionStarted{ExecutionID: id, Attempt: 1, Runner: "bench", FirstLine: 1, StartTime: events.Instant{Time: at}}),
		events.New(events.DefaultTenant, at, &events.ExecutionOutput{ExecutionID: id, Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: lines})}),
		events.New(events.DefaultTenant, at, &events.ExecutionCompleted{Ending: events.Ending{ExecutionID: id, Attempt: 1, Content: events.Plain(events.EndingContent{Result: &result}),
			Heap: &events.HeapRecord{SHA256: heap, Size: 1, EngineID: "bench"}}}),
	}
	return list
}

func measureProjections(ctx context.Context, s settings, r *report) error {
	r.Projection.Events = s.events
	if err := measureApply(ctx, s, r); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "large")
	if err := writeLedger(ctx, dir, s.events); err != nil {
		return err
	}
	start := time.Now()
	rebuilt, err := embed.Rebuild(ctx, embed.Options{DataDir: dir})
	if err != nil {
		return err
	}
	r.Projection.Rebuild = time.Since(start)
	r.Projection.RebuildPerSecond = float64(rebuilt.Events) / r.Projection.Rebuild.Seconds()
	return nil
}

func measureApply(ctx context.Context, s settings, r *report) (err error) {
	store, err := projections.Open(ctx, projections.Options{Path: filepath.Join(s.dir, "apply.db")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	const batchSize = 1000
	var spent time.Duration
	var seq uint64
	n := min(s.events, 200_000)
	for seq < uint64(n) {
		var batch []events.Event
		for len(batch) < batchSize {
			for _, e := range syntheticEvents(time.Now()) {
				seq++
				e.Seq = seq
				batch = append(batch, e)
			}
		}
		start := time.Now()
		if err := store.Apply(ctx, batch); err != nil {
			return err
		}
		spent += time.Since(start)
	}
	r.Projection.ApplyPerSecond = float64(seq) / spent.Seconds()
	return nil
}

// writeLedger writes a ledger of n events to a data directory. It does not sync, because the
// time of writing is not measured.
func writeLedger(ctx context.Context, dir string, n int) error {
	server, err := natsserver.Start(ctx, natsserver.Options{StoreDir: filepath.Join(dir, "jetstream"), NoSync: true})
	if err != nil {
		return err
	}
	defer server.Close()
	publish, err := server.Conn("fill")
	if err != nil {
		return err
	}
	defer publish.Close()
	consume, err := server.Conn("fill")
	if err != nil {
		return err
	}
	defer consume.Close()
	store, err := jetstream.Open(ctx, publish, consume, jetstream.Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var failed error
	var writing sync.WaitGroup
	const writers = 32
	for range writers {
		writing.Go(func() {
			for range n / 4 / writers {
				for _, e := range syntheticEvents(time.Now()) {
					if _, err := store.Append(ctx, e, -1); err != nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						return
					}
				}
			}
		})
	}
	writing.Wait()
	return failed
}
