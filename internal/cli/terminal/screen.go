package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"
	"golang.org/x/sys/unix"
)

// Screen is an output of the process, and the only way to it: on a terminal it
// escapes hidden characters, so that a script or another client cannot move the
// cursor, change colors or hide text. It is safe for concurrent use.
//
//   - Write takes text from anywhere. Line breaks and tabs stay.
//   - WriteJSON takes JSON.
//   - Printf takes a layout. Its arguments are text from anywhere and stay in their
//     line, also where the output is no terminal.
type Screen struct {
	Out      io.Writer // callers MUST NOT write to it
	Terminal bool      // Out is a terminal
	Raw      bool      // write to a terminal as to a file
	color    bool
	Columns  int // 0: not a terminal, so no limit

	mu      sync.Mutex
	partial []byte // beginning of a character whose rest is not written yet; guarded by mu

	failed atomic.Pointer[error] // the first error of a write; nil if none failed
}

// New returns the screen of an output, and detects the properties of the output. Colors
// are off if NO_COLOR is set or TERM is dumb.
func New(out io.Writer) *Screen {
	s := &Screen{Out: out}
	f, ok := out.(*os.File)
	if !ok {
		return s
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return s
	}
	s.Terminal, s.Columns = true, 80
	s.color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		s.Columns = int(size.Col)
	}
	return s
}

// mustEscape reports whether text is escaped before it is written.
func (s *Screen) mustEscape() bool { return s.Terminal && !s.Raw }

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	if !s.mustEscape() {
		return s.write(p)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.partial, p...)
	s.partial = nil
	if tail := incompleteSize(text); tail > 0 {
		s.partial = bytes.Clone(text[len(text)-tail:])
		text = text[:len(text)-tail]
	}
	if _, err := s.write([]byte(Visible(string(text), "\n\t"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write writes to the output and keeps the first error.
func (s *Screen) write(p []byte) (int, error) {
	n, err := s.Out.Write(p)
	if err != nil {
		first := err
		s.failed.CompareAndSwap(nil, &first)
	}
	return n, err
}

// Err returns the error of the first write that failed, such as that of a full disk, or nil.
func (s *Screen) Err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// incompleteSize returns the size of an incomplete character at the end of p, in bytes.
func incompleteSize(p []byte) int {
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

// WriteJSON writes JSON and ends the line. On a terminal, hidden characters become JSON
// escapes.
func (s *Screen) WriteJSON(raw string) error {
	if s.mustEscape() {
		raw = visibleJSON(raw)
	}
	_, err := s.write([]byte(strings.TrimSuffix(raw, "\n") + "\n"))
	return err
}

// PrintJSON writes a value as indented JSON.
func (s *Screen) PrintJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return s.WriteJSON(b.String())
}

// Span is a text in one of the colors below; an empty color is none.
type Span struct{ Color, Text string }

// Printf writes a constant format with arguments from any source. It escapes hidden
// characters and line breaks in the arguments, but not tabs. Only spans have colors.
func (s *Screen) Printf(format string, args ...any) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case Span:
			args[i] = s.paint(arg.Color, Visible(arg.Text, "\t"))
		case int, int64, uint64:
		default:
			args[i] = Visible(fmt.Sprint(arg), "\t")
		}
	}
	_, _ = s.write(fmt.Appendf(nil, format, args...)) // Err returns the error
}

// Colors, as parameters of an SGR sequence.
const (
	Bold   = "1"
	Dim    = "2"
	Red    = "31"
	green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// paint colors a text if the output shows colors. The text must not contain hidden
// characters.
func (s *Screen) paint(color, text string) string {
	if !s.color || color == "" || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// ColorOf returns the color of a status, or none.
func ColorOf(status string) string {
	word, _, _ := strings.Cut(status, " ")
	switch word {
	case "completed", "ok", "active":
		return green
	case "failed", "error":
		return Red
	case "timed_out", "cancelled", "disabled", "interrupted":
		return Yellow
	case "running", "queued":
		return Cyan
	default:
		return ""
	}
}

// OneLine shortens text to one line of at most n runes.
func OneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Cut escapes hidden characters in a line that starts at a column, and shortens it to
// the width of the terminal.
func Cut(out *Screen, text string, column int) string {
	text = Visible(text, "\t")
	if out.Columns == 0 {
		return text
	}
	text = strings.ReplaceAll(text, "\t", "  ")
	return runewidth.Truncate(text, max(out.Columns-column, leastColumn), "…")
}

// CountNoun returns a count with its noun, such as "1 event".
func CountNoun[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Plural returns a noun in the form for n.
func Plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
