package ledger

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// excerptBytes bounds an Excerpt, its mark of omission not counted.
const excerptBytes = 80

// Excerpt prepares a client's text to be shown within quotes in a message:
// escaped, so that it stays in its line, and cut where it is long.
func Excerpt(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		_, width := utf8.DecodeRuneInString(s[i:])
		escaped := strconv.Quote(s[i : i+width])
		escaped = escaped[1 : len(escaped)-1]
		if b.Len()+len(escaped) > excerptBytes {
			b.WriteString("...")
			break
		}
		b.WriteString(escaped)
		i += width
	}
	return b.String()
}
