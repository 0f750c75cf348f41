package webhook

import (
	"fmt"
	"maps"
	"slices"
)

// RestsOn tells which webhooks, of all tenants, have yet to be sent events up to a
// position, or may be asked to send them again: sentences for people, in the order
// of the webhooks.
func (s *Service) RestsOn(last uint64) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var reasons []string
	for _, id := range slices.Sorted(maps.Keys(s.hooks)) {
		h := s.hooks[id]
		if !h.here {
			continue // nothing is delivered for it from here
		}
		if h.position < last {
			reasons = append(reasons, fmt.Sprintf("webhook %s has come to position %d only; wait for it, or delete it", id, h.position))
		}
		letters := 0
		for seq := range h.letters {
			if seq <= last {
				letters++
			}
		}
		if letters > 0 {
			reasons = append(reasons, fmt.Sprintf("webhook %s has %d dead letters of that time; retry them until they are accepted, or delete the webhook", id, letters))
		}
	}
	return reasons
}
