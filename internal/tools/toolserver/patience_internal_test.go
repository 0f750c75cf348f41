package toolserver

import (
	"context"
	"testing"
	"time"
)

// A server that does not connect delays only the runs of its first seconds: the wait
// counts from the start of the attempt, and is shorter for a server that has failed
// before.
func TestPatience(t *testing.T) {
	t.Parallel()
	const long = time.Hour
	for name, test := range map[string]struct {
		ago      time.Duration // since the start of the attempt
		failures int
		waits    bool
	}{
		"the first attempt":          {0, 0, true},
		"the first attempt, late":    {2 * long, 0, false},
		"a later attempt":            {time.Second, 1, false},
		"a later attempt, its start": {-long, 1, true}, // as if it started in the future
	} {
		s, err := New([]Config{{Name: "hung", Command: "sleep", Args: []string{"3600"}}}, Options{ConnectTimeout: long, ListWait: long})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		hung := s.servers[0]
		hung.wake()
		hung.mu.Lock()
		hung.attemptStart, hung.failures = time.Now().Add(-test.ago), test.failures
		hung.mu.Unlock()
		end := 30 * time.Second
		if test.waits {
			end = 50 * time.Millisecond
		}
		ctx, stop := context.WithTimeout(t.Context(), end)
		list := s.Servers(ctx, "acme")
		if waited := ctx.Err() != nil; waited != test.waits {
			t.Errorf("%s: a run waits until its own end: %v, want %v", name, waited, test.waits)
		}
		stop()
		if tools, ok := list["hung"]; !ok || len(tools) != 0 {
			t.Errorf("%s: tools %v", name, list)
		}
	}
}
