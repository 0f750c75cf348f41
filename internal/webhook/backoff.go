package webhook

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// backoff is how long to wait after a failed attempt, the first being 1: twice
// as long each time, and spread by a quarter either way, so that the retries of
// many webhooks to one receiver that came back do not arrive together.
func (o Options) backoff(failed int) time.Duration {
	d := o.BackoffMax
	if shift := failed - 1; shift < 32 && o.BackoffFirst<<shift < o.BackoffMax && o.BackoffFirst<<shift > 0 {
		d = o.BackoffFirst << shift
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// retryAfter is how long a receiver asks to be left alone, 0 if it does not say.
// Both forms of the header are understood.
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
