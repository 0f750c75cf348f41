package projections

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strings"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// maxLinesBytes limits the text of one result of Lines, in bytes. A result holds at
// least one line whatever its length.
const maxLinesBytes = 256 << 10

// Lines returns up to limit complete lines, beginning at number from (at least 1), and
// the status at the time of the read. If the status is terminal and there are no lines,
// no more lines will come. Lines serves readers that follow output live.
func (s *Store) Lines(ctx context.Context, tenant, id string, from int64, limit int) ([]OutputLine, events.Status, error) {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, "", fmt.Errorf("read lines of %s: %w", id, err)
	}
	defer tx.Rollback()
	w, _, err := loadOutput(ctx, tx, tenant, id)
	if err != nil {
		return nil, "", err
	}
	from = max(from, 1)
	if from > w.wholeLines || limit < 1 {
		return nil, w.status, nil
	}
	list, _, err := readLines(ctx, tx, w, from, from+min(w.wholeLines-from, int64(limit)-1))
	if err != nil {
		return nil, "", fmt.Errorf("read lines of %s: %w", id, err)
	}
	return list, w.status, nil
}

// readLines returns the lines with the numbers from to last, both included. It returns no
// further line once their text exceeds maxLinesBytes. seqs holds, for each line, the
// position of the event that completed it.
func readLines(ctx context.Context, tx *sql.Tx, w outputState, from, last int64) (list []OutputLine, seqs []uint64, err error) {
	rows, err := tx.QueryContext(ctx, strings.Replace(chunksByLine, "first_line, text", "first_line, text, pieces, seq", 1), w.id, from)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var text strings.Builder
	var current *OutputLine // the line being assembled
	size := 0
	var seq uint64
	finish := func() {
		current.Text = text.String()
		size += text.Len()
		list, seqs = append(list, *current), append(seqs, seq)
		current = nil
		text.Reset()
	}
	for rows.Next() {
		var firstByte, line int64
		var raw, pieces []byte
		if err := rows.Scan(&firstByte, &line, &raw, &pieces, &seq); err != nil {
			return nil, nil, err
		}
		if err := budget.Take(ctx, len(raw)); err != nil {
			return nil, nil, err
		}
		chunk, err := decodeChunk(raw, pieces)
		if err != nil {
			return nil, nil, err
		}
		for _, p := range chunk {
			if line >= from {
				if current == nil {
					current = &OutputLine{Line: line, Level: p.Level, Time: formatMillis(p.TimeMillis)}
				}
				text.WriteString(p.Text)
			}
			if p.Continued {
				continue
			}
			if current != nil {
				finish()
			}
			if line++; line > last || size > maxLinesBytes {
				return list, seqs, nil
			}
		}
	}
	if current != nil {
		seq = math.MaxInt64 // the last line has no end, which is known only once the run has ended
		finish()
	}
	return list, seqs, rows.Err()
}
