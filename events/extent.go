package events

// Extent is the extent of an execution's output: the fold of its output chunks. The
// runner numbers chunks with it, and readers find with it the chunks that count. It starts
// with ExtentFrom at each started event.
type Extent struct {
	// Line is the number of the line that the next piece belongs to, from 1.
	Line int64
	// Byte is the offset of the next byte, from 0.
	Byte int64
	// Open is true when the last line has no line end yet.
	Open bool
	// Attempt is the attempt whose chunks count.
	Attempt int
}

// ExtentFrom returns the extent at the beginning of an attempt. No line is open; see
// ExecutionStarted.FirstByte.
func ExtentFrom(s *ExecutionStarted) Extent {
	return Extent{Line: s.FirstLine, Byte: s.FirstByte, Attempt: s.Attempt}
}

// Add adds a chunk and reports whether it counts. A chunk of another attempt does not
// count, nor one that begins elsewhere than at Byte: a repetition begins before it, and a
// chunk after a failed append begins after it.
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

// Next returns the line and the byte at which the output of a further attempt begins. It
// begins on a line of its own, so the line end of an open line counts as written.
func (x Extent) Next() (firstLine, firstByte int64) {
	if x.Open {
		return x.Line + 1, x.Byte + 1
	}
	return x.Line, x.Byte
}

// Voids reports whether a piece of a line that an earlier attempt recorded at a byte
// offset no longer counts, because it was stored after this attempt was planned. See
// FirstByte.
func (d *ExecutionStarted) Voids(offset int64, piece Line) bool {
	return offset+int64(len(piece.Text)) >= d.FirstByte
}
