package audit

import (
	"context"

	"daybook/events"
)

// selector applies a selection to events in order.
type selector struct {
	s ExportSelection
	// inner knows tenants, executions and sessions; nil when none is asked for.
	inner *events.Selector
}

// SessionOf tells under which name an execution is logged, empty for none. The
// event at seq is about it, or came from it.
type SessionOf func(ctx context.Context, tenant string, seq uint64, execution string) (string, error)

func newSelector(s ExportSelection, sessionOf SessionOf) *selector {
	sel := &selector{s: s}
	if s.Tenant != "" || s.Execution != "" || s.Session != "" {
		sel.inner = &events.Selector{Selection: events.Selection{Tenant: s.Tenant, Execution: s.Execution, Session: s.Session}}
		sel.inner.SessionOf = func(ctx context.Context, seq uint64, execution string) (string, error) {
			return sessionOf(ctx, sel.inner.Tenant, seq, execution)
		}
	}
	return sel
}

// wants reports whether an event is selected.
func (s *selector) wants(ctx context.Context, e events.Event) (bool, error) {
	in := e.Seq >= s.s.From && e.Seq <= s.s.To &&
		(s.s.Since.IsZero() || !e.Time.Before(s.s.Since)) && (s.s.Until.IsZero() || !e.Time.After(s.s.Until))
	if !in || s.inner == nil {
		return in, nil
	}
	if s.s.Tenant == "" {
		s.inner.Tenant = e.Tenant // of any
	}
	return s.inner.Wants(ctx, e)
}
