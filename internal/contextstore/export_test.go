package contextstore

import "daybook/events"

// Apply is what Set makes of a patch.
func (s *Store) Apply(p Patch, have events.ContextContent) (events.ContextContent, error) {
	return s.apply(p, have)
}
