package contextstore

import (
	"context"

	"daybook/events"
	"daybook/projections"
)

type tracelessKey struct{}

// WithoutTrace makes a use of contexts under ctx leave no trace: it is not recorded
// as use, notes nothing, and neither begins a context nor lets one expire. It is
// for callers that may only read.
func WithoutTrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, tracelessKey{}, true)
}

func traceless(ctx context.Context) bool {
	set, _ := ctx.Value(tracelessKey{}).(bool)
	return set
}

// peek shows a context as open would leave it, and records nothing. e.mu is held.
func (s *Store) peek(ctx context.Context, e *entry) (projections.ContextState, *pending, error) {
	if err := s.load(ctx, e); err != nil {
		return projections.ContextState{}, nil, s.unavailable("read the context", err)
	}
	now := s.opts.Now()
	if !s.idle(e, now) {
		return *e.state, &e.pending, nil
	}
	st := projections.ContextState{ContextRef: e.state.ContextRef, UsedAt: e.state.UsedAt, Empty: true}
	st.Context = projections.NewContext(st.SessionID, events.FormatTime(now))
	return st, &pending{}, nil
}
