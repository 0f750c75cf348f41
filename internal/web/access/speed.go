package access

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leastScale is the least part of its usual cost that a change is taken to cost.
	leastScale = 0.1
	// scaleAfter is how often the scale is measured, and leastCharged how much the
	// changes in that time must cost for a measurement.
	scaleAfter, leastCharged = 250 * time.Millisecond, 50 * time.Millisecond
)

// speed is how fast this machine is: changeTime and byteTime are those of a slow one. If
// all that the server does takes less processor time than its changes are taken to cost,
// they cost less. It is not safe for concurrent use.
type speed struct {
	// used returns the processor time of this process; nil asks the system.
	used func() time.Duration

	scale   float64 // 0 is 1: nothing was measured
	at      time.Time
	before  time.Duration // of used, at that time
	charged time.Duration // since then, unscaled
}

// cost counts a change of the usual cost c and returns what it costs here.
func (s *speed) cost(c time.Duration, now time.Time) time.Duration {
	if s.scale == 0 {
		s.scale = 1
	}
	if now.Sub(s.at) >= scaleAfter {
		s.measure(now)
	}
	s.charged += c
	return time.Duration(float64(c) * s.scale)
}

// back takes back a change that was counted, and returns about what it cost.
func (s *speed) back(c time.Duration) time.Duration {
	s.charged -= c
	return time.Duration(float64(c) * s.scale)
}

func (s *speed) measure(now time.Time) {
	used := s.used
	if used == nil {
		used = processTime
	}
	total := used()
	if s.charged >= leastCharged && now.Sub(s.at) < 4*scaleAfter && total > 0 {
		measured := min(max(float64(total-s.before)/float64(s.charged), leastScale), 1)
		s.scale += (measured - s.scale) / 4
	}
	s.at, s.before, s.charged = now, total, 0
}

// processTime is the processor time that this process has used, without its workers; 0
// where that is not known.
func processTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
