package embed

import (
	"cmp"
	"errors"
	"time"
)

// RunOptions configure the execution of runs.
type RunOptions struct {
	// Elsewhere starts no runner. Runs wait for a runner of another process.
	Elsewhere bool
	// Stateless runs every script in a plain isolate, with the optimizing compiler and
	// WebAssembly, but without restoring or saving heaps.
	Stateless bool
	// HeapMB is the default heap limit of a run, HeapCeilingMB the largest limit that a
	// run may request, both in MiB and at most MaxMemoryMB. Defaults: 64, and 256 or
	// HeapMB if that is more.
	HeapMB        int
	HeapCeilingMB int
	// TimeoutSecs is the default wall-clock limit of a run, in seconds, 1 to 300.
	// Default: 30.
	TimeoutSecs int
	// OutputMaxBytes is the maximum stored output per run. Default: 64 MiB. A negative
	// number is unlimited.
	OutputMaxBytes int64
	// DrainWait is the time that Close gives to running scripts before they are handed
	// back. Default: 10 s. A negative duration hands them back at once.
	DrainWait time.Duration
}

// validate returns the errors of the fields.
func (o RunOptions) validate() error {
	heap := optionRange[int]{least: 1, most: MaxMemoryMB, unit: " MB"}
	problems := []error{
		heap.check("Runs.HeapMB", o.HeapMB),
		heap.check("Runs.HeapCeilingMB", o.HeapCeilingMB),
		optionRange[int]{least: 1, most: 300}.check("Runs.TimeoutSecs", o.TimeoutSecs),
		optionRange[int64]{least: 1, most: maxStoredBytes, negative: "is unlimited"}.check("Runs.OutputMaxBytes", o.OutputMaxBytes),
		optionRange[time.Duration]{least: 1, negative: "is no wait"}.check("Runs.DrainWait", o.DrainWait),
	}
	if heap := cmp.Or(o.HeapMB, defaultHeapMB); o.HeapCeilingMB > 0 && o.HeapCeilingMB < heap {
		problems = append(problems, fieldIs("Runs.HeapCeilingMB", "%d: it must not be below Runs.HeapMB, which is %d", o.HeapCeilingMB, heap))
	}
	return errors.Join(problems...)
}

// defaultHeapMB is the default of RunOptions.HeapMB.
const defaultHeapMB = 64

func (o RunOptions) withDefaults() RunOptions {
	setDefault(&o.HeapMB, defaultHeapMB)
	setDefault(&o.HeapCeilingMB, max(256, o.HeapMB))
	setDefault(&o.TimeoutSecs, 30)
	setDefault(&o.DrainWait, 10*time.Second)
	return o
}
