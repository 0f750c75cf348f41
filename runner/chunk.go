package runner

import (
	"strings"
	"unicode/utf8"

	"daybook/events"
)

// chunk is the content of one append: lines, or the mark that output was truncated.
type chunk struct {
	firstLine, firstByte int64
	lines                []events.Line
	isTruncation         bool
}

// backlog holds output that was accepted and not yet appended, as pieces that each fit
// a chunk. The text of a chunk is at most events.OutputMaxBytes, line ends included:
// even if JSON encodes each byte in six, the event stays below events.MaxEventBytes.
type backlog struct {
	lines []events.Line
	bytes int64
	// nextLine and nextByte are the line number and byte offset of the first piece.
	nextLine, nextByte int64
	// hasTruncation is true if the truncation mark follows the last piece.
	hasTruncation bool
}

func (b *backlog) isEmpty() bool { return len(b.lines) == 0 && !b.hasTruncation }

// isFull reports whether no further line fits the next chunk.
func (b *backlog) isFull() bool {
	return b.hasTruncation || len(b.lines) >= events.OutputMaxLines || b.bytes >= events.OutputMaxBytes
}

// add adds a line, in pieces that fit a chunk.
func (b *backlog) add(l events.Line) {
	for len(l.Text) >= events.OutputMaxBytes {
		piece := l
		piece.Text = l.Text[:runeStart(l.Text, events.OutputMaxBytes)]
		piece.Continued = true
		b.push(piece)
		l.Text = l.Text[len(piece.Text):]
		if l.Text == "" && l.Continued {
			return
		}
	}
	b.push(l)
}

func (b *backlog) push(l events.Line) {
	b.lines = append(b.lines, l)
	b.bytes += l.Bytes()
}

// nextChunk returns the next chunk to append. The backlog keeps it until drop.
func (b *backlog) nextChunk() chunk {
	c := chunk{firstLine: b.nextLine, firstByte: b.nextByte}
	n, size := 0, int64(0)
	for n < len(b.lines) && n < events.OutputMaxLines && size+b.lines[n].Bytes() <= events.OutputMaxBytes {
		size += b.lines[n].Bytes()
		n++
	}
	// The receiver reads the slice while the backlog grows.
	c.lines = b.lines[:n:n]
	c.isTruncation = n == 0
	return c
}

// drop removes a chunk that was passed to append.
func (b *backlog) drop(c chunk) {
	if c.isTruncation {
		b.hasTruncation = false
		return
	}
	for _, l := range c.lines {
		b.bytes -= l.Bytes()
		b.nextByte += l.Bytes()
		if !l.Continued {
			b.nextLine++
		}
	}
	if b.lines = b.lines[len(c.lines):]; len(b.lines) == 0 {
		b.lines = nil
	}
}

// runeStart returns the last offset at or before n at which s can be cut without
// splitting a character: len(s) if n is beyond its end, 0 if there is no such offset.
func runeStart(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// sanitize passes a line of a worker to yield as lines that the ledger accepts: valid
// UTF-8, no line end inside, a known level. Lines of a worker that follows the protocol
// are unchanged.
func sanitize(l events.Line, yield func(events.Line)) {
	switch l.Level {
	case events.LevelLog:
		l.Level = "" // the recorded form of the default
	case "", events.LevelDebug, events.LevelInfo, events.LevelWarn, events.LevelError, events.LevelTrace:
	default:
		l.Level = ""
	}
	rest := strings.ToValidUTF8(l.Text, "\uFFFD")
	for {
		line, after, found := strings.Cut(rest, "\n")
		if !found {
			break
		}
		rest = after
		yield(events.Line{Text: line, Level: l.Level, TimeMillis: l.TimeMillis})
	}
	l.Text = rest
	yield(l)
}
