package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"daybook/events"
)

// Bounds of a list of executions.
const (
	// MaxListLimit is the largest page that may be asked for.
	MaxListLimit = 1000
	// defaultEnded is how many ended executions an unlimited list holds, beside
	// every running one.
	defaultEnded = 1000
)

// Executions lists executions, newest first by acceptance. A bad filter is an
// ErrBadQuery naming its member.
//
// The documented list, without a limit, holds every running execution, so the
// pages that follow it hold ended ones only.
func (s *Store) Executions(ctx context.Context, tenant string, f ExecutionFilter) (ExecutionPage, error) {
	w, err := matching(tenant, f)
	if err != nil {
		return ExecutionPage{}, err
	}
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return ExecutionPage{}, fmt.Errorf("list executions: %w", err)
	}
	defer tx.Rollback()
	w, err = w.tagged(ctx, tx, tenant, f.Tags)
	if err != nil {
		return ExecutionPage{}, fmt.Errorf("list executions: %w", err)
	}
	var page ExecutionPage
	if f.Limit == 0 && f.Cursor == "" {
		page, err = w.documented(ctx, tx)
	} else {
		page, err = w.page(ctx, tx, f.Limit, f.Cursor)
	}
	if err != nil && !errors.Is(err, ErrBadQuery) {
		err = fmt.Errorf("list executions: %w", err)
	}
	return page, err
}

// condition is the end of a query, from its table on, with its arguments.
type condition struct {
	sql  string
	args []any
}

func (w condition) and(sql string, args ...any) condition {
	return condition{w.sql + " AND " + sql, append(slices.Clip(w.args), args...)}
}

// matching is the condition a filter stands for, but for its tags and cursor.
func matching(tenant string, f ExecutionFilter) (condition, error) {
	w := condition{" FROM executions WHERE tenant = ?", []any{tenant}}
	if f.Limit < 0 || f.Limit > MaxListLimit {
		return w, badQuery("limit %d is out of range: 1 to %d", f.Limit, MaxListLimit)
	}
	if f.Status != "" {
		if _, ok := events.ParseStatus(string(f.Status)); !ok {
			return w, badQuery("status %.40q is none of running, completed, failed, timed_out, cancelled", f.Status)
		}
		w = w.and("status = ?", string(f.Status))
	}
	if f.Session != "" {
		w = w.and("session_id = ?", events.SessionID(tenant, f.Session))
	}
	if f.LogicalSession != "" {
		w = w.and("logical_id = ?", f.LogicalSession)
	}
	return w, nil
}

// tagged adds that the heap an execution made carries every pair.
func (w condition) tagged(ctx context.Context, tx *sql.Tx, tenant string, tags map[string]string) (condition, error) {
	pairs, err := pairsOf(ctx, tx, tenant, tags)
	if err != nil {
		return w, err
	}
	if len(pairs) > 0 && pairs[0].heaps < manyHeaps {
		// Few heaps have it: begin at them and sort their executions, rather than
		// look at every execution until a page is full. SQLite cannot know.
		w.sql = strings.Replace(w.sql, "executions", "executions INDEXED BY executions_by_heap", 1)
		w = w.and("output_heap IN (SELECT lower(hex(heap)) FROM heap_tags WHERE pair = ?)", pairs[0].id)
		pairs = pairs[1:]
	}
	for _, p := range pairs {
		w = w.and("EXISTS (SELECT 1 FROM heap_tags WHERE pair = ? AND heap = unhex(output_heap))", p.id)
	}
	return w, nil
}

const listColumns = "SELECT execution_id, status, requested_at, started_at, completed_at, requested_seq, iif(attempt > 1, attempt, 0)"

// documented lists every running execution and the newest ended ones.
func (w condition) documented(ctx context.Context, tx *sql.Tx) (ExecutionPage, error) {
	ended := w.and("status <> 'running'")
	// The oldest ended one that is still listed; 0 when all are.
	var oldest uint64
	err := tx.QueryRowContext(ctx, "SELECT requested_seq"+ended.sql+" ORDER BY requested_seq DESC LIMIT 1 OFFSET ?", append(ended.args, defaultEnded-1)...).Scan(&oldest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ExecutionPage{}, err
	}
	running, listed := w.and("status = 'running'"), ended.and("requested_seq >= ?", oldest)
	rows, err := tx.QueryContext(ctx, listColumns+running.sql+" UNION ALL "+listColumns+listed.sql+" ORDER BY requested_seq DESC", append(running.args, listed.args...)...)
	if err != nil {
		return ExecutionPage{}, err
	}
	list, _, err := scanSummaries(rows)
	page := ExecutionPage{Executions: list}
	if err != nil || oldest == 0 {
		return page, err
	}
	var more bool
	older := ended.and("requested_seq < ?", oldest)
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1"+older.sql+")", older.args...).Scan(&more)
	if more {
		page.NextCursor = cursor{cursorEnded, oldest}.String()
	}
	return page, err
}

// page lists what comes after a cursor, or from the newest on.
func (w condition) page(ctx context.Context, tx *sql.Tx, limit int, after string) (ExecutionPage, error) {
	if limit == 0 {
		limit = MaxListLimit
	}
	kind := cursorExecutions
	if after != "" {
		c, err := parseCursor(after, cursorExecutions, cursorEnded)
		if err != nil {
			return ExecutionPage{}, err
		}
		if kind = c.kind; kind == cursorEnded {
			w = w.and("status <> 'running'")
		}
		w = w.and("requested_seq < ?", c.seq)
	}
	rows, err := tx.QueryContext(ctx, listColumns+w.sql+" ORDER BY requested_seq DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return ExecutionPage{}, err
	}
	list, positions, err := scanSummaries(rows)
	if err != nil {
		return ExecutionPage{}, err
	}
	page := ExecutionPage{Executions: list}
	if len(list) > limit {
		page.Executions, page.NextCursor = list[:limit], cursor{kind, positions[limit-1]}.String()
	}
	return page, nil
}

// scanSummaries reads all rows and closes them. It returns each one's position
// too.
func scanSummaries(rows *sql.Rows) (list []ExecutionSummary, positions []uint64, err error) {
	defer rows.Close()
	list = []ExecutionSummary{}
	for rows.Next() {
		var e ExecutionSummary
		var requested int64
		var started, completed sql.NullInt64
		var position uint64
		if err := rows.Scan(&e.ExecutionID, &e.Status, &requested, &started, &completed, &position, &e.Attempt); err != nil {
			return nil, nil, err
		}
		e.StartedAt = formatMillis(requested)
		if started.Valid {
			e.StartedAt = formatMillis(started.Int64)
		}
		if completed.Valid {
			at := formatMillis(completed.Int64)
			e.CompletedAt = &at
		}
		list, positions = append(list, e), append(positions, position)
	}
	return list, positions, rows.Err()
}
