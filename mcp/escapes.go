package mcp

import (
	"context"

	"daybook/internal/resources/budget"
)

// escapeCopies is how often the escape sequences of a text are in memory while it
// becomes a message: in its JSON, and in the message.
const escapeCopies = 2

// takeEscapes accounts for what JSON adds to a text. A text of control characters is
// six times as long in a message.
func takeEscapes(ctx context.Context, text string) error {
	return budget.TakeOnce(ctx, escapeCopies*addedByEscapes(text)) //nolint:wrapcheck // it is the answer
}

// addedByEscapes returns how many bytes longer the JSON of a text is, without quotes.
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
