package runner

import (
	"strings"
	"unicode/utf8"

	"daybook/events"
)

// chunk is what one append records: lines, or the mark that output was cut.
type chunk struct {
	firstLine, firstByte int64
	lines                []events.Line
	cut                  bool
}

// backlog holds output that was accepted and not yet handed on, as pieces that
// each fit a chunk. Text in a chunk is at most events.OutputMaxBytes, line ends
// included: even if JSON makes six bytes of each, the event stays below
// events.MaxEventBytes.
type backlog struct {
	lines []events.Line
	bytes int64
	// nextLine and nextByte number the first piece.
	nextLine, nextByte int64
	// cut is set when the mark follows the last piece.
	cut bool
}

func (b *backlog) empty() bool { return len(b.lines) == 0 && !b.cut }

// full reports whether a chunk cannot get fuller by waiting.
func (b *backlog) full() bool {
	return b.cut || len(b.lines) >= events.OutputMaxLines || b.bytes >= events.OutputMaxBytes
}

// add takes a line, in pieces that fit.
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

// next is the chunk to hand on next. The backlog keeps it until it is dropped.
func (b *backlog) next() chunk {
	c := chunk{firstLine: b.nextLine, firstByte: b.nextByte}
	n, size := 0, int64(0)
	for n < len(b.lines) && n < events.OutputMaxLines && size+b.lines[n].Bytes() <= events.OutputMaxBytes {
		size += b.lines[n].Bytes()
		n++
	}
	// The slice is handed to somebody else while this one goes on growing.
	c.lines = b.lines[:n:n]
	c.cut = n == 0
	return c
}

// drop removes a chunk that was handed on.
func (b *backlog) drop(c chunk) {
	if c.cut {
		b.cut = false
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

// runeStart is the last position at or before n at which s, which is longer,
// can be cut without splitting a character; 0 if there is none.
func runeStart(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// sanitize makes of what a worker said is one line, lines that the ledger
// accepts: valid UTF-8, no line end inside, a known level. A worker that keeps
// its word is not changed.
func sanitize(l events.Line, yield func(events.Line)) {
	switch l.Level {
	case events.LevelLog:
		l.Level = "" // how the default is written
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
