package stream

import (
	"context"
	"time"

	"daybook/internal/store/jet"
)

const (
	// sweepAge is the age from which events are swept. The embedded server keeps the
	// cache of a block for ten seconds after its last write.
	sweepAge = 12 * time.Second
	// sweepInterval is the interval at which a sweep looks for events that are old enough.
	sweepInterval = time.Second
	// sweepBytes is the minimum size of a sweep in bytes: a block of the server.
	sweepBytes = 8 << 20
)

// sweep reads new events a second time, in order, once they are older than sweepAge,
// until ctx is done. The embedded server cannot release the memory of a block that it
// has written while clients read the block again and again. It drops the cache when a
// reader in order reaches the end of a block that was not written for ten seconds. What
// the server reads from the disk later can be collected as garbage. Events that cannot
// be read are read again later. Errors are not reported, because the followers meet them
// too.
func (t *SharedTail) sweep(ctx context.Context) {
	s := sweeper{age: t.sweepAge, bytes: t.sweepBytes}
	var after, to uint64 // the rest of the last sweep
	for jet.Wait(ctx, t.sweepInterval) == nil {
		t.mu.Lock()
		now := sweepMark{time.Now(), t.end, t.read}
		t.mu.Unlock()
		from, until := s.dueRange(now)
		if after >= to {
			after = max(after, from)
		}
		to = max(to, until)
		for after < to && ctx.Err() == nil {
			p := newPage(raw, after, 64)
			if _, _, err := t.s.readBatch(ctx, jet.BatchMessages, pageBytes, &p); err != nil || p.end == after {
				break
			}
			after = p.end
		}
		t.mu.Lock()
		t.swept = after
		t.mu.Unlock()
	}
}

// sweepMark is the state of a SharedTail at a time: its position, and the bytes it has
// read.
type sweepMark struct {
	at    time.Time
	end   uint64
	bytes int64
}

type sweeper struct {
	age   time.Duration
	bytes int64
	marks []sweepMark // oldest first: the end of the last sweep, then later states
}

// dueRange returns the range to sweep: the positions after the first result, up to and
// including the second. The results are equal if there is nothing to sweep.
func (s *sweeper) dueRange(now sweepMark) (after, to uint64) {
	if n := len(s.marks); n == 0 || s.marks[n-1].end < now.end {
		s.marks = append(s.marks, now)
	}
	old := 0
	for i, m := range s.marks {
		if now.at.Sub(m.at) >= s.age {
			old = i
		}
	}
	if s.marks[old].bytes-s.marks[0].bytes < s.bytes {
		// The marks between the first one and this one are not needed.
		if old > 1 {
			s.marks = append(s.marks[:1], s.marks[old:]...)
		}
		return s.marks[0].end, s.marks[0].end
	}
	after, to = s.marks[0].end, s.marks[old].end
	s.marks = append([]sweepMark{}, s.marks[old:]...)
	return after, to
}
