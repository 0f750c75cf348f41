package mcp

import (
	"context"

	"daybook/internal/resources/budget"
)

// escapeCopies is the number of copies of a text's escape sequences in memory while it
// becomes a message: in its JSON, and in the message.
const escapeCopies = 2

// takeEscapes accounts for the bytes that JSON escapes add to a text. A text of control
// characters is six times as long in a message.
func takeEscapes(ctx context.Context, text string) error {
	return budget.TakeOnce(ctx, escapeCopies*addedByEscapes(text)) //nolint:wrapcheck // the message is for the client
}

// addedByEscapes returns by how many bytes the JSON of a text is longer than the text,
// without quotes.
func addedByEscapes(text string) int {
	added := 0
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			added++
		case c < ' ' || c == '<' || c == '>' || c == '&':
			added += 5
		}
	}
	return added
}
