package projections

import (
	"database/sql"
	"errors"

	"daybook/events"
)

// applyAgent applies an event of an ACP session.
func (a *applier) applyAgent(e *events.Event) error {
	if d, ok := e.Data.(*events.AgentSessionCreated); ok {
		return a.applyAgentCreated(e, d)
	}
	var id int64
	err := a.queryRow(a.s.agentID, e.Tenant, e.About()).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return a.recordAnomaly(e, "%s in session %s, which was never created", e.Type, e.About())
	}
	if err != nil {
		return err
	}
	if err := errors.Join(a.exec(a.s.agentTouch, id, e.Seq, e.Time.UnixMilli()), a.exec(a.s.logicalListed, e.Tenant, e.About(), e.Seq)); err != nil {
		return err
	}
	switch d := e.Data.(type) {
	case *events.AgentSessionAttached:
		w := d.Content.Value()
		return a.exec(a.s.agentAttach, id, w.Cwd, directoriesJSON(w), orNull(events.ContentKeyID(d)))
	case *events.AgentSessionConfigured:
		return a.exec(a.s.agentConfigure, id, asJSON(d.Config))
	case *events.AgentPrompted:
		c := d.Content.Value()
		if err := a.exec(a.s.agentPrompt, e.Seq, id, d.PromptID, e.Time.UnixMilli(), asJSON(c.Blocks), orNull(c.Title), orNull(d.ExecutionID), orNull(events.ContentKeyID(d))); err != nil {
			return err
		}
		return a.exec(a.s.agentTitle, id, orNull(c.Title))
	case *events.AgentAnswered:
		c := d.Content.Value()
		if err := a.exec(a.s.agentAnswer, id, d.PromptID, asJSON(c.Text), orNull(events.ContentKeyID(d))); err != nil || !d.Cleared {
			return err
		}
		return a.exec(a.s.agentClear, id, d.PromptID, e.Seq)
	case *events.AgentSessionClosed:
		return a.exec(a.s.agentClose, id)
	case *events.AgentSessionDeleted:
		return errors.Join(a.exec(a.s.agentDelete, id, e.Seq), a.exec(a.s.logicalUnlist, e.Tenant, d.SessionID))
	}
	return nil // decisions about calls are not part of the conversation
}

func (a *applier) applyAgentCreated(e *events.Event, d *events.AgentSessionCreated) error {
	w := d.Content.Value()
	var parent, position any
	if d.Fork != nil {
		parent, position = d.Fork.SessionID, min(d.Fork.Position, e.Seq-1)
	}
	added, err := a.execCount(a.s.agentCreate, e.Tenant, d.SessionID, e.Seq, e.Time.UnixMilli(), w.Cwd, directoriesJSON(w), asJSON(d.Config), parent, position, orNull(events.ContentKeyID(d)))
	if err != nil {
		return err
	}
	if added == 0 {
		return a.recordAnomaly(e, "session %s was created twice", d.SessionID)
	}
	return a.exec(a.s.logicalList, e.Tenant, d.SessionID, e.Seq)
}

func directoriesJSON(w events.AgentWorkspace) string {
	if w.AdditionalDirectories == nil {
		return "[]"
	}
	return asJSON(w.AdditionalDirectories)
}
