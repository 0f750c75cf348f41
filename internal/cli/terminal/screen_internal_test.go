package terminal

import (
	"strings"
	"testing"
)

// Control characters are escaped also if writes split characters.
func TestScreenEscapes(t *testing.T) {
	t.Parallel()
	var b writes
	s := &Screen{Out: &b, Terminal: true}
	for _, part := range []string{"a\x1b[1m\n\tb\r", "\xc3", "\xa9\xe2\x82", "\xac", "\xff\xe2\x80", "\xae\n"} {
		if n, err := s.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d of %q, %v", n, part, err)
		}
	}
	if got, want := string(b), "a\\x1b[1m\n\tb\\ré€\\xff\\u202e\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

type writes []byte

func (w *writes) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }

// A character that is written in pieces is shown completely. Only spans have colors.
func TestScreen(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	s := &Screen{Out: &b, Terminal: true, color: true}
	for _, piece := range []string{"\xe2", "\x9c", "\x93\n\xe2"} {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Error(n, err)
		}
	}
	s.partial = nil
	s.Printf("%s: %s %d\n", Span{Red, "\x1b[0m\n"}, "\x1b[31m\n", 7)
	if want := "✓\n\x1b[31m\\x1b[0m\\n\x1b[0m: \\x1b[31m\\n 7\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestCountNoun(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 events", 1: "1 event", 2: "2 events"} {
		if got := CountNoun(n, "event"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
