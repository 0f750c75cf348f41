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
	r.Stateful, err = measureRuns(ctx, s, embed.Options{DataDir: filepath.Join(s.dir, "stateful")}, r.Cycle, r)
	return err
}

func measureStateless(ctx context.Context, s settings, r *report) (err error) {
	r.Stateless, err = measureRuns(ctx, s, embed.Options{DataDir: filepath.Join(s.dir, "stateless"), Stateless: true}, r.PlainCycle, r)
	return err
}

func measureRuns(ctx context.Context, s settings, opts embed.Options, floor time.Duration, r *report) (rows []throughput, err error) {
	book, err := embed.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	var unique atomic.Int64
	if _, err := load(ctx, book, &unique, 4, 50); err != nil { // workers started, caches warm
		return nil, err
	}
	for _, clients := range []int{1, 4, 16} {
		start := time.Now()
		took, err := load(ctx, book, &unique, clients, s.runs)
		if err != nil {
			return nil, err
		}
		rate := float64(len(took)) / time.Since(start).Seconds()
		row := throughput{Clients: clients, P50: quantile(took, 0.5), P99: quantile(took, 0.99), PerSecond: rate}
		row.OfFloor = rate * floor.Seconds() / float64(cores)
		row.AddedFsy = float64(row.P50-floor) / float64(r.Fsync)
		rows = append(rows, row)
	}
	return rows, nil
}

// load runs n scripts from a number of clients and returns how long each took.
// unique counts the scripts of a Daybook.
func load(ctx context.Context, book *embed.Daybook, unique *atomic.Int64, clients, n int) ([]time.Duration, error) {
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var failed error
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				// No two runs leave the same heap: one that is there already costs
				// almost nothing to store.
				code := fmt.Sprintf("var n = %d; 1+1", unique.Add(1))
				start := time.Now()
				e, err := book.Run(ctx, embed.Script{Code: code})
				if err == nil && (e.Status != events.StatusCompleted || *e.Result != "2") {
					err = fmt.Errorf("%s is %s", e.ExecutionID, e.Status)
				}
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

// outputResult is what a script with much output cost.
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
	if _, err := load(ctx, book, new(atomic.Int64), 1, 3); err != nil {
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
	r.Output.PerFsync = r.Output.PerSecond * r.Fsync.Seconds()
	_, err = book.Output(ctx, e.ExecutionID, projections.OutputQuery{LineOffset: int64(s.lines)})
	return err
}
