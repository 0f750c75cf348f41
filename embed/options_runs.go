package embed

import "time"

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
