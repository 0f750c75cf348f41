package projections

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/resources/budget"
)

// outputState is the stored extent of an execution's output at one moment.
type outputState struct {
	id     int64
	status events.Status
	// lines counts the lines started. wholeLines counts the lines that can no longer grow.
	// Pages by line hold only the latter: if a page ended with the beginning of a line, a
	// reader that continues with the next line number would never get the rest.
	lines, wholeLines int64
	bytes             int64
}

// countLines counts the lines started and the complete ones. A line without an end
// counts as complete once the run has ended.
func countLines(line int64, isOpen bool, status events.Status) (started, complete int64) {
	switch {
	case !isOpen:
		return line - 1, line - 1
	case status.Terminal():
		return line, line
	default:
		return line, line - 1
	}
}

// Output returns a page of an execution's output, in lines, or in bytes if ByteOffset
// is set. Totals, status and text are of one moment. It returns an ErrBadQuery for an
// invalid query, events.ErrNotFound for an unknown execution, and an
// *events.RemovedError if its content was shredded, or if it is unknown and events of the
// time of its id were removed with a volume.
func (s *Store) Output(ctx context.Context, tenant, id string, q OutputQuery) (OutputPage, error) {
	if err := checkOutputQuery(&q); err != nil {
		return OutputPage{}, err
	}
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return OutputPage{}, fmt.Errorf("read output of %s: %w", id, err)
	}
	defer tx.Rollback()
	w, truncated, err := loadOutput(ctx, tx, tenant, id)
	if err != nil {
		return OutputPage{}, err
	}
	page := OutputPage{ExecutionID: id, Status: w.status, TotalLines: w.lines, TotalBytes: w.bytes, Truncated: truncated}
	if q.ByteOffset != nil {
		err = bytePage(ctx, tx, w, *q.ByteOffset, q.ByteLimit, &page)
	} else {
		err = linePage(ctx, tx, w, q.LineOffset, q.LineLimit, &page)
	}
	if err != nil {
		return OutputPage{}, fmt.Errorf("read output of %s: %w", id, err)
	}
	return page, nil
}

// checkOutputQuery sets defaults and checks the fields of the mode in use.
func checkOutputQuery(q *OutputQuery) error {
	if q.ByteOffset != nil {
		if *q.ByteOffset < 0 {
			return badQuery("byte_offset %d is below 0", *q.ByteOffset)
		}
		if q.ByteLimit == 0 {
			q.ByteLimit = DefaultByteLimit
		}
		if q.ByteLimit < 1 {
			return badQuery("byte_limit %d is below 1", q.ByteLimit)
		}
		q.ByteLimit = min(q.ByteLimit, maxPageBytes)
		return nil
	}
	if q.LineOffset == 0 {
		q.LineOffset = 1
	}
	if q.LineLimit == 0 {
		q.LineLimit = DefaultLineLimit
	}
	if q.LineOffset < 1 {
		return badQuery("line_offset %d is below 1", q.LineOffset)
	}
	if q.LineLimit < 1 {
		return badQuery("line_limit %d is below 1", q.LineLimit)
	}
	q.LineLimit = min(q.LineLimit, maxLineLimit)
	return nil
}

func loadOutput(ctx context.Context, tx *sql.Tx, tenant, id string) (w outputState, truncated bool, err error) {
	var line int64
	var isOpen bool
	err = tx.QueryRowContext(ctx, "SELECT id, status, out_line, out_byte, out_open, out_truncated FROM executions WHERE tenant = ? AND execution_id = ?", tenant, id).
		Scan(&w.id, &w.status, &line, &w.bytes, &isOpen, &truncated)
	if errors.Is(err, sql.ErrNoRows) {
		return w, false, executionNotFound(ctx, tx, id)
	}
	if err != nil {
		return w, false, fmt.Errorf("read output of %s: %w", id, err)
	}
	w.lines, w.wholeLines = countLines(line, isOpen, w.status)
	if shredErr, err := findShred(ctx, tx, tenant, id); err != nil || shredErr != nil {
		if err == nil {
			err = shredErr
		}
		return w, false, err
	}
	return w, truncated, nil
}

