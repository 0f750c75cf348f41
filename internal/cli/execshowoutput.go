package cli

import (
	"fmt"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/cli/terminal"
)

// mostLineBytes is the maximum length of an output line in "exec show", in bytes,
// unless the terminal is narrower.
const mostLineBytes = 2000

// firstBytes returns at most most bytes of a text, in complete characters, and the
// number of remaining bytes.
func firstBytes(text string, most int) (first string, rest int) {
	if len(text) <= most {
		return text, 0
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most], len(text) - most
}

// outputLine identifies a line of output. The attempt is part of it, because a later
// attempt may write a line again.
type outputLine struct {
	attempt int
	number  int64
}

// longLines holds the lengths of shortened lines, in bytes.
type longLines struct {
	bytes map[outputLine]int
	// open is the line whose next piece has not arrived, or zero.
	open outputLine
}

// pieces calls visit for each piece of a line in a chunk. begins is false if the piece
// continues the line of the piece before.
func (l *longLines) pieces(d events.ExecutionOutput, visit func(at outputLine, begins bool, piece events.Line)) {
	at := outputLine{d.Attempt, d.FirstLine}
	for _, piece := range d.Content.Value().Lines {
		visit(at, l.open != at, piece)
		l.open = at
		if !piece.Continued {
			l.open = outputLine{}
			at.number++
		}
	}
}

func newTimeline(out *terminal.Screen, list []events.CloudEvent, most int) *timeline {
	t := &timeline{out: out, from: map[int]int64{}, long: longLines{bytes: map[outputLine]int{}}}
	var lines int64
	size := 0
	for _, e := range list {
		switch events.Type(e.Type) {
		case events.TypeExecutionStarted:
			d := payload[events.ExecutionStarted](e)
			t.from[d.Attempt], t.last = d.FirstLine, max(t.last, d.Attempt)
		case events.TypeExecutionOutput:
			t.long.pieces(payload[events.ExecutionOutput](e), func(at outputLine, begins bool, piece events.Line) {
				lines = max(lines, at.number)
				if begins {
					size = 0
				}
				if size += len(piece.Text); size > mostLineBytes && most > 0 {
					t.long.bytes[at] = size
				}
			})
		}
	}
	t.long.open = outputLine{}
	if most > 0 && lines > int64(most) {
		t.hideFrom, t.hideTo = int64(most+1)/2+1, lines-int64(most)/2
	}
	return t
}

func (t *timeline) output(e events.CloudEvent) {
	d := payload[events.ExecutionOutput](e)
	t.long.pieces(d, func(at outputLine, begins bool, piece events.Line) {
		if t.hideTo >= t.hideFrom && at.number >= t.hideFrom && at.number <= t.hideTo {
			if !t.hidden {
				t.hidden = true
				t.note("     … lines %d to %d; daybook exec output %s", t.hideFrom, t.hideTo, e.Subject)
			}
			return
		}
		size, isLong := t.long.bytes[at]
		if isLong && !begins {
			return // the note after the first piece counts the bytes of this piece
		}
		color, void := "", ""
		switch piece.Level {
		case events.LevelError:
			color = terminal.Red
		case events.LevelWarn:
			color = terminal.Yellow
		}
		if next, again := t.from[d.Attempt+1]; again && at.number >= next {
			color, void = terminal.Dim, " (void)"
		}
		text := piece.Text
		if isLong {
			text, _ = firstBytes(text, mostLineBytes)
		}
		t.line(e, fmt.Sprintf("%4d │ %s%s", at.number, text, void), color)
		if isLong {
			t.note("     … %d of %d bytes more; daybook exec output %s", size-len(text), size, e.Subject)
		}
	})
	if d.Content.Sealed != nil {
		t.line(e, "output, encrypted", terminal.Dim)
	}
}
