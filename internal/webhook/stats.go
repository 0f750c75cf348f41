package webhook

import "maps"

// Stats holds counts for metrics, over all tenants.
type Stats struct {
	// Webhooks counts webhooks by state. Every state has an entry.
	Webhooks map[State]int
	// DeadLetters counts the dead letters.
	DeadLetters int
	// Delivered and Failed count the attempts of this process since Open.
	Delivered, Failed int64
	// MaxLag is the maximum number of positions by which a webhook lags behind the newest
	// known event, among the webhooks that this server delivers for.
	MaxLag uint64
}

// Stats returns the current counts.
func (s *Service) Stats() Stats {
	st := Stats{Webhooks: map[State]int{StateActive: 0, StateFailing: 0, StateDisabled: 0, StateElsewhere: 0}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range maps.Values(s.hooks) {
		st.Webhooks[h.view().State]++
		st.DeadLetters += len(h.letters)
		if h.hasSecret && h.position < s.applied {
			st.MaxLag = max(st.MaxLag, s.applied-h.position)
		}
	}
	st.Delivered, st.Failed = s.delivered.Load(), s.failed.Load()
	return st
}

// count counts an attempt.
func (s *Service) count(o outcome) {
	if o.isFailure() {
		s.failed.Add(1)
	} else {
		s.delivered.Add(1)
	}
}
