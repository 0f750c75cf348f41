package toolserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Outcome says how a call ended.
type Outcome string

// How calls end.
const (
	OK        Outcome = "ok"
	Failed    Outcome = "error"     // the server said so, or could not be reached
	TimedOut  Outcome = "timeout"   // no answer in time
	Cancelled Outcome = "cancelled" // by the caller's context
)

// Result is what a call came to.
type Result struct {
	Outcome Outcome
	// Text is a value as JSON when the Outcome is OK, and otherwise a message for
	// people: valid UTF-8 in either case.
	Text []byte
}

// Bounds of what a server may say.
const (
	// maxMessageBytes bounds one message of a server.
	maxMessageBytes = 16 << 20
	// maxKey bounds the name of a member: a script's heap cannot hold longer ones.
	maxKey = 64 << 10
	// maxFailure bounds the message of a call that failed, in bytes.
	maxFailure = 64 << 10
)

var errTooLong = errors.New("the server's answer is longer than 16 MiB")

// value makes of a result what a script gets: the structured content if there is
// any, the text if there is only text, and otherwise { content: [...] }.
func value(r *sdk.CallToolResult, limit int) ([]byte, error) {
	if r.StructuredContent != nil {
		return encode(r.StructuredContent, limit)
	}
	if text, ok := onlyText(r); ok {
		return encode(text, limit)
	}
	content := r.Content
	if content == nil {
		content = []sdk.Content{}
	}
	return encode(map[string]any{"content": content}, limit)
}

func onlyText(r *sdk.CallToolResult) (string, bool) {
	var texts []string
	for _, c := range r.Content {
		t, ok := c.(*sdk.TextContent)
		if !ok {
			return "", false
		}
		texts = append(texts, t.Text)
	}
	return strings.Join(texts, "\n"), len(texts) > 0
}

func encode(v any, limit int) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, errors.New("the server's answer cannot be written as JSON")
	}
	text := bytes.TrimRight(b.Bytes(), "\n")
	if len(text) > limit {
		return nil, fmt.Errorf("the server's answer has %d bytes, at most %d are allowed", len(text), limit)
	}
	return text, checkKeys(text)
}

// checkKeys refuses names of members that a saved heap could not hold.
func checkKeys(text []byte) error {
	if len(text) <= maxKey {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	for {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New("the server's answer is not JSON")
		}
		if s, ok := t.(string); ok && len(s) > maxKey && isKey(text, int(d.InputOffset())) {
			return fmt.Errorf("the server's answer has a name of %d bytes, at most %d are allowed", len(s), maxKey)
		}
	}
}

// isKey tells whether the string that ends at an offset is a member's name.
func isKey(text []byte, end int) bool {
	rest := bytes.TrimLeft(text[end:], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// failure is the message of a result that says it is an error.
func failure(r *sdk.CallToolResult) string {
	if text, ok := onlyText(r); ok && text != "" {
		return text
	}
	b, err := value(r, maxFailure)
	if err != nil {
		return "the tool failed"
	}
	return "the tool failed: " + string(b)
}
