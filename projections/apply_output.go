package projections

import (
	"daybook/events"
)

func (a *applier) output(e *events.Event, d *events.ExecutionOutput) error {
	st, ok, err := a.execution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	if st.status.Terminal() {
		return nil // an attempt that did not know yet; its output is void
	}
	before := st.extent
	if !st.extent.Add(d) {
		if d.Attempt == before.Attempt && d.FirstByte > before.Byte {
			return a.anomaly(e, "output of execution %s goes on at byte %d, it ended at %d", d.ExecutionID, d.FirstByte, before.Byte)
		}
		return nil // of an older attempt, or a repetition
	}
	lines := d.Content.Value().Lines
	if len(lines) == 0 {
		return nil
	}
	if err := a.putChunk(st.id, before.Byte, before.Line, lines); err != nil {
		return err
	}
	return a.exec(a.s.extent, st.id, e.Seq, st.extent.Line, st.extent.Byte, st.extent.Open)
}

func (a *applier) putChunk(execution, firstByte, firstLine int64, lines []events.Line) error {
	c := packChunk(lines)
	if len(c.text) == 0 {
		return nil
	}
	return a.exec(a.s.chunk, execution, firstByte, firstLine, firstLine+c.lineEnds, c.text, c.pieces)
}

func (a *applier) truncated(e *events.Event, d *events.ExecutionOutputTruncated) error {
	st, ok, err := a.execution(e, d.ExecutionID)
	if err != nil || !ok || st.status.Terminal() || d.Attempt != st.extent.Attempt {
		return err
	}
	return a.exec(a.s.truncate, st.id, e.Seq)
}

// beginAttempt makes the output on record end where the attempt begins: pieces
// the attempt did not know of go, and a line left open is ended. See
// events.ExecutionStarted.FirstByte.
func (a *applier) beginAttempt(st state, d *events.ExecutionStarted) error {
	if d.FirstByte == 0 && st.extent.Byte == 0 {
		return nil
	}
	// The chunk before the last byte that can count tells whether a line is open.
	chunks, err := a.chunksFrom(st.id, max(d.FirstByte-2, 0))
	if err != nil {
		return err
	}
	open := false
	for _, c := range chunks {
		kept, offset := 0, c.firstByte
		for kept < len(c.lines) && !d.Voids(offset, c.lines[kept]) {
			offset += c.lines[kept].Bytes()
			kept++
		}
		if kept > 0 {
			open = c.lines[kept-1].Continued
		}
		if kept == len(c.lines) {
			continue
		}
		if err := a.exec(a.s.deleteChunk, st.id, c.firstByte); err != nil {
			return err
		}
		if kept > 0 {
			if err := a.putChunk(st.id, c.firstByte, c.firstLine, c.lines[:kept]); err != nil {
				return err
			}
		}
	}
	if !open {
		return nil
	}
	return a.putChunk(st.id, d.FirstByte-1, d.FirstLine-1, []events.Line{{}})
}

// storedChunk is a chunk read back.
type storedChunk struct {
	firstByte, firstLine int64
	lines                []events.Line
}

// chunksFrom reads the chunks that reach to an offset or past it.
func (a *applier) chunksFrom(execution, offset int64) ([]storedChunk, error) {
	rows, err := a.tx.StmtContext(a.ctx, a.s.chunksFrom).QueryContext(a.ctx, execution, offset)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []storedChunk
	for rows.Next() {
		var c storedChunk
		var text, pieces []byte
		if err := rows.Scan(&c.firstByte, &c.firstLine, &text, &pieces); err != nil {
			return nil, err
		}
		if c.lines, err = unpackChunk(text, pieces); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}
