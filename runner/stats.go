package runner

import (
	"maps"
	"sync"

	"daybook/events"
)

// Stats tells what a runner is doing and has done since it was made.
type Stats struct {
	// InFlight is the number of requests in hand.
	InFlight int
	// Done counts the executions this runner brought to an end, by status.
	Done map[events.Status]int64
	// HandedBack counts runs handed back while draining, Retried requests given
	// back because something was unavailable.
	HandedBack int64
	Retried    int64
	// Postponed counts requests given back because the turn of their run had not
	// come.
	Postponed int64
}

// stats counts under one mutex, never held across a call.
type stats struct {
	mu  sync.Mutex
	now Stats
}

func (s *stats) read() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.now
	out.Done = maps.Clone(s.now.Done)
	if out.Done == nil {
		out.Done = map[events.Status]int64{}
	}
	return out
}

func (s *stats) add(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now.Done == nil {
		s.now.Done = map[events.Status]int64{}
	}
	change(&s.now)
}
