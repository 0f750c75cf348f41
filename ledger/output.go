package ledger

import (
	"context"
	"strings"
	"unicode/utf8"

	"daybook/events"
)

// AppendOutput records a chunk of output lines and returns its position. It needs no
// expected position, because chunks count by attempt and offset. The chunk MUST keep the
// limits of events.ExecutionOutput. A chunk that does not, or whose text is not valid
// UTF-8 or has a line break, is CodeInvalid and not recorded.
//
// The caller MUST append the chunks of a run one after the other, each after the one
// before was acknowledged. A chunk after a lost one does not count.
func (l *Ledger) AppendOutput(ctx context.Context, r *StartedAttempt, firstLine, firstByte int64, lines []events.Line) (seq uint64, err error) {
	if err := checkChunk(firstLine, firstByte, lines); err != nil {
		return 0, err
	}
	req := r.Plan.Request
	e := l.newExecutionEvent(req, &events.ExecutionOutput{
		ExecutionID: req.ExecutionID,
		Attempt:     r.Plan.Attempt,
		FirstLine:   firstLine,
		FirstByte:   firstByte,
		Content:     events.Plain(events.OutputContent{Lines: lines}),
	})
	seq, err = l.store.Append(ctx, e, AnyPosition)
	if err != nil {
		return 0, unavailable("append output of execution "+req.ExecutionID, err)
	}
	return seq, nil
}

// TruncateOutput records that output reached its cap. firstLine and firstByte are the
// numbers of the first line and byte that are left out. limit is the cap in bytes.
func (l *Ledger) TruncateOutput(ctx context.Context, r *StartedAttempt, firstLine, firstByte, limit int64) error {
	req := r.Plan.Request
	e := l.newEvent(req.Tenant, req.Traceparent, &events.ExecutionOutputTruncated{
		ExecutionID: req.ExecutionID,
		Attempt:     r.Plan.Attempt,
		FirstLine:   firstLine,
		FirstByte:   firstByte,
		LimitBytes:  limit,
	})
	if _, err := l.store.Append(ctx, e, AnyPosition); err != nil {
		return unavailable("mark the output of execution "+req.ExecutionID+" as truncated", err)
	}
	return nil
}

func checkChunk(firstLine, firstByte int64, lines []events.Line) error {
	switch {
	case firstLine < 1 || firstByte < 0:
		return Invalid("lines", "output is numbered from line 1 and byte 0, not %d and %d", firstLine, firstByte)
	case len(lines) == 0 || len(lines) > events.OutputMaxLines:
		return Invalid("lines", "an output chunk has 1 to %d lines, not %d", events.OutputMaxLines, len(lines))
	}
	size := 0
	for i, line := range lines {
		size += len(line.Text)
		switch {
		case strings.IndexByte(line.Text, '\n') >= 0:
			return Invalid("lines", "line %d of an output chunk holds a line end", i)
		case !utf8.ValidString(line.Text):
			return Invalid("lines", "line %d of an output chunk is not valid UTF-8", i)
		case len(line.Level) > 16:
			return Invalid("lines", `line %d of an output chunk has the level "%s"`, i, Excerpt(string(line.Level)))
		}
	}
	if size > events.OutputMaxBytes {
		return Invalid("lines", "an output chunk has up to %d bytes of text, not %d", events.OutputMaxBytes, size)
	}
	return nil
}
