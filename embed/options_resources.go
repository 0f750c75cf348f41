package embed

import (
	"errors"
	"log/slog"
	"runtime/debug"
)

// ResourceOptions bound the use of the machine.
type ResourceOptions struct {
	// MemoryMB is the memory for answers, heaps of runs and cached heaps together, in
	// MiB, from MinMemoryMB to MaxMemoryMB: three eighths for answers, half for runs,
	// the rest for the cache. Answers above it are refused with 503 and Retry-After;
	// runs wait. With the embedded NATS server it also limits the recorded output of
	// all runs: a sixteenth of it at once, then a thirty-second of it per second.
	// Default: 512, or half of the memory limit of the Go runtime if that is less. A
	// value above that limit is lowered to it.
	MemoryMB int
	// LimitMemory adjusts the memory limit of the Go runtime (debug.SetMemoryLimit) to
	// the budget and to the memory in use, never above the limit that the process had.
	// It is for processes that do nothing else. Close restores the former limit.
	LimitMemory bool
	// MinClientBytes is the minimum that a client must send or receive in each 30 s in
	// which the server waits for it. Default: 65536. With a negative number any
	// progress is enough.
	MinClientBytes int64
	// DiskReserve is the space to keep free on the disk of DataDir, in bytes. Below it
	// no new run is accepted, and below a quarter of it nothing is recorded, until more
	// space is free. Default: 256 MiB, at most a twentieth of the file system. A
	// negative number keeps nothing free.
	DiskReserve int64
}

// validate returns the errors of the fields.
func (o ResourceOptions) validate() error {
	return errors.Join(
		optionRange[int]{least: MinMemoryMB, most: MaxMemoryMB, unit: " MiB"}.check("Resources.MemoryMB", o.MemoryMB),
		optionRange[int64]{least: 1, most: maxClientBytes, unit: " bytes in 30 s", negative: "requires any progress"}.check("Resources.MinClientBytes", o.MinClientBytes),
		optionRange[int64]{least: 1, most: maxReserve, negative: "keeps nothing free"}.check("Resources.DiskReserve", o.DiskReserve),
	)
}

// withDefaults sets the default of MemoryMB, which depends on the memory limit of the Go
// runtime, and lowers it to that limit.
func (o ResourceOptions) withDefaults(log *slog.Logger) ResourceOptions {
	limit := debug.SetMemoryLimit(-1)
	setDefault(&o.MemoryMB, memoryMB(limit))
	if most := int(max(limit>>20, MinMemoryMB)); o.MemoryMB > most {
		log.Warn("the memory budget (--memory-budget) is above the memory limit of the Go runtime and is lowered to it; give the process more memory, or set GOMEMLIMIT",
			"asked_mib", o.MemoryMB, "budget_mib", most)
		o.MemoryMB = most
	}
	return o
}
