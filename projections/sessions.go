package projections

import (
	"context"
	"database/sql"
	"fmt"

	"daybook/events"
)

// Sessions returns the names of the sessions that have entries, sorted.
func (s *Store) Sessions(ctx context.Context, tenant string) ([]string, error) {
	rows, err := s.reader.QueryContext(ctx, "SELECT session FROM sessions s WHERE tenant = ? AND EXISTS (SELECT 1 FROM entries e WHERE e.tenant = s.tenant AND e.session_id = s.session_id) ORDER BY session", tenant)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	defer rows.Close()
	list := []string{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list sessions: %w", err)
		}
		list = append(list, name)
	}
	return list, rows.Err()
}

// Entries returns the log of a session in order, with every run that is known
// to have ended: it waits for entries that are on their way. A session without
// entries is empty, not an error: a name is only a label.
func (s *Store) Entries(ctx context.Context, tenant, session string) ([]Entry, error) {
	id := events.SessionID(tenant, session)
	if err := s.logged(ctx, sessionKey{tenant, id}); err != nil {
		return nil, fmt.Errorf("read session %q: %w", session, err)
	}
	list, err := s.entries(ctx, tenant, `SELECT n.idx, n.execution_id, n.status, n.input_heap, n.output_heap, n.completed_at, x.source
		FROM entries n JOIN executions x ON x.tenant = n.tenant AND x.execution_id = n.execution_id
		WHERE n.tenant = ? AND n.session_id = ? ORDER BY n.idx`, id, session)
	if err != nil {
		return nil, fmt.Errorf("read session %q: %w", session, err)
	}
	return list, nil
}

func (s *Store) entries(ctx context.Context, tenant, query, id, name string) ([]Entry, error) {
	rows, err := s.reader.QueryContext(ctx, query, tenant, id)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := []Entry{}
	for rows.Next() {
		var e Entry
		var completed int64
		var source string
		if err := rows.Scan(&e.Index, &e.ExecutionID, &e.Status, &e.InputHeap, &e.OutputHeap, &completed, &source); err != nil {
			return nil, err
		}
		e.Timestamp = formatMillis(completed)
		code, err := s.text(ctx, tenant, sql.NullString{String: source, Valid: true})
		if err != nil {
			return nil, fmt.Errorf("read the code of entry %d of session %q: %w", e.Index, name, err)
		}
		e.Code = *code
		list = append(list, e)
	}
	return list, rows.Err()
}
