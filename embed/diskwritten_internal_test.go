package embed

import (
	"testing"
	"time"
)

// Bytes written since the last check of the disk count, also within diskFresh of it.
func TestDiskCountsWrittenBytes(t *testing.T) {
	t.Parallel()
	k := &disk{dir: t.TempDir(), reserve: 100, floor: 25, looked: time.Now().Add(time.Hour), free: 1000}
	for _, step := range []struct {
		write    int
		low, out bool
	}{
		{0, false, false},
		{900, false, false},
		{1, true, false},
		{100, true, true},
	} {
		if k.addWritten(step.write); (k.isLow() != nil) != step.low || (k.isOut() != nil) != step.out {
			t.Errorf("after %d bytes more: low: %v, out: %v; want %v, %v", step.write, k.isLow(), k.isOut(), step.low, step.out)
		}
	}
	// After many bytes the disk is checked again, also right after a check.
	if k.addWritten(diskUnseen); k.isLow() != nil || k.unseen != 0 || k.free == 1000 {
		t.Errorf("the disk was not checked: %d bytes free, %d unseen", k.free, k.unseen)
	}
	k.reserve = 1 << 60
	if k.looked = time.Now().Add(-time.Second); k.isLow() == nil {
		t.Error("the disk was not checked after a second")
	}
	// While one caller reads the free space, other callers do not wait for it.
	k.reserve, k.reads, k.looked, k.free, k.unseen, k.low = 100, true, time.Time{}, 1000, 0, false
	if k.isLow() != nil || !k.looked.IsZero() {
		t.Error("two callers checked the disk at once")
	}
	(*disk)(nil).addWritten(1)
}
