package projections

import (
	"database/sql"
	"errors"

	"daybook/events"
)

// applyOutput stores a chunk that continues the output. It skips any other chunk. A
// repetition and a chunk of a superseded attempt occur in an intact ledger and are not
// reported; the rest are anomalies.
func (a *applier) applyOutput(e *events.Event, d *events.ExecutionOutput) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok {
		return err
	}
	if st.status.Terminal() {
		return nil // from a runner that did not know of the end yet
	}
	before := st.extent
	if !st.extent.Add(d) {
		return a.checkSkippedOutput(e, d, before)
	}
	lines := d.Content.Value().Lines
	if len(lines) == 0 && d.Content.Sealed == nil {
		return nil
	}
	if len(lines) > 0 {
		if err := a.putChunk(st.id, e.Seq, before.Byte, before.Line, lines); err != nil {
			return err
		}
	}
	a.usageOf(e.Tenant).OutputBytes += st.extent.Byte - before.Byte
	st.lastSeq, st.isUnstored = e.Seq, true
	return nil
}

func (a *applier) checkSkippedOutput(e *events.Event, d *events.ExecutionOutput, x events.Extent) error {
	switch {
	case d.Attempt > x.Attempt:
		return a.recordAnomaly(e, "output of attempt %d of execution %s, which is at attempt %d", d.Attempt, d.ExecutionID, x.Attempt)
	case d.Attempt < x.Attempt || d.FirstByte < x.Byte:
		return nil
	default:
		return a.recordAnomaly(e, "output of execution %s continues at line %d, byte %d; the recorded output continues at line %d, byte %d",
			d.ExecutionID, d.FirstLine, d.FirstByte, x.Line, x.Byte)
	}
}

func (a *applier) putChunk(execution int64, seq uint64, firstByte, firstLine int64, lines []events.Line) error {
	c := encodeChunk(lines)
	return a.exec(a.s.chunk, seq, execution, firstByte, firstLine, firstLine+c.lineEnds, c.text, c.pieces)
}

func (a *applier) applyTruncated(e *events.Event, d *events.ExecutionOutputTruncated) error {
	st, ok, err := a.loadExecution(e, d.ExecutionID)
	if err != nil || !ok || st.status.Terminal() || d.Attempt != st.extent.Attempt {
		return err
	}
	st.lastSeq = e.Seq
	if st.row != nil {
		st.row[colOutTruncated] = true
		return nil
	}
	return a.exec(a.s.truncate, st.id, e.Seq)
}

// beginAttempt makes the stored output end where the attempt starts: it deletes the
// pieces that were stored after the attempt was planned, and ends an open line. See
// events.ExecutionStarted.FirstByte. It returns the position at which output continues.
//
// In an intact ledger, that is the position in the event. In any other ledger the stored
// output counts, so that it never has a gap: with a gap, no page would be exact.
func (a *applier) beginAttempt(e *events.Event, st *executionState, d *events.ExecutionStarted) (events.Extent, error) {
	end, err := a.voidOutput(st.id, d)
	if err != nil {
		return end, err
	}
	if end.Open {
		if err := a.putChunk(st.id, e.Seq, end.Byte, end.Line, []events.Line{{}}); err != nil {
			return end, err
		}
	}
	next := events.Extent{Attempt: d.Attempt}
	next.Line, next.Byte = end.Next()
	var sealed bool
	if err := a.queryRow(a.s.sealed, st.id).Scan(&sealed); err != nil {
		return end, err
	}
	if sealed { // stored output may be unreadable, so only the event counts, now and in a rebuild
		return events.ExtentFrom(d), nil
	}
	if next != events.ExtentFrom(d) {
		err = a.recordAnomaly(e, "attempt %d of execution %s begins at line %d, byte %d; the recorded output ends before line %d, byte %d",
			d.Attempt, d.ExecutionID, d.FirstLine, d.FirstByte, next.Line, next.Byte)
	}
	return next, err
}

// voidOutput deletes the pieces that an attempt voids and returns the end of the
// others. It searches from the end, because the voided pieces are the last ones.
func (a *applier) voidOutput(execution int64, d *events.ExecutionStarted) (events.Extent, error) {
	for {
		c, err := a.lastChunk(execution)
		if errors.Is(err, sql.ErrNoRows) {
			return events.Extent{Line: 1}, nil
		}
		if err != nil {
			return events.Extent{}, err
		}
		end, kept := events.Extent{Line: c.firstLine, Byte: c.firstByte}, 0
		for _, l := range c.lines {
			if d.Voids(end.Byte, l) {
				break
			}
			kept++
			end.Byte += l.Bytes()
			if end.Open = l.Continued; !end.Open {
				end.Line++
			}
		}
		if kept == len(c.lines) {
			return end, nil
		}
		if err := a.exec(a.s.deleteChunk, c.seq); err != nil {
			return end, err
		}
		if kept > 0 {
			return end, a.putChunk(execution, c.seq, c.firstByte, c.firstLine, c.lines[:kept])
		}
	}
}

// storedChunk is a chunk read from the table.
type storedChunk struct {
	seq                  uint64
	firstByte, firstLine int64
	lines                []events.Line
}

// lastChunk returns the last chunk of an execution. It returns sql.ErrNoRows if there
// is none.
func (a *applier) lastChunk(execution int64) (c storedChunk, err error) {
	var text, pieces []byte
	if err := a.queryRow(a.s.lastChunk, execution).Scan(&c.seq, &c.firstByte, &c.firstLine, &text, &pieces); err != nil {
		return c, err
	}
	c.lines, err = decodeChunk(text, pieces)
	return c, err
}
