package webhook

import "maps"

// Stats are figures for whoever watches the server, of all tenants.
type Stats struct {
	// Webhooks counts webhooks by state, each of States being there.
	Webhooks map[State]int
	// DeadLetters counts events that could not be delivered.
	DeadLetters int
	// Delivered and Failed count the attempts that this process made since Open.
	Delivered, Failed int64
	// Behind is how far the webhook that is furthest behind is from the newest event
	// known, of those that this server delivers for.
	Behind uint64
}

// Stats returns the figures as they are now.
func (s *Service) Stats() Stats {
	st := Stats{Webhooks: map[State]int{StateActive: 0, StateFailing: 0, StateDisabled: 0, StateElsewhere: 0}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range maps.Values(s.hooks) {
		st.Webhooks[h.view().State]++
		st.DeadLetters += len(h.letters)
		if h.here && h.position < s.applied {
			st.Behind = max(st.Behind, s.applied-h.position)
		}
	}
	st.Delivered, st.Failed = s.delivered.Load(), s.failed.Load()
	return st
}

// count notes an attempt.
func (s *Service) count(o outcome) {
	if o.failed() {
		s.failed.Add(1)
	} else {
		s.delivered.Add(1)
	}
}
