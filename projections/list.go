package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// Bounds of a list of executions.
const (
	// MaxListLimit is the largest length of a page, in rows.
	MaxListLimit = 1000
	// defaultEnded is the number of ended executions in a list without a limit, in
	// addition to all running ones.
	defaultEnded = 1000
)

// Executions lists executions, newest first by acceptance. It returns an ErrBadQuery
// that names the field for an invalid filter.
//
// The default list, without a limit, holds all running executions, so the pages after
// it hold ended ones only.
func (s *Store) Executions(ctx context.Context, tenant string, f ExecutionFilter) (ExecutionPage, error) {
	w, err := filterCondition(tenant, f)
	if err != nil {
		return ExecutionPage{}, err
	}
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return ExecutionPage{}, fmt.Errorf("list executions: %w", err)
	}
	defer tx.Rollback()
	w, err = w.withTags(ctx, tx, tenant, f.Tags)
	if err != nil {
		return ExecutionPage{}, fmt.Errorf("list executions: %w", err)
	}
	var page ExecutionPage
	if f.Limit == 0 && f.Cursor == "" && f.Text == "" {
		page, err = w.listDefault(ctx, tx)
	} else {
		page, err = w.listPage(ctx, tx, f.Limit, f.Cursor)
	}
	if err != nil && !errors.Is(err, ErrBadQuery) {
		err = fmt.Errorf("list executions: %w", err)
	}
	return page, err
}

// condition is the part of a query from its table on, with its arguments.
type condition struct {
	sql  string
	args []any
	// details adds columns to each row. text is the text that the source must contain.
	details bool
	text    string
}

func (w condition) and(sql string, args ...any) condition {
	w.sql, w.args = w.sql+" AND "+sql, append(slices.Clip(w.args), args...)
	return w
}

// columns returns the part of a query before the condition.
func (w condition) columns() string {
	if !w.details {
		return listColumns
	}
	return listColumns + detailColumns
}

// filterCondition returns the condition of a filter, without its tags and cursor.
func filterCondition(tenant string, f ExecutionFilter) (condition, error) {
	w := condition{sql: " FROM executions WHERE tenant = ?", args: []any{tenant}}
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
	if !f.Since.IsZero() {
		// The list is ordered by position. With a bound on the position, SQLite can use
		// the index of that order.
		since := f.Since.UnixMilli()
		w = w.and("requested_seq >= (SELECT min(requested_seq) FROM executions WHERE tenant = ? AND requested_at >= ?) AND requested_at >= ?", tenant, since, since)
	}
	w.details, w.text = f.Details, f.Text
	return w, nil
}

// withTags adds the condition that the output heap carries all tags.
func (w condition) withTags(ctx context.Context, tx *sql.Tx, tenant string, tags map[string]string) (condition, error) {
	pairs, err := pairsOf(ctx, tx, tenant, tags)
	if err != nil {
		return w, err
	}
	if len(pairs) > 0 && pairs[0].heaps < manyHeaps {
		// Few heaps carry the first pair: sort their executions instead of reading
		// every execution until a page is full. SQLite cannot know that.
		w.sql = strings.Replace(w.sql, "executions", "executions INDEXED BY executions_by_heap", 1)
		w = w.and("output_heap IN (SELECT lower(hex(heap)) FROM heap_tags WHERE pair = ?)", pairs[0].hash[:])
		pairs = pairs[1:]
	}
	for _, p := range pairs {
		w = w.and("EXISTS (SELECT 1 FROM heap_tags WHERE pair = ? AND heap = unhex(output_heap))", p.hash[:])
	}
	return w, nil
}

const listColumns = "SELECT execution_id, status, requested_at, started_at, completed_at, requested_seq, iif(attempt > 1, attempt, 0)"

// detailColumns are the columns after listColumns if details are requested.
const detailColumns = ", queued AND status = 'running', session, logical_id, output_heap, substr(coalesce(source ->> '$.blob.preview', source ->> '$.text'), 1, 200), (SELECT count(*) FROM artifacts a WHERE a.execution = executions.id)"

// maxSearched is the number of executions that one page of a source search reads.
const maxSearched = 20_000

// maxSearchedBytes is the number of bytes of stored sources that one page of a source
// search reads. It can be exceeded by one source.
const maxSearchedBytes = 16 << 20

// listDefault lists all running executions and the newest ended ones.
func (w condition) listDefault(ctx context.Context, tx *sql.Tx) (ExecutionPage, error) {
	endedCond := w.and("status <> 'running'")
	// The position of the oldest ended execution in the list; 0 if all are in it.
	var oldest uint64
	err := tx.QueryRowContext(ctx, "SELECT requested_seq"+endedCond.sql+" ORDER BY requested_seq DESC LIMIT 1 OFFSET ?", append(endedCond.args, defaultEnded-1)...).Scan(&oldest)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return ExecutionPage{}, err
	}
	runningCond, listedCond := w.and("status = 'running'"), endedCond.and("requested_seq >= ?", oldest)
	rows, err := tx.QueryContext(ctx, w.columns()+runningCond.sql+" UNION ALL "+w.columns()+listedCond.sql+" ORDER BY requested_seq DESC", append(runningCond.args, listedCond.args...)...)
	if err != nil {
		return ExecutionPage{}, err
	}
	list, _, err := w.scanSummaries(ctx, rows)
	page := ExecutionPage{Executions: list}
	if err != nil || oldest == 0 {
		return page, err
	}
	var more bool
	olderCond := endedCond.and("requested_seq < ?", oldest)
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1"+olderCond.sql+")", olderCond.args...).Scan(&more)
	if more {
		page.NextCursor = cursor{cursorEnded, oldest}.String()
	}
	return page, err
}

