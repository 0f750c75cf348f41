package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"daybook/internal/v8"
)

// measureFloor measures what nothing on this machine can be faster than.
func measureFloor(_ context.Context, s settings, r *report) error {
	f, err := os.Create(filepath.Join(s.dir, "floor"))
	if err != nil {
		return err
	}
	defer f.Close()
	var syncs []time.Duration
	block := make([]byte, 512)
	for range 1000 {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		syncs = append(syncs, time.Since(start))
	}
	r.Fsync, r.FsyncP99 = quantile(syncs, 0.5), quantile(syncs, 0.99)

	if r.Cycle, err = cycles(s.runs, v8.Config{HeapLimit: 64 << 20}); err != nil {
		return err
	}
	r.PlainCycle, err = cycles(s.runs, v8.Config{HeapLimit: 64 << 20, Plain: true})
	return err
}

// cycles is the median time of a whole life of an isolate.
func cycles(n int, cfg v8.Config) (time.Duration, error) {
	if err := v8.Warm(); err != nil {
		return 0, err
	}
	var took []time.Duration
	for i := range n + 10 {
		start := time.Now()
		isolate, err := v8.New(cfg)
		if err != nil {
			return 0, err
		}
		if _, err := isolate.Run([]byte("1+1")); err != nil {
			return 0, err
		}
		if !cfg.Plain {
			if _, err := isolate.Snapshot(); err != nil {
				return 0, err
			}
		}
		isolate.Dispose()
		if i >= 10 { // the first ones warm caches
			took = append(took, time.Since(start))
		}
	}
	return quantile(took, 0.5), nil
}
