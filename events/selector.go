package events

import (
	"context"
	"slices"
)

// Selection selects events of a tenant. An empty field selects all. Events about the
// ledger itself belong to every tenant, and to no execution or session.
type Selection struct {
	Tenant string
	Types  []Type
	// Execution is the id of an execution: the events about it, and those that ExecutionsOf
	// assigns to it.
	Execution string
	// Session is the name of a named session, or the id of a logical or ACP session:
	// the events of its runs and those of the session itself.
	Session string
}

// Selector applies a selection to events in the order of the ledger. It is not safe for
// concurrent use.
type Selector struct {
	Selection
	// SessionOf returns the sessions of an execution: the name of its named session
	// and the id of the session in which it has a turn; none for an unknown execution.
	// seq is the position of an event about the execution.
	SessionOf func(ctx context.Context, seq uint64, execution string) ([]string, error)

	inSession map[string]bool
}

// rememberedRuns is the maximum length of inSession.
const rememberedRuns = 10_000

// Wants reports whether an event is selected.
func (s *Selector) Wants(ctx context.Context, e Event) (bool, error) {
	switch {
	case e.Tenant == LedgerTenant:
		if s.Execution != "" || s.Session != "" {
			return false, nil
		}
	case e.Tenant != s.Tenant:
		return false, nil
	case s.Execution != "" && !slices.Contains(ExecutionsOf(e), s.Execution):
		return false, nil
	case s.Session != "":
		// This check comes before that of the type, because belongs must see every requested
		// event, including those whose type is not selected: it remembers their sessions.
		in, err := s.belongs(ctx, e)
		if err != nil || !in {
			return false, err
		}
	}
	return len(s.Types) == 0 || slices.Contains(s.Types, e.Type), nil
}

// belongs reports whether an event belongs to the selected session. Of the events about an
// execution, the requested event names the sessions of the execution. For the others,
// belongs remembers them or asks SessionOf.
func (s *Selector) belongs(ctx context.Context, e Event) (bool, error) {
	if s.inSession == nil || len(s.inSession) >= rememberedRuns {
		s.inSession = map[string]bool{}
	}
	switch d := e.Data.(type) {
	case *SessionEntryRecorded:
		return d.Session == s.Session, nil
	case *SessionReset:
		return d.Session == s.Session || d.SessionID == s.Session, nil
	case *SessionNamed:
		return d.SessionID == s.Session, nil
	case *SessionRefAssigned:
		return d.SessionID == s.Session, nil
	case *ExecutionRequested:
		s.inSession[d.ExecutionID] = slices.Contains(SessionsOf(d), s.Session)
	}
	if e.Type.OfSession() {
		return e.About() == s.Session, nil
	}
	for _, id := range ExecutionsOf(e) {
		in, known := s.inSession[id]
		if !known {
			sessions, err := s.SessionOf(ctx, e.Seq, id)
			if err != nil {
				return false, err
			}
			in = slices.Contains(sessions, s.Session)
			s.inSession[id] = in
		}
		if in {
			return true, nil
		}
	}
	return false, nil
}

// SessionsOf returns the sessions that a request names: the name of its named
// session, and the id of the session in which it has a turn.
func SessionsOf(d *ExecutionRequested) []string {
	var list []string
	if d.Session != "" {
		list = append(list, d.Session)
	}
	if d.Turn != nil {
		list = append(list, d.Turn.SessionID)
	}
	return list
}

// ExecutionsOf returns the executions that an event is about or comes from. Only the migration
// of a heap can have two: the execution that left the heap, and the one that needed it.
func ExecutionsOf(e Event) (ids []string) {
	first, second := "", ""
	switch d := e.Data.(type) {
	case *HeapTagged:
		first = d.ExecutionID
	case *SessionEntryRecorded:
		first = d.ExecutionID
	case *HeapMigrated:
		first, second = d.LastExecutionID, d.RunID
	case *LedgerVolumeSealed, *LedgerVolumeOpened, *LedgerVolumeRemoved, *LedgerCheckpointed, *LedgerSignersChanged, *LedgerProjectionsCopied:
	default:
		if !e.Type.Webhook() && ValidID(e.About()) {
			first = e.About()
		}
	}
	for _, id := range [...]string{first, second} {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
