package contextstore

import "daybook/events"

// Apply returns the content after Set with a patch.
func (s *Store) Apply(p Patch, have events.ContextContent) (events.ContextContent, error) {
	return s.apply(p, have)
}
