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
		s.queued(fmt.Sprint(i), time.Second)
	}
	s.queued("0", -time.Second)
	s.queued("0", time.Hour)
	if len(s.Queued) != maxNamedTenants+1 {
		t.Errorf("%d tenants are named", len(s.Queued))
	}
	if q := s.Queued[otherTenants]; q.Counts[4] != maxNamedTenants || q.Total != maxNamedTenants*time.Second {
		t.Errorf("the others: %+v", q)
	}
	if q := s.Queued["0"]; q.Counts[0] != 1 || q.Counts[4] != 1 || q.Counts[len(q.Counts)-1] != 1 || q.Total != time.Hour+time.Second {
		t.Errorf("a tenant: %+v", q)
	}
}
