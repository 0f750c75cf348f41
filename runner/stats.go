package runner

import (
	"maps"
	"slices"
	"sync"
	"time"

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
	// Queued is how long the runs that this runner started waited from acceptance to
	// their first attempt, by tenant.
	Queued map[string]QueueTime
}

// QueueTime counts runs by how long they waited.
type QueueTime struct {
	// Counts are the runs that waited at most as long as QueueBounds says, each
	// without those of the bounds before; the last are those that waited longer.
	Counts [len(queueBounds) + 1]uint64
	// Total is how long they waited together.
	Total time.Duration
}

var queueBounds = [...]time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	2 * time.Second, 10 * time.Second, time.Minute, 10 * time.Minute,
}

// QueueBounds are the bounds that QueueTime counts by, in ascending order.
func QueueBounds() []time.Duration { return slices.Clone(queueBounds[:]) }

const (
	// maxNamedTenants bounds the tenants whose queue times are counted apart.
	maxNamedTenants = 50
	// otherTenants counts in Stats.Queued for all further tenants together. No
	// tenant has this name.
	otherTenants = "(other)"
)

// queued counts the wait of a run that is started.
func (s *Stats) queued(tenant string, wait time.Duration) {
	if s.Queued == nil {
		s.Queued = map[string]QueueTime{}
	}
	q, known := s.Queued[tenant]
	if !known && len(s.Queued) >= maxNamedTenants {
		tenant = otherTenants
		q = s.Queued[tenant]
	}
	wait = max(wait, 0) // the clocks of two machines may differ
	i, _ := slices.BinarySearch(queueBounds[:], wait)
	q.Counts[i]++
	q.Total += wait
	s.Queued[tenant] = q
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
	out.Done, out.Queued = maps.Clone(s.now.Done), maps.Clone(s.now.Queued)
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
