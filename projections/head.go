package projections

import "strings"

// MaxHeadBytes is the largest size of OutputHead.Output, in bytes.
const MaxHeadBytes = 16 << 10

// OutputHead is the beginning of an execution's output, shown together with the
// execution. It ends with a complete line, unless the first line alone exceeds
// MaxHeadBytes.
type OutputHead struct {
	Output string `json:"output" doc:"The first 16 KiB of the console output, in whole lines where a line fits."`
	// NextLineOffset and NextByteOffset are the offsets of the next page.
	NextLineOffset int64 `json:"next_line_offset" doc:"First line that output does not hold whole: line_offset of the next page."`
	NextByteOffset int64 `json:"next_byte_offset" doc:"First byte that output does not hold: byte_offset of the next page."`
	HasMore        bool  `json:"has_more" doc:"True when there is more output."`
}

// HeadQuery returns the query for the page that HeadOf takes.
func HeadQuery() OutputQuery {
	return OutputQuery{ByteOffset: new(int64), ByteLimit: MaxHeadBytes}
}

// HeadOf returns the head of the output from the result of HeadQuery.
func HeadOf(page OutputPage) OutputHead {
	h := OutputHead{Output: page.Data, NextLineOffset: page.NextLineOffset, NextByteOffset: page.NextByteOffset, HasMore: page.HasMore}
	// A page by bytes may end inside a line. Its next_line_offset is that line.
	if end := strings.LastIndexByte(h.Output, '\n') + 1; h.HasMore && end > 0 {
		h.NextByteOffset -= int64(len(h.Output) - end)
		h.Output = h.Output[:end]
	}
	return h
}
