package fetcher

import "time"

// SetClock makes the access tokens expire by another clock.
func (f *Fetcher) SetClock(now func() time.Time) {
	for _, r := range f.rules {
		if r.tokens != nil {
			r.tokens.now = now
		}
	}
}

// SetTokenTimeout sets the time limit of requests for tokens.
func (f *Fetcher) SetTokenTimeout(d time.Duration) {
	for _, r := range f.rules {
		if r.tokens != nil {
			r.tokens.timeout, r.tokens.client.timeout = d, d
		}
	}
}

// WaitingForToken returns the number of fetches that wait for a token.
func (f *Fetcher) WaitingForToken() (n int) {
	for _, r := range f.rules {
		if r.tokens == nil {
			continue
		}
		r.tokens.mu.Lock()
		if r.tokens.flight != nil {
			n += r.tokens.flight.waiters
		}
		r.tokens.mu.Unlock()
	}
	return n
}

// KnownTokens returns the number of tokens that are hidden.
func (f *Fetcher) KnownTokens() (n int) {
	for _, r := range f.rules {
		if r.tokens != nil {
			n += len(r.tokens.secrets(false))
		}
	}
	return n
}
