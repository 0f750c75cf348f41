package projections

import "daybook/events"

// sessionStatements are the statements about the lists of sessions.
type sessionStatements struct {
	namedAdd, namedRun, namedHead, namedReset             *statement
	logicalRun, logicalList, logicalListed, logicalUnlist *statement
}

func (s *sessionStatements) queries() []statementDef {
	return []statementDef{
		// Resets stay when a removal drops the session.
		{&s.namedAdd, `INSERT INTO sessions VALUES (?1, ?2, ?3,
			coalesce((SELECT max(r.seq) FROM session_resets r WHERE r.tenant = ?1 AND r.session_id = ?3), 0), 0,
			(SELECT r.heap FROM session_resets r WHERE r.tenant = ?1 AND r.session_id = ?3 ORDER BY r.seq DESC LIMIT 1))`},
		{&s.namedRun, `UPDATE sessions SET used_seq = max(used_seq, ?3), runs = runs + 1 WHERE tenant = ?1 AND session = ?2`},
		{&s.namedHead, `UPDATE sessions SET head = coalesce(?3, head) WHERE tenant = ?1 AND session = ?2`},
		{&s.namedReset, `UPDATE sessions SET used_seq = max(used_seq, ?3), head = ?4 WHERE tenant = ?1 AND session = ?2`},
		{&s.logicalRun, `UPDATE logical_sessions SET runs = runs + 1, used_seq = iif(used_seq IS NULL, NULL, max(used_seq, ?3)) WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalList, `UPDATE logical_sessions SET used_seq = ?3 WHERE tenant = ?1 AND session_id = ?2 AND kind = 'acp'`},
		{&s.logicalListed, `UPDATE logical_sessions SET used_seq = max(used_seq, ?3) WHERE tenant = ?1 AND session_id = ?2 AND used_seq IS NOT NULL`},
		{&s.logicalUnlist, `UPDATE logical_sessions SET used_seq = NULL WHERE tenant = ?1 AND session_id = ?2`},
	}
}

// useSessions records a run in its sessions.
func (a *applier) useSessions(e *events.Event, d *events.ExecutionRequested) error {
	if d.Turn != nil {
		if err := a.exec(a.s.logicalRun, e.Tenant, d.Turn.SessionID, e.Seq); err != nil {
			return err
		}
	}
	if d.Session == "" {
		return nil
	}
	known, err := a.execCount(a.s.namedRun, e.Tenant, d.Session, e.Seq)
	if err != nil || known > 0 {
		return err
	}
	if err := a.addNamedSession(e.Tenant, d.Session, d.SessionID); err != nil {
		return err
	}
	return a.exec(a.s.namedRun, e.Tenant, d.Session, e.Seq)
}

// addNamedSession adds a named session without runs.
func (a *applier) addNamedSession(tenant, name, id string) error {
	a.usageOf(tenant).Sessions++
	return a.exec(a.s.namedAdd, tenant, name, id)
}
