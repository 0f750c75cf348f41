package projections

import (
	"context"
	"database/sql"
	"fmt"

	"daybook/events"
)

// FirstPosition returns the position of the first event about an execution or of a session, as
// events.Selection selects them, or 0 if the projections know none. With both, it is the later
// position. The events of a removed volume that are not kept do not count.
//
// If events were lost, the first one that is left may come before the first one that a row names:
// the entry of a run whose request was lost, for example. Such an event is an anomaly, so the result
// is not later than the first anomaly of the tenant.
func (s *Store) FirstPosition(ctx context.Context, tenant, execution, session string) (first uint64, err error) {
	for _, q := range []struct {
		text, sql string
		args      []any
	}{
		{execution, `SELECT min(requested_seq) FROM executions WHERE tenant = ? AND execution_id = ?`, []any{tenant, execution}},
		{session, firstOfSession, []any{tenant, session, events.SessionID(tenant, session)}},
	} {
		if q.text == "" {
			continue
		}
		var position sql.NullInt64
		if err := s.reader.QueryRowContext(ctx, q.sql, q.args...).Scan(&position); err != nil {
			return 0, fmt.Errorf("find the first event of %q: %w", q.text, err)
		}
		first = max(first, uint64(position.Int64))
	}
	if first > 0 {
		var anomaly sql.NullInt64
		if err := s.reader.QueryRowContext(ctx, `SELECT min(seq) FROM anomalies WHERE tenant = ?`, tenant).Scan(&anomaly); err != nil {
			return 0, fmt.Errorf("find the first anomaly: %w", err)
		}
		if anomaly.Valid {
			first = min(first, uint64(anomaly.Int64))
		}
	}
	return first, nil
}

// firstOfSession selects the position of the first event of tenant ?1 that belongs to the session
// ?2, the name of a named session or the id of another one. ?3 is the id of the named session. The
// event that names the intent of a session comes before the one that opens it. An entry comes
// after the request of its run.
const firstOfSession = `SELECT min(seq) FROM (
	SELECT min(requested_seq) AS seq FROM executions WHERE tenant = ?1 AND session_id = ?3
	UNION ALL SELECT min(requested_seq) FROM executions WHERE tenant = ?1 AND logical_id = ?2
	UNION ALL SELECT min(seq) FROM session_resets WHERE tenant = ?1 AND session_id = ?2
	UNION ALL SELECT min(seq) FROM session_resets WHERE tenant = ?1 AND session_id = ?3
	UNION ALL SELECT min(seq) FROM named_intents WHERE tenant = ?1 AND session_id = ?2
	UNION ALL SELECT opened_seq FROM logical_sessions WHERE tenant = ?1 AND session_id = ?2
	UNION ALL SELECT created_seq FROM agent_sessions WHERE tenant = ?1 AND session_id = ?2
)`
