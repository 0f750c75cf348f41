package events

// OutputMaxLines and OutputMaxBytes bound one output event. They keep it well
// below MaxEventBytes whatever JSON escaping adds.
const (
	OutputMaxLines = 256
	OutputMaxBytes = 64 << 10
)

// ExecutionOutput records a chunk of console output. The logical unit is the
// line; a chunk carries many so that one disk sync covers them all.
//
// Appended by the runner as the script writes: the first line at once, then every
// 25 ms, 256 lines or 64 KiB.
type ExecutionOutput struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt that wrote the chunk; chunks of an attempt older than the newest
	// started event are void.
	Attempt int `json:"attempt"`
	// FirstLine is the number of the first line, from 1 over the whole
	// execution. A chunk may begin in the middle of that line.
	FirstLine int64 `json:"first_line"`
	// FirstByte is the offset of the chunk's first byte in the execution's
	// output. A chunk at an offset already covered is a repetition.
	FirstByte int64 `json:"first_byte"`
	// Content is the text.
	Content Content[OutputContent] `json:"content"`
	// Hidden is how far the text reaches; only where it is encrypted.
	Hidden *OutputExtent `json:"hidden,omitempty"`
}

// OutputExtent is how far a chunk of output reaches.
type OutputExtent struct {
	// Lines counts the line ends, Bytes the text with them.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// Open is true when the last line goes on in the next chunk.
	Open bool `json:"open,omitempty"`
}

// OutputContent is the erasable part of ExecutionOutput.
type OutputContent struct {
	// Lines are in order.
	Lines []Line `json:"lines"`
}

// Line is one line of output, or a piece of one.
type Line struct {
	// Text is the line without its line end, valid UTF-8.
	Text string `json:"text"`
	// Level is the console method; empty means LevelLog.
	Level Level `json:"level,omitempty"`
	// TimeMillis is what the script's clock showed, milliseconds since 1970.
	TimeMillis int64 `json:"time_ms"`
	// Continued is true when the line goes on in the next piece: no line end
	// follows this one.
	Continued bool `json:"continued,omitempty"`
}

// Bytes is the length of the line in the output, its line end included.
func (l Line) Bytes() int64 {
	if l.Continued {
		return int64(len(l.Text))
	}
	return int64(len(l.Text)) + 1
}

// ExecutionOutputTruncated records that output reached its cap; what follows
// is counted and hashed by the terminal event but not stored.
//
// Appended by the runner, once, when output passes the cap.
type ExecutionOutputTruncated struct {
	// ExecutionID is the run's id.
	ExecutionID string `json:"execution_id"`
	// Attempt that wrote it.
	Attempt int `json:"attempt"`
	// FirstLine and FirstByte number what would have come next.
	FirstLine int64 `json:"first_line"`
	FirstByte int64 `json:"first_byte"`
	// LimitBytes is the cap.
	LimitBytes int64 `json:"limit_bytes"`
}
