package access

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// leastScale is the minimum of speed.scale.
	leastScale = 0.1
	// scaleAfter is the minimum time between two measurements of the scale.
	// leastCharged is the minimum cost of the changes in that time for a measurement.
	scaleAfter, leastCharged = 250 * time.Millisecond, 50 * time.Millisecond
)

// speed scales the costs of changes to this machine: changeTime and byteTime are those
// of a slow one. If the whole server uses less processor time than the costs of its
// changes, the costs are scaled down. A speed is not safe for concurrent use.
type speed struct {
	// used returns the processor time of this process. nil means processTime.
	used func() time.Duration

	scale   float64 // 0 means 1: nothing was measured yet
	at      time.Time
	before  time.Duration // value of used at that time
	charged time.Duration // sum of the unscaled costs since then
}

// cost counts a change with the unscaled cost c and returns its scaled cost.
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

// back undoes the counting of a change, and returns approximately its scaled cost.
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

// processTime returns the processor time of this process, without its workers, or 0 if
// the system does not report it.
func processTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
