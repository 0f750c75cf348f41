package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"daybook/internal/exec/v8"
)

// floor measures the lower bounds of this machine. It takes its samples between those
// of the measurement, because the speed of a shared machine changes by half within a
// minute.
type floor struct {
	file   *os.File
	cfg    v8.Config
	syncs  []time.Duration // append 512 bytes to a file and fsync
	cycles []time.Duration // create, run, save and dispose an isolate in this process
	count  int
}

func newFloor(dir string, plain bool) (*floor, error) {
	if _, err := v8.Warm(plain, nil); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("floor-plain-%t", plain)))
	if err != nil {
		return nil, err
	}
	f := &floor{file: file, cfg: v8.Config{HeapLimit: 64 << 20, Plain: plain}}
	if err := f.sample(10, 0); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *floor) close() error { return f.file.Close() }

func (f *floor) reset() { f.syncs, f.cycles = nil, nil }

// sample takes n samples of each, after warm samples that do not count.
func (f *floor) sample(warm, n int) error {
	for i := range warm + n {
		took, err := f.timeSync()
		if err != nil {
			return err
		}
		if i >= warm {
			f.syncs = append(f.syncs, took)
		}
	}
	for i := range warm + n {
		took, err := f.timeCycle()
		if err != nil {
			return err
		}
		if i >= warm {
			f.cycles = append(f.cycles, took)
		}
	}
	return nil
}

func (f *floor) timeSync() (time.Duration, error) {
	start := time.Now()
	if _, err := f.file.Write(make([]byte, 512)); err != nil {
		return 0, err
	}
	err := f.file.Sync()
	return time.Since(start), err
}

func (f *floor) timeCycle() (time.Duration, error) {
	f.count++
	script := fmt.Sprintf("var n = %d; 1+1", f.count)
	start := time.Now()
	isolate, err := v8.New(f.cfg)
	if err != nil {
		return 0, err
	}
	defer isolate.Dispose()
	if _, err := isolate.Run(v8.Script{Source: []byte(script)}); err != nil {
		return 0, err
	}
	if !f.cfg.Plain {
		if _, err := isolate.Snapshot(); err != nil {
			return 0, err
		}
	}
	isolate.Dispose()
	return time.Since(start), nil
}

func (f *floor) cycle() time.Duration { return quantile(f.cycles, 0.5) }
func (f *floor) fsync() time.Duration { return quantile(f.syncs, 0.5) }