// listPage lists the executions after a cursor, or the newest ones.
func (w condition) listPage(ctx context.Context, tx *sql.Tx, limit int, after string) (ExecutionPage, error) {
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
	if w.text != "" {
		return w.search(ctx, tx, limit, kind)
	}
	rows, err := tx.QueryContext(ctx, w.columns()+w.sql+" ORDER BY requested_seq DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return ExecutionPage{}, err
	}
	list, positions, err := w.scanSummaries(ctx, rows)
	if err != nil {
		return ExecutionPage{}, err
	}
	page := ExecutionPage{Executions: list}
	if len(list) > limit {
		page.Executions, page.NextCursor = list[:limit], cursor{kind, positions[limit-1]}.String()
	}
	return page, nil
}

// scriptName matches the name of an earlier run's script in stack traces, with or
// without a position: main.ts#1a2b3c4d:3:7. The hex digits are the beginning of the
// source's hash.
var scriptName = regexp.MustCompile(`#([0-9a-f]{8})(?::\d+:\d+)?$`)

func bodyHash(b events.Body) string {
	if b.Blob != nil {
		return b.Blob.SHA256
	}
	return events.Hash([]byte(b.Text))
}

// search lists the executions whose source contains the text, or is the script that the
// text names. A search by SQLite would see the JSON form of the source, in which some
// characters are escaped.
func (w condition) search(ctx context.Context, tx *sql.Tx, limit int, kind cursorKind) (ExecutionPage, error) {
	page := ExecutionPage{Executions: []ExecutionSummary{}}
	rows, err := tx.QueryContext(ctx, w.columns()+", source"+w.sql+" ORDER BY requested_seq DESC LIMIT ?", append(w.args, maxSearched+1)...)
	if err != nil {
		return page, err
	}
	defer rows.Close()
	text, name := strings.ToLower(w.text), scriptName.FindStringSubmatch(w.text)
	var last uint64
	size := 0
	for searched := 0; rows.Next(); searched++ {
		if searched == maxSearched || size > maxSearchedBytes || len(page.Executions) == limit {
			page.NextCursor = cursor{kind, last}.String()
			break
		}
		var source []byte
		e, position, err := w.scanSummary(rows, &source)
		if err != nil {
			return page, err
		}
		last = position
		size += len(source)
		var b events.Body
		if err := json.Unmarshal(source, &b); err != nil {
			return page, err
		}
		matchesName := name != nil && strings.HasPrefix(bodyHash(b), name[1])
		if b.Blob != nil {
			b.Text = b.Blob.Preview
		}
		if matchesName || strings.Contains(strings.ToLower(b.Text), text) {
			page.Executions = append(page.Executions, e)
		}
	}
	return page, rows.Err()
}

// scanSummaries reads all rows and closes them. It also returns the position of each
// row.
func (w condition) scanSummaries(ctx context.Context, rows *sql.Rows) (list []ExecutionSummary, positions []uint64, err error) {
	defer rows.Close()
	list = []ExecutionSummary{}
	for rows.Next() {
		e, position, err := w.scanSummary(rows)
		if err != nil {
			return nil, nil, err
		}
		if err := budget.Take(ctx, summaryBytes); err != nil {
			return nil, nil, err
		}
		list, positions = append(list, e), append(positions, position)
	}
	return list, positions, rows.Err()
}

// summaryBytes is about the memory of a row of a list, in bytes.
const summaryBytes = 1 << 10

// scanSummary reads the columns of a row, and the columns after them into more.
func (w condition) scanSummary(rows *sql.Rows, more ...any) (e ExecutionSummary, position uint64, err error) {
	var requested int64
	var started, completed sql.NullInt64
	var preview sql.NullString
	into := []any{&e.ExecutionID, &e.Status, &requested, &started, &completed, &position, &e.Attempt}
	if w.details {
		into = append(into, &e.Queued, &e.Session, &e.LogicalSession, &e.Heap, &preview, &e.Artifacts)
	}
	if err := rows.Scan(append(into, more...)...); err != nil {
		return e, 0, err
	}
	e.CodePreview = preview.String
	e.StartedAt = formatMillis(requested)
	if started.Valid {
		e.StartedAt = formatMillis(started.Int64)
	}
	if completed.Valid {
		at := formatMillis(completed.Int64)
		e.CompletedAt = &at
	}
	return e, position, nil
}
