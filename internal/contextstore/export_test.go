package contextstore

import (
	"context"

	"daybook/events"
)

// Apply returns the content that Set records for a patch.
func (s *Store) Apply(p Patch, have events.ContextContent) (events.ContextContent, error) {
	return s.apply(p, have)
}

// The limits of the values of a context.
const (
	MaxCustomKeys  = maxCustomKeys
	MaxCustomBytes = maxCustomBytes
)

// Sweep expires idle contexts, as Run does periodically.
func (s *Store) Sweep(ctx context.Context) error { return s.sweep(ctx) }
