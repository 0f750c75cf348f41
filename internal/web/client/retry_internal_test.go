package client

import (
	"testing"
	"time"
)

// A server that asks for no pause gets some 40 requests in the time of the repetitions, and
// not thousands.
func TestLeastRetryPause(t *testing.T) {
	t.Parallel()
	requests, waited := 0, time.Duration(0)
	for ; waited <= maxRetryWait; requests++ {
		waited += leastRetryPause(requests)
	}
	if first := leastRetryPause(0); first > 10*time.Millisecond || requests < 30 || requests > 40 || leastRetryPause(1<<40) != time.Second {
		t.Errorf("%d requests, the first after %s", requests, first)
	}
}
