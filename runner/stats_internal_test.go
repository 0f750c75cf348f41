package runner

import (
	"fmt"
	"testing"
	"time"
)

// Queue times are counted by tenant up to a limit, and then for all others together.
func TestQueueTimes(t *testing.T) {
	t.Parallel()
	var s Stats
	for i := range 2 * maxNamedTenants {
		s.addQueueTime(fmt.Sprint(i), time.Second)
	}
	s.addQueueTime("0", -time.Second)
	s.addQueueTime("0", time.Hour)
	if len(s.QueueTimes) != maxNamedTenants+1 {
		t.Errorf("%d tenants are named", len(s.QueueTimes))
	}
	if q := s.QueueTimes[otherTenants]; q.Counts[4] != maxNamedTenants || q.Total != maxNamedTenants*time.Second {
		t.Errorf("the others: %+v", q)
	}
	if q := s.QueueTimes["0"]; q.Counts[0] != 1 || q.Counts[4] != 1 || q.Counts[len(q.Counts)-1] != 1 || q.Total != time.Hour+time.Second {
		t.Errorf("a tenant: %+v", q)
	}
}
