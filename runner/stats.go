package runner

import (
	"maps"
	"slices"
	"sync"
	"time"

	"daybook/events"
)

// Stats holds the counts of a runner since New.
type Stats struct {
	// InFlight is the number of requests that the runner is processing.
	InFlight int
	// Done counts the executions that this runner ended, by status.
	Done map[events.Status]int64
	// HandedBack counts the runs that were handed back while draining. Retried counts
	// the requests that were returned because something was unavailable.
	HandedBack int64
	Retried    int64
	// Postponed counts the requests that were returned because the turn of their run
	// had not come.
	Postponed int64
	// QueueTimes holds, by tenant, the time from acceptance to the first attempt of the
	// runs that this runner started.
	QueueTimes map[string]QueueTime
}

// QueueTime is a histogram of the times that runs waited.
type QueueTime struct {
	// Counts has one count for each bound of QueueBounds: the runs that waited at most
	// that long and longer than the bound before. The last one counts the runs that
	// waited longer than all bounds.
	Counts [len(queueBounds) + 1]uint64
	// Total is the sum of the times.
	Total time.Duration
}

var queueBounds = [...]time.Duration{
	5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	2 * time.Second, 10 * time.Second, time.Minute, 10 * time.Minute,
}

// QueueBounds returns the upper bounds of the counts of QueueTime, in ascending order.
func QueueBounds() []time.Duration { return slices.Clone(queueBounds[:]) }

const (
	// maxNamedTenants limits the tenants that have queue times of their own.
	maxNamedTenants = 50
	// otherTenants is the key in Stats.QueueTimes for all further tenants together. No
	// tenant has this name.
	otherTenants = "(other)"
)

// addQueueTime counts the wait of a run that starts.
func (s *Stats) addQueueTime(tenant string, wait time.Duration) {
	if s.QueueTimes == nil {
		s.QueueTimes = map[string]QueueTime{}
	}
	q, known := s.QueueTimes[tenant]
	if !known && len(s.QueueTimes) >= maxNamedTenants {
		tenant = otherTenants
		q = s.QueueTimes[tenant]
	}
	wait = max(wait, 0) // the clocks of two machines may differ
	i, _ := slices.BinarySearch(queueBounds[:], wait)
	q.Counts[i]++
	q.Total += wait
	s.QueueTimes[tenant] = q
}

// stats guards the counts with a mutex that is never held across a call.
type stats struct {
	mu     sync.Mutex
	counts Stats
}

func (s *stats) read() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	out.Done, out.QueueTimes = maps.Clone(s.counts.Done), maps.Clone(s.counts.QueueTimes)
	if out.Done == nil {
		out.Done = map[events.Status]int64{}
	}
	return out
}

func (s *stats) add(change func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counts.Done == nil {
		s.counts.Done = map[events.Status]int64{}
	}
	change(&s.counts)
}
