package cli

import (
	"fmt"
	"strings"

	"github.com/mattn/go-runewidth"
)

// oneLine shortens text to one line of at most n runes.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// cut escapes hidden characters in a line that starts at a column, and shortens it to
// the width of the terminal.
func cut(out *screen, text string, column int) string {
	text = visible(text, "\t")
	if out.columns == 0 {
		return text
	}
	text = strings.ReplaceAll(text, "\t", "  ")
	return runewidth.Truncate(text, max(out.columns-column, leastColumn), "…")
}

// countNoun returns a count with its noun, such as "1 event".
func countNoun[T ~int | ~int64 | ~uint64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// plural returns a noun in the form for n.
func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}
