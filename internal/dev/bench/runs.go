package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"daybook/embed"
	"daybook/events"
	"daybook/projections"
)

func measureStateful(ctx context.Context, s settings, r *report) (err error) {
	r.Stateful, err = measureRuns(ctx, s, embed.Options{DataDir: filepath.Join(s.dir, "stateful")})
	return err
}

func measureStateless(ctx context.Context, s settings, r *report) (err error) {
	r.Stateless, err = measureRuns(ctx, s, embed.Options{DataDir: filepath.Join(s.dir, "stateless"), Runs: embed.RunOptions{Stateless: true}})
	return err
}

func measureRuns(ctx context.Context, s settings, opts embed.Options) (rows []throughput, err error) {
	book, err := embed.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	beside, err := newFloor(s.dir, opts.Runs.Stateless)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, beside.close()) }()
	l := &load{book: book}
	if _, err := l.run(ctx, 4, 50); err != nil { // workers started, caches warm
		return nil, err
	}
	for _, clients := range []int{1, 4, 16} {
		row, err := l.measure(ctx, beside, clients, s.runs)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// idleTime is the idle time before the floor is sampled.
const idleTime = 10 * time.Millisecond

// load runs scripts in a Daybook.
type load struct {
	book   *embed.Daybook
	unique atomic.Int64
}

// measure runs n scripts in portions and samples the floor between the portions. For one
// client a portion is one run, and the floor is sampled after the same idle time as the
// run. Several clients leave no idle time, so their floor is sampled warm.
func (l *load) measure(ctx context.Context, beside *floor, clients, n int) (throughput, error) {
	beside.reset()
	var took []time.Duration
	var busy time.Duration
	portion, samples, warm := 1, 1, 0
	if clients > 1 {
		portion, samples, warm = max(n/4, 1), 50, 10
	}
	for len(took) < n {
		time.Sleep(idleTime) // workers get ready for their next run
		if err := beside.sample(warm, samples); err != nil {
			return throughput{}, err
		}
		start := time.Now()
		some, err := l.run(ctx, clients, portion)
		if err != nil {
			return throughput{}, err
		}
		busy += time.Since(start)
		took = append(took, some...)
	}
	row := throughput{Clients: clients, P50: quantile(took, 0.5), P99: quantile(took, 0.99), Cycle: beside.cycle(), Fsync: beside.fsync()}
	row.PerSecond = float64(len(took)) / busy.Seconds()
	row.OfFloor = row.PerSecond * row.Cycle.Seconds() / float64(cores)
	row.AddedFsy = float64(row.P50-row.Cycle) / float64(row.Fsync)
	return row, nil
}

// run runs n scripts from a number of clients and returns the duration of each.
func (l *load) run(ctx context.Context, clients, n int) ([]time.Duration, error) {
	return timeCalls(ctx, clients, n, func(ctx context.Context) error {
		// Each run leaves a heap of its own, because storing a known heap costs almost nothing.
		code := fmt.Sprintf("var n = %d; 1+1", l.unique.Add(1))
		e, err := l.book.Run(ctx, embed.Script{Code: code})
		if err == nil && (e.Status != events.StatusCompleted || *e.Result != "2") {
			err = fmt.Errorf("%s is %s", e.ExecutionID, e.Status)
		}
		return err
	})
}

// timeCalls makes n calls from a number of clients, each of which waits for its last call, and
// returns the duration of each.
func timeCalls(ctx context.Context, clients, n int, call func(context.Context) error) ([]time.Duration, error) {
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for next.Add(1) <= int64(n) {
				start := time.Now()
				err := call(ctx)
				mu.Lock()
				took = append(took, time.Since(start))
				failed = errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	running.Wait()
	return took, failed
}

// outputResult is the result of a script with much output.
type outputResult struct {
	Lines, LineBytes, Events int
	Took                     time.Duration
	PerSecond, PerFsync      float64
}

func measureOutput(ctx context.Context, s settings, r *report) (err error) {
	book, err := embed.Start(ctx, embed.Options{DataDir: filepath.Join(s.dir, "output")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	beside, err := newFloor(s.dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, beside.close()) }()
	if _, err := (&load{book: book}).run(ctx, 1, 3); err != nil {
		return err
	}
	if err := beside.sample(5, 20); err != nil {
		return err
	}
	const text = "a line of output as programs write it, with a number at its end to tell it apart: "
	start := time.Now()
	e, err := book.Run(ctx, embed.Script{Code: fmt.Sprintf("for (let i = 0; i < %d; i++) console.log(%q + i)", s.lines, text), ExecutionTimeoutSecs: 120})
	if err != nil {
		return err
	}
	took := time.Since(start)
	if e.Status != events.StatusCompleted || e.TotalLines != int64(s.lines) {
		return fmt.Errorf("the script is %s with %d lines", e.Status, e.TotalLines)
	}
	history, err := book.History(ctx, e.ExecutionID)
	if err != nil {
		return err
	}
	r.Output = outputResult{Lines: s.lines, LineBytes: int(e.TotalBytes) / s.lines, Events: len(history), Took: took, PerSecond: float64(s.lines) / took.Seconds()}
	r.Output.PerFsync = r.Output.PerSecond * beside.fsync().Seconds()
	_, err = book.Output(ctx, e.ExecutionID, projections.OutputQuery{LineOffset: int64(s.lines)})
	return err
}
