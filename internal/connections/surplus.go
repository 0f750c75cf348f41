package connections

import (
	"net"
	"sync"
	"time"
)

// Work that a client causes without a request that is answered, in units.
const (
	// resetWork is that of a stream that is reset, answerWork that of a frame that is
	// answered at once.
	resetWork  = 16
	answerWork = 4
	// freeWork and freeRate are how much of it a connection causes without a wait, at
	// once and in each second. What is beyond waits for its turn in portions.
	freeWork = 16 * resetWork
	freeRate = resetWork
	freeEach = time.Second / freeRate
	portion  = resetWork
	// portionTime is the time between two portions of all connections, portionBurst how
	// many of them come at once.
	portionTime  = 2 * time.Millisecond
	portionBurst = 250
)

// surplus counts such work of a connection.
type surplus struct {
	work int
	at   time.Time // until when the free rate is subtracted
}

// add counts work.
func (s *surplus) add(work int, now time.Time) {
	free := int(now.Sub(s.at) / freeEach)
	if s.work <= free {
		s.work, s.at = 0, now
	} else {
		s.work -= free
		s.at = s.at.Add(time.Duration(free) * freeEach)
	}
	s.work += work
}

// due reports whether the client has to wait for a portion, and counts that as done.
func (s *surplus) due(now time.Time) bool {
	if s.work < freeWork+portion {
		return false
	}
	if s.add(0, now); s.work < freeWork+portion {
		return false
	}
	s.work -= portion
	return true
}

// pace lets the connections with surplus work take turns: it costs processor time that
// those without it need.
type pace struct {
	mu   sync.Mutex
	next time.Time
}

// spend waits for the turn of a portion, or until done is closed.
func (p *pace) spend(done <-chan struct{}) error {
	now := time.Now()
	p.mu.Lock()
	if burst := now.Add(-portionBurst * portionTime); p.next.Before(burst) {
		p.next = burst
	}
	p.next = p.next.Add(portionTime)
	wait := p.next.Sub(now)
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-done:
		return net.ErrClosed
	}
}
