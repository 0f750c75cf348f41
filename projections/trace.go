package projections

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"daybook/events"
)

// maxTraceLines is the largest number of lines in a result of Trace.
const maxTraceLines = 1000

// TraceMark is the progress of a reader of a run. The zero value is the start of the
// run.
type TraceMark struct {
	line int64
	// seq is the position of the last host call or answer that was read; later ones are
	// new.
	seq uint64
}

// RunTrace is the progress of a run since a mark, all of one moment. The fields about
// the end are set if Status is terminal.
type RunTrace struct {
	Status events.Status
	// Steps holds the steps of the run in the order of the ledger.
	Steps []TraceStep
	// More is true if there are further steps already.
	More bool
	// Next is the mark to continue from.
	Next TraceMark

	Result, Error *string
	// Reason is the machine-readable cause of the end; empty for none.
	Reason string
	// InputHeap and OutputHeap are the heaps before and after the run; empty for none.
	InputHeap, OutputHeap string
	// ResultTruncated and OutputTruncated report whether result and output were cut.
	ResultTruncated, OutputTruncated bool
	// StoredLines and StoredBytes count the stored output.
	StoredLines, StoredBytes int64
	// Artifacts is the number of artifacts that the run created.
	Artifacts int64
}

// TraceStep is one step of a run. Exactly one field is set.
type TraceStep struct {
	// Line is a complete line of output.
	Line *OutputLine
	// Call is a host call when it was made. Answer is a host call when it was answered.
	Call, Answer *TracedCall

	seq uint64
}

// TracedCall is a host call as of its step. Arguments and Result are nil if the ledger
// holds only their hashes, and previews if they are long.
type TracedCall struct {
	Number            int
	Server, Tool      string
	Arguments, Result *events.Body
	// Outcome is set if the call was answered.
	Outcome events.HostOutcome
}

// Trace returns the progress of a run since a mark, for readers that follow a run live
// or replay an ended one. It returns events.ErrNotFound for an unknown run.
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
	var w outputState
	var line int64
	var isOpen bool
	var result, errorText, reason, input, output sql.NullString
	err = tx.QueryRowContext(ctx, `SELECT id, status, out_line, out_byte, out_open, out_truncated, result, result_truncated, error, reason, input_heap, output_heap,
			(SELECT count(*) FROM artifacts a WHERE a.execution = executions.id)
		FROM executions WHERE tenant = ? AND execution_id = ?`, tenant, id).
		Scan(&w.id, &t.Status, &line, &t.StoredBytes, &isOpen, &t.OutputTruncated, &result, &t.ResultTruncated, &errorText, &reason, &input, &output, &t.Artifacts)
	if errors.Is(err, sql.ErrNoRows) {
		return t, executionNotFound(ctx, tx, id)
	}
	if err != nil {
		return t, err
	}
	w.status, w.bytes = t.Status, t.StoredBytes
	w.lines, w.wholeLines = countLines(line, isOpen, w.status)
	t.StoredLines, t.Reason, t.InputHeap, t.OutputHeap = w.lines, reason.String, input.String, output.String
	if t.Steps, t.Next, err = readSteps(ctx, tx, w, after); err != nil {
		return t, err
	}
	t.More = t.Next.line <= w.wholeLines
	if !t.Status.Terminal() {
		return t, nil
	}
	if t.Result, err = s.resolveText(ctx, tenant, result); err != nil {
		return t, err
	}
	t.Error, err = s.resolveText(ctx, tenant, errorText)
	return t, err
}

// readSteps returns the steps since a mark. If some lines are left for the next result,
// the host calls and answers after the last returned line are left too.
func readSteps(ctx context.Context, tx *sql.Tx, w outputState, after TraceMark) ([]TraceStep, TraceMark, error) {
	next := TraceMark{max(after.line, 1), after.seq}
	before := uint64(math.MaxInt64)
	var list []TraceStep
	if next.line <= w.wholeLines {
		text, seqs, err := readLines(ctx, tx, w, next.line, min(w.wholeLines, next.line+maxTraceLines-1))
		if err != nil {
			return nil, next, err
		}
		for i := range text {
			list = append(list, TraceStep{Line: &text[i], seq: seqs[i]})
			next.line = text[i].Line + 1
		}
		if next.line <= w.wholeLines && len(list) > 0 {
			before = seqs[len(seqs)-1]
		}
	}
	calls, err := readCalls(ctx, tx, w.id, after.seq, before)
	if err != nil {
		return nil, next, err
	}
	for _, c := range calls {
		next.seq = max(next.seq, c.seq)
	}
	list = append(list, calls...)
	slices.SortStableFunc(list, func(a, b TraceStep) int { return cmp.Compare(a.seq, b.seq) })
	return list, next, nil
}

// readCalls returns the host calls made or answered after one position and up to
// another.
func readCalls(ctx context.Context, tx *sql.Tx, execution int64, after, until uint64) ([]TraceStep, error) {
	rows, err := tx.QueryContext(ctx, `SELECT number, server, tool, arguments, seq, returned_seq, outcome, result FROM calls
		WHERE execution = ?1 AND (seq > ?2 OR returned_seq > ?2)`, execution, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []TraceStep
	for rows.Next() {
		var c TracedCall
		var called uint64
		var returned sql.NullInt64
		var arguments, outcome, result sql.NullString
		if err := rows.Scan(&c.Number, &c.Server, &c.Tool, &arguments, &called, &returned, &outcome, &result); err != nil {
			return nil, err
		}
		if err := inlineBody(arguments, &c.Arguments); err != nil {
			return nil, err
		}
		if called > after && called <= until {
			pendingCall := c
			list = append(list, TraceStep{Call: &pendingCall, seq: called})
		}
		if at := uint64(returned.Int64); returned.Valid && at > after && at <= until {
			if err := inlineBody(result, &c.Result); err != nil {
				return nil, err
			}
			c.Outcome = events.HostOutcome(outcome.String)
			list = append(list, TraceStep{Answer: &c, seq: at})
		}
	}
	return list, rows.Err()
}

// inlineBody decodes a body and does not read its blob.
func inlineBody(stored sql.NullString, into **events.Body) error {
	if !stored.Valid {
		return nil
	}
	return json.Unmarshal([]byte(stored.String), into)
}

// MarkPastLines returns a mark after all lines: Trace from there returns only host
// calls and the fields of the run.
func MarkPastLines() TraceMark { return TraceMark{line: math.MaxInt64} }
