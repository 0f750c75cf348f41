package stream

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/internal/store/jet"
)

// LastLogical returns the last event of a session that keeps state, or
// events.ErrNotFound.
func (s *Ledger) LastLogical(ctx context.Context, tenant, session string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, session, events.LogicalSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event of session %s: %w", session, err)
	}
	return e, nil
}

// NextLogical returns the first event of a session that keeps state stored after
// a position, or events.ErrNotFound.
func (s *Ledger) NextLogical(ctx context.Context, tenant, session string, after uint64) (events.Event, error) {
	if err := jet.CheckTokens(tenant, session); err != nil {
		return events.Event{}, err
	}
	m, err := s.nextMessage(ctx, s.volumes(), events.LogicalSubject(tenant, session), after+1)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the events of session %s after %d: %w", session, after, err)
	}
	return s.Decode(m)
}

// Logical calls fn for each event of a session that keeps state stored after a
// position and before the call, oldest first. An error of fn is returned as it
// is.
func (s *Ledger) Logical(ctx context.Context, tenant, session string, after uint64, fn func(events.Event) error) error {
	if err := jet.CheckTokens(tenant, session); err != nil {
		return err
	}
	_, err := s.forEachMessage(ctx, events.LogicalSubject(tenant, session), after, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
	return err
}

// Intent returns the event that says which session an intent stands for, by the
// intent's key, or events.ErrNotFound.
func (s *Ledger) Intent(ctx context.Context, tenant, key string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, key, events.IntentSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read intent %s: %w", key, err)
	}
	return e, nil
}

// Refs returns the short names given out to a holder, oldest first, and the
// position of the last (0: none), for a conditional append.
func (s *Ledger) Refs(ctx context.Context, tenant, holder string) ([]events.Event, uint64, error) {
	if err := jet.CheckTokens(tenant, holder); err != nil {
		return nil, 0, err
	}
	var list []events.Event
	last, err := s.forEachMessage(ctx, events.RefSubject(tenant, holder), 0, func(m events.Stored) error {
		e, err := s.Decode(m)
		list = append(list, e)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return list, last, nil
}

// LastAgent returns the last event of a session of the Agent Client Protocol, of
// those that do not concern its state, or events.ErrNotFound.
func (s *Ledger) LastAgent(ctx context.Context, tenant, session string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, session, events.AgentSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event of session %s: %w", session, err)
	}
	return e, nil
}

// LastContext returns the last edit of a conversation context, by the context's
// key, or events.ErrNotFound.
func (s *Ledger) LastContext(ctx context.Context, tenant, key string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, key, events.ContextSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last edit of context %s: %w", key, err)
	}
	return e, nil
}

// lastOn returns the last event on a subject made of a tenant and a key.
func (s *Ledger) lastOn(ctx context.Context, tenant, key string, subject func(tenant, key string) string) (events.Event, error) {
	if err := jet.CheckTokens(tenant, key); err != nil {
		return events.Event{}, err
	}
	m, err := s.lastMessage(ctx, subject(tenant, key))
	if err != nil {
		return events.Event{}, err
	}
	return s.Decode(m)
}
