package stream

import (
	"context"

	"daybook/events"
)

// LastLogical returns the last event of a logical session, or events.ErrNotFound.
func (s *Ledger) LastLogical(ctx context.Context, tenant, session string) (events.Event, error) {
	return s.Last(ctx, events.LogicalSubject(tenant, session))
}

// NextLogical returns the first event of a logical session at a position greater than
// after, or events.ErrNotFound.
func (s *Ledger) NextLogical(ctx context.Context, tenant, session string, after uint64) (events.Event, error) {
	return s.Next(ctx, events.LogicalSubject(tenant, session), after)
}

// Logical calls fn for each event of a logical session at a position greater than after
// that is stored before the call, oldest first. It returns an error of fn unchanged.
func (s *Ledger) Logical(ctx context.Context, tenant, session string, after uint64, fn func(events.Event) error) error {
	_, err := s.Each(ctx, events.LogicalSubject(tenant, session), after, fn)
	return err
}

// Intent returns the event that assigns a session to an intent, or events.ErrNotFound.
// key is the key of the intent.
func (s *Ledger) Intent(ctx context.Context, tenant, key string) (events.Event, error) {
	return s.Last(ctx, events.IntentSubject(tenant, key))
}

// Refs returns the events that assigned short names to a holder, oldest first. It also
// returns the position of the last one, 0 for none, for a conditional append.
func (s *Ledger) Refs(ctx context.Context, tenant, holder string) ([]events.Event, uint64, error) {
	var list []events.Event
	last, err := s.Each(ctx, events.RefSubject(tenant, holder), 0, func(e events.Event) error {
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return list, last, nil
}

// LastAgent returns the last event of an ACP session on its agent subject, or
// events.ErrNotFound. Events of its logical session are not on this subject.
func (s *Ledger) LastAgent(ctx context.Context, tenant, session string) (events.Event, error) {
	return s.Last(ctx, events.AgentSubject(tenant, session))
}

// LastContext returns the last edit of a conversation context, or events.ErrNotFound.
// key is the key of the context.
func (s *Ledger) LastContext(ctx context.Context, tenant, key string) (events.Event, error) {
	return s.Last(ctx, events.ContextSubject(tenant, key))
}
