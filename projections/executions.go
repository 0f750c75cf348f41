package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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

// Execution returns everything on record about an execution, or
// events.ErrNotFound.
func (s *Store) Execution(ctx context.Context, tenant, id string) (ExecutionDetail, error) {
	var d ExecutionDetail
	var source, actor, warnings string
	var started, completed sql.NullInt64
	var requested int64
	var result, errorText, cancelledBy, usage sql.NullString
	var line int64
	var open bool
	err := s.reader.QueryRowContext(ctx, `SELECT execution_id, status, result, output_heap, error, requested_at, started_at, completed_at,
			input_heap, requested_heap, session, source, file_name, actor, cancelled_by, attempt, reason, result_truncated, heap_mb, timeout_secs,
			out_line, out_byte, out_open, out_truncated, out_sha256, usage, engine_id, warnings, last_seq
		FROM executions WHERE tenant = ? AND execution_id = ?`, tenant, id).Scan(
		&d.ExecutionID, &d.Status, &result, &d.Heap, &errorText, &requested, &started, &completed,
		&d.InputHeap, &d.RequestedHeap, &d.Session, &source, &d.FileName, &actor, &cancelledBy, &d.Attempt, &d.Reason, &d.ResultTruncated, &d.HeapMemoryMaxMB, &d.ExecutionTimeoutSecs,
		&line, &d.TotalBytes, &open, &d.OutputTruncated, &d.OutputSHA256, &usage, &d.EngineID, &warnings, &d.Seq)
	if errors.Is(err, sql.ErrNoRows) {
		return d, notFound("execution", id)
	}
	if err != nil {
		return d, fmt.Errorf("read execution %s: %w", id, err)
	}
	d.TotalLines = totalLines(line, open, d.Status)
	d.RequestedAt = formatMillis(requested)
	d.StartedAt = d.RequestedAt
	d.Queued = !started.Valid && d.Status == events.StatusRunning
	if started.Valid {
		d.StartedAt = formatMillis(started.Int64)
	}
	if completed.Valid {
		at := formatMillis(completed.Int64)
		d.CompletedAt = &at
	}
	for _, field := range []struct {
		text string
		into any
	}{{actor, &d.Actor}, {warnings, &d.Warnings}, {usage.String, &d.Usage}, {cancelledBy.String, &d.CancelledBy}} {
		if field.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(field.text), field.into); err != nil {
			return d, fmt.Errorf("read execution %s: %w", id, err)
		}
	}
	code, err := s.text(ctx, tenant, sql.NullString{String: source, Valid: true})
	if err != nil {
		return d, fmt.Errorf("read the source of execution %s: %w", id, err)
	}
	d.Code = *code
	if d.Result, err = s.text(ctx, tenant, result); err != nil {
		return d, fmt.Errorf("read the result of execution %s: %w", id, err)
	}
	if d.Error, err = s.text(ctx, tenant, errorText); err != nil {
		return d, fmt.Errorf("read the error of execution %s: %w", id, err)
	}
	return d, nil
}

// text resolves a stored body: inline, or from the blob it names.
func (s *Store) text(ctx context.Context, tenant string, stored sql.NullString) (*string, error) {
	if !stored.Valid {
		return nil, nil
	}
	var b events.Body
	if err := json.Unmarshal([]byte(stored.String), &b); err != nil {
		return nil, err
	}
	switch {
	case b.Blob == nil:
		return &b.Text, nil
	case s.opts.Texts == nil:
		return &b.Blob.Preview, nil
	default:
		raw, err := s.opts.Texts.Text(ctx, tenant, b.Blob.SHA256)
		if err != nil {
			return nil, err
		}
		text := string(raw)
		return &text, nil
	}
}

// Executions lists executions, newest first by acceptance. A bad filter is an
// ErrBadQuery.
func (s *Store) Executions(ctx context.Context, tenant string, f ExecutionFilter) (ExecutionPage, error) {
	page := ExecutionPage{Executions: []ExecutionSummary{}}
	where, args := []string{"tenant = ?"}, []any{tenant}
	if f.Status != "" {
		if _, ok := events.ParseStatus(string(f.Status)); !ok {
			return page, badQuery("status %q is none of running, completed, failed, timed_out, cancelled", f.Status)
		}
		where, args = append(where, "status = ?"), append(args, string(f.Status))
	}
	if f.Session != "" {
		where, args = append(where, "session_id = ?"), append(args, events.SessionID(tenant, f.Session))
	}
	for key, value := range f.Tags {
		where = append(where, "output_heap IN (SELECT heap FROM heap_tags WHERE tenant = ? AND key = ? AND value = ?)")
		args = append(args, tenant, key, value)
	}
	if f.Limit < 0 || f.Limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", f.Limit, MaxListLimit)
	}
	limit := f.Limit
	if f.Cursor != "" {
		before, err := parseCursor(f.Cursor)
		if err != nil {
			return page, err
		}
		where, args = append(where, "requested_seq < ?"), append(args, before)
		if limit == 0 {
			limit = MaxListLimit
		}
	}
	condition := strings.Join(where, " AND ")
	const columns = "SELECT execution_id, status, requested_at, started_at, completed_at, requested_seq FROM executions WHERE "
	query := columns + condition + " ORDER BY requested_seq DESC LIMIT ?"
	args = append(args, limit+1)
	if limit == 0 {
		// Every running one, and the newest ended.
		query = columns + condition + ` AND (status = 'running' OR requested_seq >= coalesce((SELECT min(requested_seq) FROM
			(SELECT requested_seq FROM executions WHERE ` + condition + ` AND status <> 'running' ORDER BY requested_seq DESC LIMIT ?)), 0)) ORDER BY requested_seq DESC`
		args = append(append(args[:len(args)-1], args[:len(args)-1]...), defaultEnded)
	}
	rows, err := s.reader.QueryContext(ctx, query, args...)
	if err != nil {
		return page, fmt.Errorf("list executions: %w", err)
	}
	defer rows.Close()
	var last uint64
	for rows.Next() {
		if limit > 0 && len(page.Executions) == limit {
			page.NextCursor = formatCursor(last)
			break
		}
		var e ExecutionSummary
		var requested int64
		var started, completed sql.NullInt64
		if err := rows.Scan(&e.ExecutionID, &e.Status, &requested, &started, &completed, &last); err != nil {
			return page, fmt.Errorf("list executions: %w", err)
		}
		e.StartedAt = formatMillis(requested)
		if started.Valid {
			e.StartedAt = formatMillis(started.Int64)
		}
		if completed.Valid {
			at := formatMillis(completed.Int64)
			e.CompletedAt = &at
		}
		page.Executions = append(page.Executions, e)
	}
	if err := rows.Err(); err != nil {
		return page, fmt.Errorf("list executions: %w", err)
	}
	if limit == 0 && page.NextCursor == "" && len(page.Executions) > 0 {
		var older bool
		if err := s.reader.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM executions WHERE "+condition+" AND requested_seq < ?)", append(args[:(len(args)-1)/2], last)...).Scan(&older); err != nil {
			return page, fmt.Errorf("list executions: %w", err)
		}
		if older {
			page.NextCursor = formatCursor(last)
		}
	}
	return page, nil
}

func formatMillis(ms int64) string { return events.FormatTime(time.UnixMilli(ms)) }
