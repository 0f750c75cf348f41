package projections_test

import (
	"strings"
	"unicode/utf8"

	"daybook/events"
	"daybook/projections"
)

// reference is the output of one execution as the documentation describes it, as one
// text in memory.
type reference struct {
	pieces  []refPiece
	attempt int
	status  events.Status
}

type refPiece struct {
	line  int64
	text  string // including its line end
	level events.Level
	at    int64
}

func (r *reference) text() string {
	var b strings.Builder
	for _, p := range r.pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// open reports whether the last line has no end.
func (r *reference) open() bool {
	return len(r.pieces) > 0 && !strings.HasSuffix(r.pieces[len(r.pieces)-1].text, "\n")
}

// next returns the number of the next piece.
func (r *reference) next() (line, offset int64) {
	text := r.text()
	return int64(strings.Count(text, "\n")) + 1, int64(len(text))
}

func (r *reference) apply(d events.Data) {
	if r.status.Terminal() {
		return
	}
	switch d := d.(type) {
	case *events.ExecutionStarted:
		offset := 0
		kept := r.pieces[:0:0]
		for _, p := range r.pieces {
			if int64(offset+len(strings.TrimSuffix(p.text, "\n"))) >= d.FirstByte {
				break
			}
			kept = append(kept, p)
			offset += len(p.text)
		}
		r.pieces = kept
		if r.open() {
			line, _ := r.next()
			r.pieces = append(r.pieces, refPiece{line: line, text: "\n"})
		}
		r.attempt = d.Attempt
	case *events.ExecutionOutput:
		line, offset := r.next()
		if d.Attempt != r.attempt || d.FirstByte != offset || d.FirstLine != line {
			return
		}
		for _, l := range d.Content.Value().Lines {
			p := refPiece{line: line, text: l.Text, level: l.Level, at: l.TimeMillis}
			if p.level == "" {
				p.level = events.LevelLog
			}
			if !l.Continued {
				p.text += "\n"
				line++
			}
			r.pieces = append(r.pieces, p)
		}
	default:
		if s, ok := events.TypeOf(d).Status(); ok {
			r.status = s
		}
	}
}

// lines returns the lines started, with their line ends.
func (r *reference) lines() []string {
	if len(r.pieces) == 0 {
		return nil
	}
	lines := strings.SplitAfter(r.text(), "\n")
	if !r.open() {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// whole returns the number of lines that cannot grow.
func (r *reference) whole() int64 {
	n := int64(len(r.lines()))
	if r.open() && !r.status.Terminal() {
		n--
	}
	return n
}

func (r *reference) page() projections.OutputPage {
	return projections.OutputPage{
		ExecutionID: id(1), Status: r.status, TotalLines: int64(len(r.lines())), TotalBytes: int64(len(r.text())),
	}
}

func (r *reference) linePage(offset, limit int64) projections.OutputPage {
	p := r.page()
	lines := r.lines()
	var before int64 // bytes of the lines before the page
	for i := int64(1); i < offset && i <= p.TotalLines; i++ {
		before += int64(len(lines[i-1]))
	}
	p.StartLine, p.StartByte = offset, before
	for i := offset; i <= r.whole() && i < offset+limit; i++ {
		p.Data += lines[i-1]
	}
	p.EndByte = before + int64(len(p.Data))
	p.NextByteOffset = p.EndByte
	p.EndLine = max(min(r.whole(), offset+limit-1), offset-1)
	p.NextLineOffset = min(p.EndLine, p.TotalLines) + 1
	p.HasMore = p.EndLine < p.TotalLines
	return p
}

func (r *reference) bytePage(offset, limit int64) projections.OutputPage {
	p := r.page()
	text := r.text()
	start := min(offset, p.TotalBytes)
	for start < p.TotalBytes && !utf8.RuneStart(text[start]) {
		start--
	}
	end := start
	for end < p.TotalBytes {
		_, size := utf8.DecodeRuneInString(text[end:])
		if end > start && end+int64(size)-start > limit {
			break
		}
		end += int64(size)
	}
	p.Data = text[start:end]
	p.StartByte, p.EndByte, p.NextByteOffset = start, end, end
	p.HasMore = end < p.TotalBytes
	if p.Data == "" {
		p.StartLine, p.EndLine, p.NextLineOffset = p.TotalLines+1, p.TotalLines, p.TotalLines+1
		return p
	}
	p.StartLine = int64(strings.Count(text[:start], "\n")) + 1
	p.EndLine = int64(strings.Count(text[:end-1], "\n")) + 1
	if p.NextLineOffset = int64(strings.Count(text[:end], "\n")) + 1; !p.HasMore {
		p.NextLineOffset = p.TotalLines + 1
	}
	return p
}

// outputLines returns the complete lines with numbers in [from, from+limit).
func (r *reference) outputLines(from, limit int64) []projections.OutputLine {
	var list []projections.OutputLine
	for _, p := range r.pieces {
		if p.line < from || p.line >= from+limit || p.line > r.whole() {
			continue
		}
		if n := len(list); n > 0 && list[n-1].Line == p.line {
			list[n-1].Text += strings.TrimSuffix(p.text, "\n")
			continue
		}
		list = append(list, projections.OutputLine{Line: p.line, Level: p.level, Time: millis(p.at), Text: strings.TrimSuffix(p.text, "\n")})
	}
	return list
}