// chunkText is a chunk as read for a page.
type chunkText struct {
	firstByte, firstLine int64
	text                 []byte
}

const (
	// The first chunk is the first one whose next_line is ?2 or more. It holds the first
	// byte of line ?2, or ends with the line end before it.
	chunksByLine = `SELECT first_byte, first_line, text FROM output WHERE execution = ?1 AND first_byte >=
		coalesce((SELECT first_byte FROM output WHERE execution = ?1 AND next_line >= ?2 ORDER BY next_line, first_byte LIMIT 1), 0) ORDER BY first_byte, seq`
	chunksByByte = `SELECT first_byte, first_line, text FROM output WHERE execution = ?1 AND first_byte >=
		coalesce((SELECT max(first_byte) FROM output WHERE execution = ?1 AND first_byte <= ?2), 0) ORDER BY first_byte, seq`
)

// forEachChunk calls fn for chunks in order until fn reports that it has enough. The
// memory of each chunk is taken from the account in ctx.
func forEachChunk(ctx context.Context, tx *sql.Tx, query string, execution, from int64, fn func(chunkText) (enough bool)) error {
	rows, err := tx.QueryContext(ctx, query, execution, from)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var c chunkText
		if err := rows.Scan(&c.firstByte, &c.firstLine, &c.text); err != nil {
			return err
		}
		if err := budget.Take(ctx, len(c.text)); err != nil {
			return err
		}
		if fn(c) {
			return nil
		}
	}
	return rows.Err()
}

// linePage fills a page with complete lines.
func linePage(ctx context.Context, tx *sql.Tx, w outputState, offset, limit int64, page *OutputPage) error {
	page.StartLine, page.EndLine = offset, offset-1
	page.NextLineOffset = w.lines + 1
	page.StartByte, page.EndByte, page.NextByteOffset = w.bytes, w.bytes, w.bytes
	if offset > w.lines {
		return nil
	}
	last := min(w.wholeLines, offset+limit-1)
	var data []byte
	start, line := int64(-1), offset
	ends := 0 // length of data up to the last complete line
	err := forEachChunk(ctx, tx, chunksByLine, w.id, offset, func(c chunkText) (enough bool) {
		text := c.text
		if start < 0 {
			skip := afterLineEnds(text, offset-c.firstLine)
			if skip < 0 {
				return false // a chunk without text; the next one has the same first_byte
			}
			start = c.firstByte + int64(skip)
			text = text[skip:]
		}
		for line <= last {
			end := bytes.IndexByte(text, '\n')
			if end < 0 {
				data = append(data, text...)
				return len(data) > maxPageBytes && line > offset
			}
			if line > offset && len(data)+end+1 > maxPageBytes {
				return true
			}
			data = append(data, text[:end+1]...)
			text, ends = text[end+1:], len(data)
			line++
		}
		return true
	})
	if err != nil {
		return err
	}
	atEnd := start+int64(len(data)) == w.bytes
	if line <= last && line == w.lines && atEnd && (line == offset || len(data) <= maxPageBytes) {
		ends, line = len(data), line+1 // the last line has no end and never gets one
	}
	page.Data = string(data[:ends])
	page.EndLine, page.NextLineOffset = line-1, line
	page.StartByte, page.EndByte = start, start+int64(ends)
	page.NextByteOffset = page.EndByte
	page.HasMore = page.EndLine < w.lines
	return nil
}

// afterLineEnds returns the offset after n line ends, or -1 if there are fewer.
func afterLineEnds(text []byte, n int64) int {
	at := 0
	for ; n > 0; n-- {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return -1
		}
		at += end + 1
	}
	return at
}

