package events

// Extent is how far the output of an execution reaches: the fold of its output
// chunks, for whoever numbers, stores or checks them. Make one with ExtentFrom
// at each started event.
type Extent struct {
	// Line is the number of the line that the next piece belongs to, from 1.
	Line int64
	// Byte is the offset of the next byte, from 0.
	Byte int64
	// Open is true when the line has begun and not ended.
	Open bool
	// Attempt is the attempt whose chunks count.
	Attempt int
}

// ExtentFrom is the extent at the beginning of an attempt. Nothing is open:
// see ExecutionStarted.FirstByte.
func ExtentFrom(s *ExecutionStarted) Extent {
	return Extent{Line: s.FirstLine, Byte: s.FirstByte, Attempt: s.Attempt}
}

// Add takes a chunk into account and reports true, or reports false for a
// chunk that does not count: of another attempt, or not the one that follows.
// A repetition begins before Byte; after an append that failed, later chunks
// begin behind it.
func (x *Extent) Add(c *ExecutionOutput) bool {
	if c.Attempt != x.Attempt || c.FirstLine != x.Line || c.FirstByte != x.Byte {
		return false
	}
	reach := c.Hidden
	if reach == nil || c.Content.Plain != nil {
		reach = measure(c.Content.Value().Lines)
	}
	if reach.Bytes > 0 || reach.Lines > 0 || len(c.Content.Value().Lines) > 0 {
		x.Byte += reach.Bytes
		x.Line += reach.Lines
		x.Open = reach.Open
	}
	return true
}

// Next is where the output of a further attempt begins: on a line of its own.
// The end of an open line counts as written.
func (x Extent) Next() (firstLine, firstByte int64) {
	if x.Open {
		return x.Line + 1, x.Byte + 1
	}
	return x.Line, x.Byte
}

// Voids reports whether a piece of a line, recorded by an earlier attempt at a
// byte offset, no longer counts: this attempt was planned before it was stored.
// See FirstByte.
func (d *ExecutionStarted) Voids(offset int64, piece Line) bool {
	return offset+int64(len(piece.Text)) >= d.FirstByte
}
