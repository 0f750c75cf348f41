package disk

import (
	"strings"
	"testing"
	"time"
)

// Bytes written since the last check of the disk count, also within fresh of it.
func TestDiskCountsWrittenBytes(t *testing.T) {
	t.Parallel()
	k := &Space{dir: t.TempDir(), reserve: 100, floor: 25, looked: time.Now().Add(time.Hour), free: 1000}
	for _, step := range []struct {
		write    int
		low, out bool
	}{
		{0, false, false},
		{900, false, false},
		{1, true, false},
		{100, true, true},
	} {
		if k.AddWritten(step.write); (k.Low() != nil) != step.low || (k.Out() != nil) != step.out {
			t.Errorf("after %d bytes more: low: %v, out: %v; want %v, %v", step.write, k.Low(), k.Out(), step.low, step.out)
		}
	}
	// After many bytes the disk is checked again, also right after a check.
	if k.AddWritten(mostUnseen); k.Low() != nil || k.unseen != 0 || k.free == 1000 {
		t.Errorf("the disk was not checked: %d bytes free, %d unseen", k.free, k.unseen)
	}
	k.reserve = 1 << 60
	if k.looked = time.Now().Add(-time.Second); k.Low() == nil {
		t.Error("the disk was not checked after a second")
	}
	// While one caller reads the free space, other callers do not wait for it.
	k.reserve, k.reads, k.looked, k.free, k.unseen, k.low = 100, true, time.Time{}, 1000, 0, false
	if k.Low() != nil || !k.looked.IsZero() {
		t.Error("two callers checked the disk at once")
	}
	(*Space)(nil).AddWritten(1)
}

// The error about a low disk prints sizes that explain it: the free space without bytes that
// were just written, and the reserve as the earlier limit if more is free now.
func TestLowDiskNamesSizesThatDiffer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		k     *Space
		words string
	}{
		{&Space{size: 24 << 20, reserve: 24 << 20 / 20, free: 1100 << 10}, "too little of the disk is free: 1 MiB, and the reserve is 2 MiB (--disk-reserve); free some space: with 2 MiB free"},
		{&Space{size: 1 << 40, reserve: 256 << 20, free: 256<<20 - 1}, "too little of the disk is free: 255 MiB, and the reserve is 256 MiB (--disk-reserve); free some space: with 288 MiB free"},
		{&Space{size: 1 << 40, reserve: 256 << 20, free: 256 << 20, unseen: 1}, "too little of the disk is free: 255 MiB, and the reserve is 256 MiB (--disk-reserve); free some space: with 288 MiB free"},
		{&Space{size: 1 << 40, reserve: 256 << 20, unseen: 1}, "too little of the disk is free: 0 MiB, and the reserve is 256 MiB"},
		{&Space{size: 1 << 40, reserve: 256 << 20, free: 280 << 20, low: true}, "too little of the disk is free: 280 MiB, and before there was less than the reserve of 256 MiB (--disk-reserve); free some space: with 288 MiB free"},
	} {
		if err := test.k.reason(); !strings.Contains(err.Error(), test.words) {
			t.Errorf("%v: want %q", err, test.words)
		}
	}
}
