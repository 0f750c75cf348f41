package events

import (
	"context"
	"slices"
)

// Selection says which events of a tenant somebody wants. What is empty does
// not limit. What is about the ledger itself concerns every tenant, and no
// execution or session.
type Selection struct {
	Tenant    string
	Types     []Type
	Execution string
	// Session wants the events of runs logged under this name, and its entries.
	Session string
}

// Selector applies a selection to events, one after the other. It is not safe
// for concurrent use.
type Selector struct {
	Selection
	// SessionOf tells under which name an execution is logged, empty for none or
	// for an unknown execution. The event at seq is about it, or came from it.
	SessionOf func(ctx context.Context, seq uint64, execution string) (string, error)

	inSession map[string]bool
}

// rememberedRuns bounds inSession.
const rememberedRuns = 10_000

// Wants reports whether an event is selected. The cheap tests come first.
func (s *Selector) Wants(ctx context.Context, e Event) (bool, error) {
	switch {
	case e.Tenant == LedgerTenant:
		if s.Execution != "" || s.Session != "" {
			return false, nil
		}
	case e.Tenant != s.Tenant:
		return false, nil
	case s.Execution != "" && ExecutionOf(e) != s.Execution:
		return false, nil
	case s.Session != "":
		// Asked before the type, since it learns from requested events.
		in, err := s.belongs(ctx, e)
		if err != nil || !in {
			return false, err
		}
	}
	return len(s.Types) == 0 || slices.Contains(s.Types, e.Type), nil
}

// belongs reports whether an event is of the session wanted. Only the requested
// event of an execution names the session; for later ones somebody else knows.
func (s *Selector) belongs(ctx context.Context, e Event) (bool, error) {
	id := ExecutionOf(e)
	if s.inSession == nil || len(s.inSession) >= rememberedRuns {
		s.inSession = map[string]bool{}
	}
	switch d := e.Data.(type) {
	case *SessionEntryRecorded:
		return d.Session == s.Session, nil
	case *ExecutionRequested:
		s.inSession[id] = d.Session == s.Session
	}
	if id == "" {
		return false, nil
	}
	if in, known := s.inSession[id]; known {
		return in, nil
	}
	session, err := s.SessionOf(ctx, e.Seq, id)
	if err != nil {
		return false, err
	}
	s.inSession[id] = session == s.Session
	return s.inSession[id], nil
}

// ExecutionOf is the execution an event is about or came from, or empty.
func ExecutionOf(e Event) string {
	switch d := e.Data.(type) {
	case *HeapTagged:
		return d.ExecutionID
	case *SessionEntryRecorded:
		return d.ExecutionID
	case *LedgerVolumeSealed, *LedgerVolumeOpened, *LedgerVolumeRemoved, *LedgerCheckpointed:
		return ""
	}
	if e.Type.Webhook() || !ValidID(e.About()) {
		return ""
	}
	return e.About()
}
