package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"daybook/events"
)

// traceLines is how many lines one answer of Trace holds at most.
const traceLines = 1000

// TraceMark is how far a reader of a run has come. The zero value is its
// beginning.
type TraceMark struct{ line int64 }

// RunTrace is what is new of a run since a mark, all of one moment. What ended
// the run is told when Status is terminal.
type RunTrace struct {
	Status events.Status
	// Lines are whole lines of output, in order.
	Lines []OutputLine
	// LineSeqs are the positions of the events that each line was whole with.
	LineSeqs []uint64
	// More is true when there are further lines already.
	More bool
	// Next is where to go on.
	Next TraceMark

	Result, Error *string
	// Reason is a machine-readable cause of the end; empty when there is none.
	Reason string
	// InputHeap and OutputHeap are the heaps before and after; empty for none.
	InputHeap, OutputHeap string
	// ResultTruncated and OutputTruncated tell of results and output that were cut.
	ResultTruncated, OutputTruncated bool
	// StoredLines and StoredBytes count the output on record.
	StoredLines, StoredBytes int64
}

// Trace reads what a run has done since a mark. An unknown run is
// events.ErrNotFound. It is for telling of a run live, and of one that has ended
// in the same way.
func (s *Store) Trace(ctx context.Context, tenant, id string, after TraceMark) (RunTrace, error) {
	t, err := s.trace(ctx, tenant, id, after)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		err = fmt.Errorf("trace execution %s: %w", id, err)
	}
	return t, err
}

func (s *Store) trace(ctx context.Context, tenant, id string, after TraceMark) (RunTrace, error) {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return RunTrace{}, err
	}
	defer tx.Rollback()
	var t RunTrace
	var w written
	var line int64
	var open bool
	var result, errorText, reason, input, output sql.NullString
	err = tx.QueryRowContext(ctx, `SELECT id, status, out_line, out_byte, out_open, out_truncated, result, result_truncated, error, reason, input_heap, output_heap
		FROM executions WHERE tenant = ? AND execution_id = ?`, tenant, id).
		Scan(&w.id, &t.Status, &line, &t.StoredBytes, &open, &t.OutputTruncated, &result, &t.ResultTruncated, &errorText, &reason, &input, &output)
	if errors.Is(err, sql.ErrNoRows) {
		return t, notFound("execution", id)
	}
	if err != nil {
		return t, err
	}
	w.status, w.bytes = t.Status, t.StoredBytes
	w.lines, w.whole = countLines(line, open, w.status)
	t.StoredLines, t.Reason, t.InputHeap, t.OutputHeap = w.lines, reason.String, input.String, output.String
	from := max(after.line, 1)
	t.Next = TraceMark{from}
	if from <= w.whole {
		if t.Lines, t.LineSeqs, err = lines(ctx, tx, w, from, min(w.whole, from+traceLines-1)); err != nil {
			return t, err
		}
		if n := len(t.Lines); n > 0 {
			t.Next.line = t.Lines[n-1].Line + 1
		}
		t.More = t.Next.line <= w.whole
	}
	if !t.Status.Terminal() {
		return t, nil
	}
	if t.Result, err = s.text(ctx, tenant, result); err != nil {
		return t, err
	}
	t.Error, err = s.text(ctx, tenant, errorText)
	return t, err
}

// PastLines is a mark past any line: from there Trace tells only of the run as a
// whole.
func PastLines() TraceMark { return TraceMark{math.MaxInt64} }
