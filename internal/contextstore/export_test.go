package contextstore

import "daybook/events"

// Apply returns the content that Set records for a patch.
func (s *Store) Apply(p Patch, have events.ContextContent) (events.ContextContent, error) {
	return s.apply(p, have)
}