// bytePage fills a page with complete characters, from the one that holds the byte at
// offset: StartByte may be less than offset.
func bytePage(ctx context.Context, tx *sql.Tx, w outputState, offset, limit int64, page *OutputPage) error {
	page.StartLine, page.EndLine, page.NextLineOffset = w.lines+1, w.lines, w.lines+1
	page.StartByte, page.EndByte, page.NextByteOffset = w.bytes, w.bytes, w.bytes
	if offset >= w.bytes {
		return nil
	}
	var data []byte
	start := int64(-1)
	err := forEachChunk(ctx, tx, chunksByByte, w.id, offset, func(c chunkText) bool {
		text := c.text
		if start < 0 {
			skip := int(offset - c.firstByte)
			if skip >= len(text) {
				return false // a chunk without text; the next one has the same first_byte
			}
			// Chunks hold complete characters, so this chunk holds the character at
			// offset.
			for skip > 0 && !utf8.RuneStart(text[skip]) {
				skip--
			}
			start = c.firstByte + int64(skip)
			page.StartLine = c.firstLine + int64(bytes.Count(text[:skip], []byte{'\n'}))
			text = text[skip:]
		}
		data = append(data, text...)
		return int64(len(data)) >= limit
	})
	if err != nil {
		return err
	}
	if int64(len(data)) > limit {
		end := int(limit)
		for end > 0 && !utf8.RuneStart(data[end]) {
			end--
		}
		if end == 0 { // return at least one complete character
			_, end = utf8.DecodeRune(data)
		}
		data = data[:end]
	}
	page.Data = string(data)
	page.StartByte, page.EndByte = start, start+int64(len(data))
	page.NextByteOffset = page.EndByte
	page.NextLineOffset = page.StartLine + int64(bytes.Count(data, []byte{'\n'}))
	page.EndLine = page.NextLineOffset
	if data[len(data)-1] == '\n' {
		page.EndLine--
	}
	page.HasMore = page.EndByte < w.bytes
	if !page.HasMore {
		page.NextLineOffset = w.lines + 1
	}
	return nil
}

// maxHeadBytes is the largest size of OutputHead.Output, in bytes.
const maxHeadBytes = 16 << 10

// OutputHead is the beginning of an execution's output, shown together with the
// execution. It ends with a complete line, unless the first line alone exceeds 16 KiB.
type OutputHead struct {
	Output string `json:"output" doc:"The beginning of the console output: the complete lines within its first 16 KiB, or these 16 KiB if the first line is longer."`
	// NextLineOffset and NextByteOffset are the offsets of the next page.
	NextLineOffset int64 `json:"next_line_offset" doc:"First line that output does not hold whole: line_offset of the next page."`
	NextByteOffset int64 `json:"next_byte_offset" doc:"First byte that output does not hold: byte_offset of the next page."`
	HasMore        bool  `json:"has_more" doc:"True when there is more output."`
}

// HeadQuery returns the query whose result HeadOf takes.
func HeadQuery() OutputQuery {
	return OutputQuery{ByteOffset: new(int64), ByteLimit: maxHeadBytes}
}

// HeadOf returns the head of an execution's output. page MUST be the result of Output for
// HeadQuery.
func HeadOf(page OutputPage) OutputHead {
	h := OutputHead{Output: page.Data, NextLineOffset: page.NextLineOffset, NextByteOffset: page.NextByteOffset, HasMore: page.HasMore}
	// A page by bytes may end inside a line. Its next_line_offset is that line.
	if end := strings.LastIndexByte(h.Output, '\n') + 1; h.HasMore && end > 0 {
		h.NextByteOffset -= int64(len(h.Output) - end)
		h.Output = h.Output[:end]
	}
	return h
}

// HeadWithoutOutput returns the head of the output of d and true if d has no output. It needs
// no further read. If content of d was shredded, it returns false, because Output reports that.
func HeadWithoutOutput(d ExecutionDetail) (OutputHead, bool) {
	if d.TotalBytes > 0 || d.Shredded != nil {
		return OutputHead{}, false
	}
	return OutputHead{NextLineOffset: 1}, true
}
