package audit

import (
	"context"
	"time"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/proof"
)

// selector applies a selection to events in order.
type selector struct {
	s proof.ExportSelection
	// inner selects by tenant, execution and session. It is nil if none of them is set.
	inner *events.Selector
}

// SessionOf returns the sessions of an execution; see events.Selector.
type SessionOf func(ctx context.Context, tenant string, seq uint64, execution string) ([]string, error)

func newSelector(s proof.ExportSelection, sessionOf SessionOf) *selector {
	sel := &selector{s: s}
	if s.Tenant != "" || s.Execution != "" || s.Session != "" {
		sel.inner = &events.Selector{Selection: events.Selection{Tenant: s.Tenant, Execution: s.Execution, Session: s.Session}}
		sel.inner.SessionOf = func(ctx context.Context, seq uint64, execution string) ([]string, error) {
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
		s.inner.Tenant = e.Tenant // select all tenants
	}
	return s.inner.Wants(ctx, e)
}

// bounds are the first and last position and time of a set of events.
type bounds struct {
	first, last      uint64
	earliest, latest time.Time
}

func (x *bounds) add(e events.Event) {
	if x.first == 0 {
		x.first, x.earliest, x.latest = e.Seq, e.Time, e.Time
	}
	x.last = e.Seq
	if e.Time.Before(x.earliest) {
		x.earliest = e.Time
	}
	if e.Time.After(x.latest) {
		x.latest = e.Time
	}
}

// shrinkToEvents shrinks the bounds of a selection to those of its events, so that the events of an
// export prove the bounds in its manifest. Lost positions before the first event stay selected.
func (x bounds) shrinkToEvents(s proof.ExportSelection, lost events.Lost) proof.ExportSelection {
	if !s.IsUnfiltered() || !spans.Covers(lost, s.From, x.first-1) {
		s.From = x.first
	}
	s.To = x.last
	if !s.Since.IsZero() {
		s.Since = x.earliest
	}
	if !s.Until.IsZero() {
		s.Until = x.latest
	}
	return s
}
