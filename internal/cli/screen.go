package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// screen is an output of the process. On a terminal Write escapes control
// characters, so that a script cannot move the cursor, change colors or hide
// text; elsewhere it passes the bytes on.
type screen struct {
	out      io.Writer // as it is
	terminal bool
	color    bool
	columns  int    // 0: not a terminal, so no limit
	partial  []byte // beginning of a character whose rest is yet to be written
}

// newScreen finds out what an output is. Colors are off where NO_COLOR is set or
// TERM is dumb.
func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	f, ok := out.(*os.File)
	if !ok {
		return s
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return s
	}
	s.terminal, s.columns = true, 80
	s.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		s.columns = int(size.Col)
	}
	return s
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	if !s.terminal {
		return s.out.Write(p)
	}
	text := append(s.partial, p...)
	s.partial = nil
	if tail := incomplete(text); tail > 0 {
		s.partial = bytes.Clone(text[len(text)-tail:])
		text = text[:len(text)-tail]
	}
	if _, err := io.WriteString(s.out, visible(string(text), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// incomplete is the length of a character at the end that lacks bytes.
func incomplete(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// printf writes text of our own, which may hold colors: anything from elsewhere
// in it must have gone through visible.
func (s *screen) printf(format string, args ...any) {
	fmt.Fprintf(s.out, format, args...)
}

// visible replaces what does not print by an escape: control characters but those
// to keep, bytes that are no UTF-8, and marks that change the direction of text.
func visible(text, keep string) string {
	clean := true
	for _, r := range text {
		if hidden(r) && !strings.ContainsRune(keep, r) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !hidden(r) || strings.ContainsRune(keep, r):
			b.WriteString(text[i : i+n])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a character is one that visible escapes.
func hidden(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0, r == utf8.RuneError:
		return true
	case r == 0x61c, r == 0x200e, r == 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
		return true
	}
	return false
}

// Colors, as the parameters of an SGR sequence.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

// paint colors a text, if the output shows colors.
func (s *screen) paint(color, text string) string {
	if !s.color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// colorOf is the color of a status, or none.
func colorOf(status string) string {
	word, _, _ := strings.Cut(status, " ")
	switch word {
	case "completed", "ok", "active":
		return green
	case "failed", "error":
		return red
	case "timed_out", "cancelled", "disabled", "interrupted":
		return yellow
	case "running", "queued":
		return cyan
	default:
		return ""
	}
}
