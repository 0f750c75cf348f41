package embed

import (
	"errors"
	"math"
	"runtime/debug"
	"testing"

	"daybook/internal/datadir"
)

// The memory is limited before a server reads its ledger, and no longer once it is closed
// or could not start. Not parallel: the limit is that of the process.
func TestLimitWhileStarting(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	if before != math.MaxInt64 {
		t.Skip("this process has a memory limit of its own (GOMEMLIMIT)")
	}
	opts, err := Options{DataDir: t.TempDir(), Resources: ResourceOptions{MemoryMB: MinMemoryMB, LimitMemory: true}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	d := newDaybook(opts)
	if err := d.limitMemory(t.Context()); err != nil {
		t.Fatal(err)
	}
	const least = MinMemoryMB<<20 + limitHeadroom
	if got := debug.SetMemoryLimit(-1); got >= before || got < least {
		t.Errorf("the limit is %d MiB, want at least %d", got>>20, least>>20)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("after Close the limit is %d, want %d", got, before)
	}

	lock, err := datadir.TakeLock(opts.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := Start(t.Context(), opts); !errors.Is(err, ErrLocked) {
		t.Errorf("a start in a directory in use: %v", err)
	}
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("after a failed start the limit is %d, want %d", got, before)
	}
}
