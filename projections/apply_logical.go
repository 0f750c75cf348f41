package projections

import (
	"errors"

	"daybook/events"
)

// applyLogical applies an event of a logical session.
func (a *applier) applyLogical(e *events.Event) error {
	if d, ok := e.Data.(*events.SessionOpened); ok {
		return a.applyLogicalOpened(e, d)
	}
	if d, ok := e.Data.(*events.SessionReset); ok && d.Kind == events.SessionLog {
		return errors.Join(a.exec(a.s.sessionReset, e.Tenant, d.SessionID, e.Seq, e.Time.UnixMilli(), nil, orNull(d.Heap), d.Entries, asJSON(d.Actor)),
			a.exec(a.s.namedReset, e.Tenant, d.Session, e.Seq, orNull(d.Heap)))
	}
	known, err := a.execCount(a.s.logicalUse, e.Tenant, e.About(), e.Time.UnixMilli())
	if err != nil {
		return err
	}
	if known == 0 {
		return a.recordAnomaly(e, "%s in session %s, which was never opened", e.Type, e.About())
	}
	switch d := e.Data.(type) {
	case *events.SessionTurnQueued:
		return a.exec(a.s.logicalTurn, e.Tenant, d.SessionID, d.Number, d.ExecutionID)
	case *events.SessionExpanded:
		if err := a.exec(a.s.logicalExpand, e.Tenant, d.SessionID, d.DomainRevision, d.Binding.Primary, d.Binding.CatalogSHA256); err != nil {
			return err
		}
		for _, t := range d.Added {
			if err := a.exec(a.s.addEntry, e.Tenant, d.SessionID, t.Symbol, t.ID, t.SHA256); err != nil {
				return err
			}
		}
	case *events.SessionReset:
		if d.Next == nil {
			return a.recordAnomaly(e, "a reset of session %s does not say where it continues", d.SessionID)
		}
		if err := a.exec(a.s.sessionReset, e.Tenant, d.SessionID, e.Seq, e.Time.UnixMilli(), nil, orNull(d.Heap), d.Next.Turn, asJSON(d.Actor)); err != nil {
			return err
		}
		return errors.Join(a.exec(a.s.logicalSet, e.Tenant, d.SessionID, orNull(d.Heap), d.Next.Turn), a.exec(a.s.logicalListed, e.Tenant, d.SessionID, e.Seq))
	case *events.SessionRebound:
		if err := a.exec(a.s.clearEntries, e.Tenant, d.SessionID); err != nil {
			return err
		}
		if !d.Next.Reset {
			return a.exec(a.s.logicalBreak, e.Tenant, d.SessionID, d.Reason)
		}
		if err := a.exec(a.s.sessionReset, e.Tenant, d.SessionID, e.Seq, e.Time.UnixMilli(), d.Reason, orNull(d.Next.Heap), d.Next.Turn, asJSON(d.Actor)); err != nil {
			return err
		}
		return errors.Join(a.exec(a.s.logicalReset, e.Tenant, d.SessionID, d.Reason, orNull(d.Next.Heap), d.Next.Turn), a.exec(a.s.logicalListed, e.Tenant, d.SessionID, e.Seq))
	}
	return nil
}

func (a *applier) applyLogicalOpened(e *events.Event, d *events.SessionOpened) error {
	added, err := a.execCount(a.s.logicalOpen, e.Tenant, d.SessionID, string(d.Kind), orNull(d.Content.Value().Intent), orNull(d.IntentSHA256),
		asJSON(d.Actor), orNull(d.Parent), e.Seq, e.Time.UnixMilli(), orNull(d.Head), orNull(events.ContentKeyID(d)))
	if err != nil || added == 1 {
		a.usageOf(e.Tenant).Sessions += added
		return err
	}
	return a.recordAnomaly(e, "session %s was opened twice", d.SessionID)
}

// moveHead sets the session head to the heap that a turn left. It does nothing for a turn
// that was queued before a reset or a break of continuity.
func (a *applier) moveHead(e *events.Event, session string, turn int64, heap string) error {
	return a.exec(a.s.logicalHead, e.Tenant, session, turn, heap, e.Time.UnixMilli())
}
