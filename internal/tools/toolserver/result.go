package toolserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Outcome is the way in which a call ended.
type Outcome string

// The outcomes of calls.
const (
	OK        Outcome = "ok"
	Failed    Outcome = "error"     // the server returned an error or could not be reached
	TimedOut  Outcome = "timeout"   // the server did not answer in time
	Cancelled Outcome = "cancelled" // the caller's context was canceled
)

// Result is the result of a call.
type Result struct {
	Outcome Outcome
	// Text is a value as JSON if Outcome is OK, and otherwise a human-readable message.
	// It is valid UTF-8.
	Text []byte

	held Held // nil if no memory is held
}

// Release returns the memory of Text to its budget. It may be called more than once.
func (r Result) Release() {
	if r.held != nil {
		r.held.Release()
	}
}

// Limits of the answers of a server.
const (
	// maxMessageBytes is the maximum length of one message of a server in bytes.
	maxMessageBytes = 16 << 20
	// maxResultBytes is the maximum length of a value in bytes of JSON.
	maxResultBytes = 4 << 20
	// maxKey is the maximum length of a member name in bytes. A script's heap cannot hold
	// longer names.
	maxKey = 64 << 10
	// maxFailure is the maximum length of the message of a failed call in bytes.
	maxFailure = 64 << 10
)

var errTooLong = errors.New("the server's answer is longer than 16 MiB")

// toolResult is the result of a call as the server sent it. It keeps the content as
// text, because decoded content of many small values takes twenty times its length.
type toolResult struct {
	Content    json.RawMessage `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

func decodeResult(raw []byte) (*toolResult, error) {
	var r toolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, errors.New("the server's answer is not the result of a tool")
	}
	return &r, nil
}

// value returns the value of a result for a script: the structured content if there is
// any, the text if there is only text, and otherwise { content: [...] }.
func value(r *toolResult, limit int) ([]byte, error) {
	if len(r.Structured) > 0 && string(r.Structured) != "null" {
		return compact("", r.Structured, "", limit)
	}
	if text, ok := onlyText(r.Content); ok {
		return encode(text, limit)
	}
	content := r.Content
	if len(content) == 0 || string(content) == "null" {
		content = json.RawMessage("[]")
	}
	return compact(`{"content":`, content, "}", limit)
}

// onlyText returns the text of content that consists only of text, and false for any other
// content.
func onlyText(content json.RawMessage) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(content))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return "", false
	}
	var text strings.Builder
	for n := 0; ; n++ {
		if !d.More() {
			return text.String(), n > 0
		}
		var c struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := d.Decode(&c); err != nil || c.Type != "text" {
			return "", false
		}
		if n > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(c.Text)
	}
}

// compact returns JSON without white space, between two texts.
func compact(before string, raw json.RawMessage, after string, limit int) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(before)
	if err := json.Compact(&b, raw); err != nil {
		return nil, errors.New("the server's answer is not JSON")
	}
	b.WriteString(after)
	text := b.Bytes()
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	return limitValue(text, limit)
}

func encode(v any, limit int) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, errors.New("the server's answer cannot be written as JSON")
	}
	return limitValue(bytes.TrimRight(b.Bytes(), "\n"), limit)
}

// limitValue returns a value within the limits for scripts. It copies the value, so that a
// larger buffer is not kept in memory.
func limitValue(text []byte, limit int) ([]byte, error) {
	if len(text) > limit {
		return nil, fmt.Errorf("the server's answer has %d bytes, at most %d are allowed", len(text), limit)
	}
	return bytes.Clone(text), checkKeys(text)
}

// checkKeys refuses member names that a saved heap cannot hold.
func checkKeys(text []byte) error {
	if !hasLongString(text) {
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

// hasLongString reports whether JSON has a string of more than maxKey bytes, counted with
// its escapes. This costs much less than decoding each value.
func hasLongString(text []byte) bool {
	for len(text) > maxKey {
		start := bytes.IndexByte(text, '"')
		if start < 0 {
			return false
		}
		end := start + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end-start-1 > maxKey {
			return true
		}
		text = text[min(end+1, len(text)):]
	}
	return false
}

// isKey reports whether the string that ends at an offset is a member name.
func isKey(text []byte, end int) bool {
	rest := bytes.TrimLeft(text[end:], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// failureMessage returns the message of a result that is an error.
func failureMessage(r *toolResult) string {
	if text, ok := onlyText(r.Content); ok && text != "" {
		return text
	}
	b, err := value(r, maxFailure)
	if err != nil {
		return "the tool failed"
	}
	return "the tool failed: " + string(b)
}
