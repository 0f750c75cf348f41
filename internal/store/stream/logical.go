package stream

import (
	"context"
	"fmt"

	"daybook/events"
	"daybook/internal/store/jet"
)

// LastLogical returns the last event of a logical session, or events.ErrNotFound.
func (s *Ledger) LastLogical(ctx context.Context, tenant, session string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, session, events.LogicalSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event of session %s: %w", session, err)
	}
	return e, nil
}

// NextLogical returns the first event of a logical session at a position greater than
// after, or events.ErrNotFound.
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

// Logical calls fn for each event of a logical session at a position greater than after
// that is stored before the call, oldest first. It returns an error of fn unchanged.
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

// Intent returns the event that assigns a session to an intent, or events.ErrNotFound.
// key is the key of the intent.
func (s *Ledger) Intent(ctx context.Context, tenant, key string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, key, events.IntentSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read intent %s: %w", key, err)
	}
	return e, nil
}

// Refs returns the events that assigned short names to a holder, oldest first. It also
// returns the position of the last one, 0 for none, for a conditional append.
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

// LastAgent returns the last event of an ACP session on its agent subject, or
// events.ErrNotFound. Events of its logical session are not on this subject.
func (s *Ledger) LastAgent(ctx context.Context, tenant, session string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, session, events.AgentSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event of session %s: %w", session, err)
	}
	return e, nil
}

// LastContext returns the last edit of a conversation context, or events.ErrNotFound.
// key is the key of the context.
func (s *Ledger) LastContext(ctx context.Context, tenant, key string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, key, events.ContextSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last edit of context %s: %w", key, err)
	}
	return e, nil
}

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
