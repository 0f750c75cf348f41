package projections

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
)

// Execution returns the details of an execution, with its complete texts. It returns
// events.ErrNotFound for an unknown execution.
func (s *Store) Execution(ctx context.Context, tenant, id string) (ExecutionDetail, error) {
	return s.readExecution(ctx, tenant, id, func(_ string, stored sql.NullString) (*string, error) { return s.resolveText(ctx, tenant, stored) })
}

// ExecutionPreview is Execution without reading texts from the blob store: of those
// texts it returns the preview, and CutTexts names them. It takes little memory for any
// execution.
func (s *Store) ExecutionPreview(ctx context.Context, tenant, id string) (ExecutionDetail, error) {
	cut := map[string]int64{}
	d, err := s.readExecution(ctx, tenant, id, func(name string, stored sql.NullString) (*string, error) {
		b, err := decodeBody(stored)
		switch {
		case err != nil || b == nil:
			return nil, err
		case b.Blob == nil:
			return &b.Text, nil
		}
		cut[name] = b.Blob.Size
		return &b.Blob.Preview, nil
	})
	d.CutTexts = cut
	return d, err
}

// ExecutionText returns one complete text of an execution: TextCode, TextResult or
// TextError. It returns events.ErrNotFound if the execution has no such text, and an
// *events.RemovedError if its content was shredded.
func (s *Store) ExecutionText(ctx context.Context, tenant, id, name string) (string, error) {
	column, known := map[string]string{TextCode: "source", TextResult: "result", TextError: "error"}[name]
	if !known {
		return "", badQuery("text must be %s, %s or %s", TextCode, TextResult, TextError)
	}
	var stored sql.NullString
	err := s.reader.QueryRowContext(ctx, "SELECT "+column+" FROM executions WHERE tenant = ? AND execution_id = ?", tenant, id).Scan(&stored)
	if errors.Is(err, sql.ErrNoRows) {
		return "", executionNotFound(ctx, s.reader, id)
	}
	if err != nil {
		return "", fmt.Errorf("read the %s of execution %s: %w", name, id, err)
	}
	text, err := s.resolveText(ctx, tenant, stored)
	if err != nil {
		return "", fmt.Errorf("read the %s of execution %s: %w", name, id, err)
	}
	if text == nil || *text == "" {
		if shred, err := findShred(ctx, s.reader, tenant, id); err != nil || shred != nil {
			return "", cmp.Or[error](err, shred)
		}
	}
	if text == nil {
		return "", events.ErrNotFound
	}
	return *text, nil
}

// readExecution reads an execution. It calls text with the name and the stored form of
// each text.
func (s *Store) readExecution(ctx context.Context, tenant, id string, text func(name string, stored sql.NullString) (*string, error)) (ExecutionDetail, error) {
	var d ExecutionDetail
	var source, actor, warnings string
	var started, completed sql.NullInt64
	var requested int64
	var result, errorText, cancelledBy, usage, nondeterministic, lastReplay sql.NullString
	var line int64
	var isOpen bool
	err := s.reader.QueryRowContext(ctx, `SELECT execution_id, status, result, output_heap, error, requested_at, started_at, queued, completed_at,
			input_heap, migrated_from, requested_heap, session, logical_id, turn, source, file_name, actor, cancelled_by, attempt, reason, result_truncated, heap_mb, timeout_secs,
			out_line, out_byte, out_open, out_truncated, out_sha256, written_lines, written_bytes, usage, engine_id, warnings, pristine, nondeterministic, last_seq, without_heap,
			(SELECT count(*) FROM artifacts a WHERE a.execution = executions.id), (SELECT r.replay FROM replays r WHERE r.execution = executions.id)
		FROM executions WHERE tenant = ? AND execution_id = ?`, tenant, id).Scan(
		&d.ExecutionID, &d.Status, &result, &d.Heap, &errorText, &requested, &started, &d.Queued, &completed,
		&d.InputHeap, &d.MigratedFrom, &d.RequestedHeap, &d.Session, &d.LogicalSession, &d.Turn, &source, &d.FileName, &actor, &cancelledBy, &d.Attempt, &d.Reason, &d.ResultTruncated, &d.HeapMemoryMaxMB, &d.ExecutionTimeoutSecs,
		&line, &d.TotalBytes, &isOpen, &d.OutputTruncated, &d.OutputSHA256, &d.WrittenLines, &d.WrittenBytes, &usage, &d.EngineID, &warnings, &d.Pristine, &nondeterministic, &d.Seq, &d.WithoutHeap, &d.Artifacts, &lastReplay)
	if errors.Is(err, sql.ErrNoRows) {
		return d, executionNotFound(ctx, s.reader, id)
	}
	if err != nil {
		return d, fmt.Errorf("read execution %s: %w", id, err)
	}
	d.TotalLines, _ = countLines(line, isOpen, d.Status)
	d.RequestedAt = formatMillis(requested)
	d.StartedAt = d.RequestedAt
	d.Queued = d.Queued && d.Status == events.StatusRunning
	if started.Valid {
		d.StartedAt = formatMillis(started.Int64)
		waitMillis := max(started.Int64-requested, 0) // the clocks of two machines may differ
		d.QueuedMillis = &waitMillis
	}
	if completed.Valid {
		at := formatMillis(completed.Int64)
		d.CompletedAt = &at
	}
	for _, field := range []struct {
		text string
		into any
	}{{actor, &d.Actor}, {warnings, &d.Warnings}, {usage.String, &d.Usage}, {cancelledBy.String, &d.CancelledBy}, {nondeterministic.String, &d.Nondeterministic}, {lastReplay.String, &d.Replay}} {
		if field.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(field.text), field.into); err != nil {
			return d, fmt.Errorf("read execution %s: %w", id, err)
		}
	}
	code, err := text(TextCode, sql.NullString{String: source, Valid: true})
	if err != nil {
		return d, fmt.Errorf("read the source of execution %s: %w", id, err)
	}
	d.Code = *code
	if d.Code == "" {
		shred, err := findShred(ctx, s.reader, tenant, id)
		if err != nil {
			return d, err
		}
		if shred != nil {
			d.Shredded = &Shredded{Seq: shred.Seq, At: events.FormatTime(shred.At)}
		}
	}
	if d.Result, err = text(TextResult, result); err != nil {
		return d, fmt.Errorf("read the result of execution %s: %w", id, err)
	}
	if d.Error, err = text(TextError, errorText); err != nil {
		return d, fmt.Errorf("read the error of execution %s: %w", id, err)
	}
	return d, nil
}

// resolveText returns the text of a stored body, inline or from its blob.
func (s *Store) resolveText(ctx context.Context, tenant string, stored sql.NullString) (*string, error) {
	b, err := decodeBody(stored)
	switch {
	case err != nil || b == nil:
		return nil, err
	case b.Blob == nil:
		return &b.Text, nil
	case s.opts.Texts == nil:
		return &b.Blob.Preview, nil
	default:
		if err := reads.From(ctx).Take(ctx); err != nil {
			return nil, err
		}
		raw, err := s.opts.Texts.Text(ctx, tenant, b.Blob.SHA256)
		if err != nil {
			return nil, err
		}
		text := string(raw)
		return &text, nil
	}
}

// decodeBody decodes a body as stored in a table; nil for none.
func decodeBody(stored sql.NullString) (*events.Body, error) {
	if !stored.Valid {
		return nil, nil
	}
	var b events.Body
	if err := json.Unmarshal([]byte(stored.String), &b); err != nil {
		return nil, err
	}
	return &b, nil
}

func formatMillis(ms int64) string { return events.FormatTime(time.UnixMilli(ms)) }
