package events

// OutputMaxLines and OutputMaxBytes limit one output event. With any JSON escaping it
// stays well below MaxEventBytes.
const (
	OutputMaxLines = 256
	OutputMaxBytes = 64 << 10
)

// ExecutionOutput records a chunk of console output. A chunk carries many lines, so that
// one disk sync covers all of them.
//
// Appended by the runner as the script writes: the first line immediately, then every
// 25 ms, 256 lines or 64 KiB.
type ExecutionOutput struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that wrote the chunk. Chunks of an attempt older than the
	// newest started event are void.
	Attempt int `json:"attempt"`
	// FirstLine is the number of the first line, from 1 over the whole execution. A
	// chunk can begin in the middle of that line.
	FirstLine int64 `json:"first_line"`
	// FirstByte is the offset of the first byte of the chunk in the output of the
	// execution. A chunk at an offset already covered is a repetition.
	FirstByte int64 `json:"first_byte"`
	// Content holds the text.
	Content Content[OutputContent] `json:"content"`
	// Hidden is the extent of the text; only if it is encrypted.
	Hidden *OutputExtent `json:"hidden,omitempty"`
}

// OutputExtent is the extent of a chunk of output.
type OutputExtent struct {
	// Lines counts the line ends, Bytes the text including them.
	Lines int64 `json:"lines"`
	Bytes int64 `json:"bytes"`
	// Open is true when the last line continues in the next chunk.
	Open bool `json:"open,omitempty"`
}

// OutputContent is the erasable part of ExecutionOutput.
type OutputContent struct {
	// Lines are in order.
	Lines []Line `json:"lines"`
}

// Line is a line of output, or a piece of one.
type Line struct {
	// Text is the line without its line end, valid UTF-8.
	Text string `json:"text"`
	// Level is the console method; empty means LevelLog.
	Level Level `json:"level,omitempty"`
	// TimeMillis is the time on the script's clock, in milliseconds since 1970.
	TimeMillis int64 `json:"time_ms"`
	// Continued is true when the line continues in the next piece, without a line end
	// between them.
	Continued bool `json:"continued,omitempty"`
}

// Bytes returns the length of the line in the output, its line end included.
func (l Line) Bytes() int64 {
	if l.Continued {
		return int64(len(l.Text))
	}
	return int64(len(l.Text)) + 1
}

// ExecutionOutputTruncated records that the output reached its cap. The terminal event
// counts and hashes later output, which is not stored.
//
// Appended by the runner, once, when output exceeds the cap.
type ExecutionOutputTruncated struct {
	// ExecutionID is the id of the execution.
	ExecutionID string `json:"execution_id"`
	// Attempt is the attempt that wrote the output.
	Attempt int `json:"attempt"`
	// FirstLine and FirstByte number the first line and byte that are not stored.
	FirstLine int64 `json:"first_line"`
	FirstByte int64 `json:"first_byte"`
	// LimitBytes is the cap.
	LimitBytes int64 `json:"limit_bytes"`
}
