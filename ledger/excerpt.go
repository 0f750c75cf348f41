package ledger

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// excerptBytes is the maximum length of an Excerpt in bytes, without its ellipsis.
const excerptBytes = 80

// Excerpt returns a client's text for use within quotes in a message: escaped, so that
// it stays on its line, and cut to 80 bytes.
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
