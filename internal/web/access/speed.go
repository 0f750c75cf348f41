package access

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// minScale is the minimum of speed.scale.
	minScale = 0.1
	// scaleInterval is the minimum time between two measurements of the scale.
	// minCharged is the minimum cost of the changes in that time for a measurement.
	scaleInterval, minCharged = 250 * time.Millisecond, 50 * time.Millisecond
)

// speed scales the costs of changes to this machine: changeTime and byteTime are the costs
// on a slow machine. If the whole server uses less processor time than the costs of its
// changes, the costs are scaled down. A speed is not safe for concurrent use.
type speed struct {
	// processTime returns the processor time of this process. nil means processTime.
	processTime func() time.Duration

	scale      float64       // 0 means 1: nothing was measured yet
	at         time.Time     // time of the last measurement
	usedBefore time.Duration // processor time that was used until then
	charged    time.Duration // sum of the unscaled costs since then
}

// cost counts a change with the unscaled cost c and returns its scaled cost.
func (s *speed) cost(c time.Duration, now time.Time) time.Duration {
	if s.scale == 0 {
		s.scale = 1
	}
	if now.Sub(s.at) >= scaleInterval {
		s.measure(now)
	}
	s.charged += c
	return time.Duration(float64(c) * s.scale)
}

// refund undoes the counting of a change, and returns approximately its scaled cost.
func (s *speed) refund(c time.Duration) time.Duration {
	s.charged -= c
	return time.Duration(float64(c) * s.scale)
}

func (s *speed) measure(now time.Time) {
	used := s.processTime
	if used == nil {
		used = processTime
	}
	total := used()
	if s.charged >= minCharged && now.Sub(s.at) < 4*scaleInterval && total > 0 {
		measured := min(max(float64(total-s.usedBefore)/float64(s.charged), minScale), 1)
		s.scale += (measured - s.scale) / 4
	}
	s.at, s.usedBefore, s.charged = now, total, 0
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
