package stream

import (
	"testing"
	"time"
)

// Events are swept once, in order, when they are old and many enough.
func TestSweeping(t *testing.T) {
	t.Parallel()
	s := sweeper{age: sweepAge, bytes: sweepBytes}
	began := time.Unix(0, 0)
	look := func(seconds int, end uint64, mib int64, wantAfter, wantTo uint64) {
		t.Helper()
		after, to := s.dueRange(sweepMark{began.Add(time.Duration(seconds) * time.Second), end, mib << 20})
		if after != wantAfter || to != wantTo {
			t.Errorf("after %d s, positions %d to %d are swept, want %d to %d", seconds, after, to, wantAfter, wantTo)
		}
	}
	look(0, 100, 500, 100, 100) // earlier events are not swept
	look(1, 110, 504, 100, 100)
	look(2, 120, 520, 100, 100)
	look(12, 120, 520, 100, 100)
	look(13, 130, 530, 100, 100) // 4 MiB are old enough
	look(14, 140, 540, 100, 120)
	look(14, 140, 540, 120, 120)
	look(25, 150, 550, 120, 130)
	look(100, 160, 551, 130, 150)
	// Few bytes wait until there are more, and keep no marks.
	for i := range 1000 {
		look(200+i, 160+uint64(i), 551, 150, 150)
	}
	if n := len(s.marks); n > 20 {
		t.Errorf("%d marks are kept", n)
	}
	look(1300, 1160, 600, 150, 150)
	look(1312, 1160, 600, 150, 1160)
}
