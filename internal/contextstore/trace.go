package contextstore

import (
	"context"

	"daybook/events"
	"daybook/projections"
)

type tracelessKey struct{}

// WithoutTrace returns a context under which the Store records nothing: no use, no
// notes, no new contexts and no expiry. It is for callers that may only read.
func WithoutTrace(ctx context.Context) context.Context {
	return context.WithValue(ctx, tracelessKey{}, true)
}

func isTraceless(ctx context.Context) bool {
	set, _ := ctx.Value(tracelessKey{}).(bool)
	return set
}

// peek returns the state that open would produce, without recording anything. The
// caller must hold e.mu.
func (s *Store) peek(ctx context.Context, e *entry) (projections.ContextState, *pending, error) {
	if err := s.load(ctx, e); err != nil {
		return projections.ContextState{}, nil, s.clientError("read the context", err)
	}
	now := s.opts.Now()
	if !s.isIdle(e, now) {
		return *e.state, &e.pending, nil
	}
	st := projections.ContextState{ContextRef: e.state.ContextRef, UsedAt: e.state.UsedAt, Empty: true}
	st.Context = projections.NewContext(st.SessionID, events.FormatTime(now))
	return st, &pending{}, nil
}
