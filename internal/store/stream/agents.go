package stream

import (
	"context"
	"fmt"

	"daybook/events"
)

// LastAgent returns the last event of a session of the Agent Client Protocol, of
// those that do not concern its state, or events.ErrNotFound.
func (s *Ledger) LastAgent(ctx context.Context, tenant, session string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, session, events.AgentSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event of session %s: %w", session, err)
	}
	return e, nil
}
