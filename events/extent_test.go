package events_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"daybook/events"
)

func TestExtent(t *testing.T) {
	t.Parallel()
	chunk := func(attempt int, line, start int64, lines ...events.Line) *events.ExecutionOutput {
		return &events.ExecutionOutput{Attempt: attempt, FirstLine: line, FirstByte: start, Content: events.Plain(events.OutputContent{Lines: lines})}
	}
	whole, part := events.Line{Text: "é"}, events.Line{Text: "ab", Continued: true}
	x := events.ExtentFrom(&events.ExecutionStarted{Attempt: 2, FirstLine: 3, FirstByte: 10})
	steps := []struct {
		name  string
		chunk *events.ExecutionOutput
		takes bool
		want  events.Extent
	}{
		{"another attempt", chunk(1, 3, 10, whole), false, events.Extent{Line: 3, Byte: 10, Attempt: 2}},
		{"after a gap", chunk(2, 4, 13, whole), false, events.Extent{Line: 3, Byte: 10, Attempt: 2}},
		{"whole line", chunk(2, 3, 10, whole), true, events.Extent{Line: 4, Byte: 13, Attempt: 2}},
		{"repetition", chunk(2, 3, 10, whole), false, events.Extent{Line: 4, Byte: 13, Attempt: 2}},
		{"open line", chunk(2, 4, 13, whole, part), true, events.Extent{Line: 5, Byte: 18, Open: true, Attempt: 2}},
		{"its next piece", chunk(2, 5, 18, part), true, events.Extent{Line: 5, Byte: 20, Open: true, Attempt: 2}},
		{"its end", chunk(2, 5, 20, events.Line{}), true, events.Extent{Line: 6, Byte: 21, Attempt: 2}},
	}
	for _, s := range steps {
		if got := x.Add(s.chunk); got != s.takes || x != s.want {
			t.Fatalf("%s: counts %t, extent %+v", s.name, got, x)
		}
	}
	if line, start := (events.Extent{Line: 5, Byte: 18, Open: true}).Next(); line != 6 || start != 19 {
		t.Errorf("after an open line: line %d, byte %d", line, start)
	}
	if line, start := (events.Extent{Line: 5, Byte: 18}).Next(); line != 5 || start != 18 {
		t.Errorf("after a complete line: line %d, byte %d", line, start)
	}
}

// An attempt is planned when a part of the output of the previous attempt is recorded. Only
// this part counts, although the rest is recorded later.
func TestVoids(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		pieces := make([]events.Line, rng.IntN(8))
		for i := range pieces {
			pieces[i] = events.Line{Text: strings.Repeat("x", rng.IntN(3)), Continued: rng.IntN(2) == 0}
		}
		known := rng.IntN(len(pieces) + 1)
		x := events.Extent{Line: 1, Attempt: 1}
		x.Add(&events.ExecutionOutput{Attempt: 1, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: pieces[:known]})})
		next := &events.ExecutionStarted{}
		next.FirstLine, next.FirstByte = x.Next()

		var offset int64
		var want, got strings.Builder
		open := false
		for i, p := range pieces {
			text := p.Text
			if !p.Continued {
				text += "\n"
			}
			if i < known {
				want.WriteString(text)
			}
			if !next.Voids(offset, p) {
				got.WriteString(text)
				open = p.Continued
			}
			offset += p.Bytes()
		}
		if x.Open {
			want.WriteString("\n")
		}
		if open {
			got.WriteString("\n")
		}
		if got.String() != want.String() || int64(got.Len()) != next.FirstByte || int64(strings.Count(got.String(), "\n"))+1 != next.FirstLine {
			t.Fatalf("%+v, %d known: %q counts, want %q; next line %d, byte %d", pieces, known, got.String(), want.String(), next.FirstLine, next.FirstByte)
		}
	}
}
