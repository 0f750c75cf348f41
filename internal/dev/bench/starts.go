package main

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"daybook/internal/dev/process"
)

// startResult holds the start time and the memory of an idle server.
type startResult struct {
	Events               int
	Ready                time.Duration
	ServerMiB, WorkerMiB int
	Workers              int
}

func measureStarts(ctx context.Context, s settings, r *report) error {
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	bin, err := process.BuildDaybook(ctx, dir)
	if err != nil {
		return err
	}
	for _, ledger := range []struct {
		dir    string
		events int
	}{{"empty", 0}, {"large", s.events}} {
		// Start twice: the second start finds the projections and consumers that
		// a stopped server leaves.
		var res startResult
		for range 2 {
			var err error
			if res, err = measureStart(ctx, bin, filepath.Join(dir, ledger.dir)); err != nil {
				return err
			}
		}
		res.Events = ledger.events
		r.Starts = append(r.Starts, res)
	}
	return nil
}

func measureStart(ctx context.Context, bin, dir string) (res startResult, err error) {
	addr, err := process.FreeAddr()
	if err != nil {
		return res, err
	}
	start := time.Now()
	server, err := process.Start(ctx, process.Config{Name: "serve", Dir: filepath.Dir(bin), URL: "http://" + addr, Ready: "/readyz",
		Command: []string{bin, "serve", "--data-dir", dir, "--http-addr", addr, "--nats-addr", "off"}})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	res.Ready = time.Since(start)
	time.Sleep(3 * time.Second) // until the waiting workers have started
	res.ServerMiB = int(server.Resident() >> 20)
	for _, worker := range server.ChildrenResident() {
		res.Workers++
		res.WorkerMiB = max(res.WorkerMiB, int(worker>>20))
	}
	return res, nil
}
