package client

import (
	"testing"
	"time"
)

// A server that asks for no pause gets 36 requests in the time of the repetitions, and not
// thousands: there are 7 pauses below a second between them, and 28 of a second.
func TestLeastRetryPause(t *testing.T) {
	t.Parallel()
	requests, waited := 0, time.Duration(0)
	for ; waited <= maxRetryWait; requests++ {
		waited += leastRetryPause(requests)
	}
	if first := leastRetryPause(0); first > 10*time.Millisecond || requests != 36 || leastRetryPause(1<<30) != time.Second {
		t.Errorf("%d requests, the first after %s", requests, first)
	}
}
