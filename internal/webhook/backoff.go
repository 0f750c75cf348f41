package webhook

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// backoff returns the pause after a failed attempt; failed counts from 1. The pause
// doubles each time and varies by a quarter in both directions, so that retries of many
// webhooks to one recovered receiver do not arrive together.
func (o Options) backoff(failed int) time.Duration {
	d := o.BackoffMax
	if shift := failed - 1; shift < 32 && o.BackoffFirst<<shift < o.BackoffMax && o.BackoffFirst<<shift > 0 {
		d = o.BackoffFirst << shift
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// retryAfter returns the pause that a receiver asks for, 0 if it asks for none. It
// accepts both forms of the header.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if secs, err := strconv.ParseInt(text, 10, 32); err == nil && secs > 0 {
		return time.Duration(secs) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
