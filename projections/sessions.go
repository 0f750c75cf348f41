package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"daybook/events"
	"daybook/internal/resources/budget"
	"daybook/internal/resources/reads"
)

// SessionNames returns the sorted names of the named sessions that have entries: at most limit,
// which is 1 to MaxListLimit, or all if it is 0. after is the next cursor of the previous page, or
// empty. next is set only if there are more names.
func (s *Store) SessionNames(ctx context.Context, tenant string, limit int, after string) (list []string, next string, err error) {
	if limit < 0 || limit > MaxListLimit {
		return nil, "", badQuery("limit %d is out of range: 1 to %d", limit, MaxListLimit)
	}
	name, err := parseNameCursor(after)
	if err != nil {
		return nil, "", err
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT session FROM sessions s WHERE tenant = ? AND session > ? AND EXISTS (SELECT 1 FROM entries e WHERE e.tenant = s.tenant AND e.session_id = s.session_id)
		ORDER BY session LIMIT ?`, tenant, name, cmp.Or(limit, math.MaxInt32-1)+1)
	if err != nil {
		return nil, "", fmt.Errorf("list sessions: %w", err)
	}
	defer rows.Close()
	list = []string{}
	for rows.Next() {
		if limit > 0 && len(list) == limit {
			return list, nameCursor(list[limit-1]), nil
		}
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, "", fmt.Errorf("list sessions: %w", err)
		}
		if err := budget.Take(ctx, len(name)+32); err != nil {
			return nil, "", err
		}
		list = append(list, name)
	}
	return list, "", rows.Err()
}

// Entries returns the session log of a named session in order. It waits up to 1 s for
// the entries of runs that have ended. A session without entries has an empty log,
// which is no error: a name is only a label.
func (s *Store) Entries(ctx context.Context, tenant, session string) ([]Entry, error) {
	id := events.SessionID(tenant, session)
	if err := s.waitForEntries(ctx, sessionKey{tenant, id}); err != nil {
		return nil, fmt.Errorf("read session %q: %w", session, err)
	}
	list, err := s.readEntries(ctx, tenant, `SELECT n.idx, n.execution_id, n.status, n.input_heap, n.output_heap, n.completed_at, x.source, (SELECT count(*) FROM artifacts a WHERE a.execution = x.id)
		FROM entries n JOIN executions x ON x.tenant = n.tenant AND x.execution_id = n.execution_id
		WHERE n.tenant = ? AND n.session_id = ? ORDER BY n.idx`, id, session)
	if err != nil {
		return nil, fmt.Errorf("read session %q: %w", session, err)
	}
	return list, nil
}

// NextEntry returns the index of the next entry in the log of a named session: 0 for a
// session without entries. It waits for entries like Entries, and reads only the
// newest.
func (s *Store) NextEntry(ctx context.Context, tenant, session string) (int64, error) {
	id := events.SessionID(tenant, session)
	if err := s.waitForEntries(ctx, sessionKey{tenant, id}); err != nil {
		return 0, fmt.Errorf("find the newest entry of session %q: %w", session, err)
	}
	var n int64
	if err := s.reader.QueryRowContext(ctx, `SELECT coalesce(max(idx) + 1, 0) FROM entries WHERE tenant = ? AND session_id = ?`, tenant, id).Scan(&n); err != nil {
		return 0, fmt.Errorf("find the newest entry of session %q: %w", session, err)
	}
	return n, nil
}

// entryBytes is about the memory that an entry takes in addition to its code, in bytes.
const entryBytes = 512

func (s *Store) readEntries(ctx context.Context, tenant, query, id, name string) ([]Entry, error) {
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
		if err := rows.Scan(&e.Index, &e.ExecutionID, &e.Status, &e.InputHeap, &e.OutputHeap, &completed, &source, &e.Artifacts); err != nil {
			return nil, err
		}
		if err := budget.Take(ctx, entryBytes+len(source)); err != nil {
			return nil, err
		}
		e.Timestamp, e.Code = formatMillis(completed), source
		list = append(list, e)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	// Resolving a long code may wait for a permit. By then the query is closed, so that
	// other callers can use its connection.
	for i, e := range list {
		code, err := s.resolveText(ctx, tenant, sql.NullString{String: e.Code, Valid: true})
		if err != nil {
			return nil, fmt.Errorf("read the code of entry %d of session %q: %w", e.Index, name, err)
		}
		list[i].Code = *code
	}
	return list, nil
}

// entryBatchSize is the number of entries that ForEachEntry reads and holds at a time.
const entryBatchSize = 32

// ForEachEntry calls fn for each entry in the log of a session of any kind with at least the
// index from, in order. The
// log of a named session is its entries. The log of any other session is its ended turns,
// each with the index turn minus 1. ForEachEntry holds a few entries at a time, and no
// query is open while fn runs. It returns an error of fn unchanged.
func (s *Store) ForEachEntry(ctx context.Context, tenant string, of Session, from int64, fn func(Entry) error) error {
	query := `SELECT turn - 1, execution_id, status, input_heap, output_heap, completed_at, source, (SELECT count(*) FROM artifacts a WHERE a.execution = executions.id)
		FROM executions WHERE tenant = ? AND logical_id = ? AND turn > ? AND status <> 'running' ORDER BY turn LIMIT ?`
	if of.Kind == events.SessionLog {
		if err := s.waitForEntries(ctx, sessionKey{tenant, of.SessionID}); err != nil {
			return fmt.Errorf("read session %q: %w", of.label(), err)
		}
		query = `SELECT n.idx, n.execution_id, n.status, n.input_heap, n.output_heap, n.completed_at, x.source, (SELECT count(*) FROM artifacts a WHERE a.execution = x.id)
			FROM entries n JOIN executions x ON x.tenant = n.tenant AND x.execution_id = n.execution_id
			WHERE n.tenant = ? AND n.session_id = ? AND n.idx >= ? ORDER BY n.idx LIMIT ?`
	}
	for next, more := from, true; more; {
		err := budget.Piece(ctx, func() error {
			var list []entryRow
			err := budget.Retry(ctx, reads.RetryFunc(ctx, func() (err error) {
				list, err = s.entryPage(ctx, query, tenant, of, next)
				return err
			}))
			if err != nil {
				return err
			}
			more = len(list) == entryBatchSize
			for _, r := range list {
				next = r.Index + 1
				if err := s.visitEntry(ctx, tenant, of, r, fn); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// visitEntry reads the code of an entry and calls fn.
func (s *Store) visitEntry(ctx context.Context, tenant string, of Session, r entryRow, fn func(Entry) error) error {
	return budget.Piece(ctx, func() error {
		var code *string
		err := budget.Retry(ctx, reads.RetryFunc(ctx, func() (err error) {
			code, err = s.resolveText(ctx, tenant, r.source)
			return err
		}))
		if err != nil {
			return fmt.Errorf("read the code of entry %d of session %q: %w", r.Index, of.label(), err)
		}
		r.Code = *code
		return fn(r.Entry)
	})
}

// entryRow is an entry whose code is not read yet.
type entryRow struct {
	Entry
	source sql.NullString
}

func (s *Store) entryPage(ctx context.Context, query, tenant string, of Session, next int64) (list []entryRow, err error) {
	rows, err := s.reader.QueryContext(ctx, query, tenant, of.SessionID, next, entryBatchSize)
	if err != nil {
		return nil, fmt.Errorf("read session %q: %w", of.label(), err)
	}
	defer rows.Close()
	for rows.Next() {
		var r entryRow
		var completed int64
		if err := rows.Scan(&r.Index, &r.ExecutionID, &r.Status, &r.InputHeap, &r.OutputHeap, &completed, &r.source, &r.Artifacts); err != nil {
			return nil, fmt.Errorf("read session %q: %w", of.label(), err)
		}
		if err := budget.Take(ctx, entryBytes+len(r.source.String)); err != nil {
			return nil, err
		}
		r.Timestamp = formatMillis(completed)
		list = append(list, r)
	}
	return list, rows.Err()
}
