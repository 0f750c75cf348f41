package stream

import (
	"context"
	"fmt"

	"daybook/events"
)

// LastContext returns the last edit of a conversation context, by the context's
// key, or events.ErrNotFound.
func (s *Ledger) LastContext(ctx context.Context, tenant, key string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, key, events.ContextSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last edit of context %s: %w", key, err)
	}
	return e, nil
}
