package toolserver

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxStray is the maximum number of lines other than messages that a child may write to
// its standard output during a connection. The protocol forbids such lines, but programs
// print banners.
const maxStray = 64

// maxStrayBytes is the maximum length of an object or list that can count as a stray
// line.
const maxStrayBytes = 64 << 10

// isReadable reports whether the SDK can read an object. The member result is not checked:
// the SDK does not get the result of a call, which may be nested more deeply than the SDK
// can read.
func isReadable(text []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return false
	}
	if _, ok := members["result"]; ok {
		members["result"] = json.RawMessage("{}")
	}
	short, err := json.Marshal(members)
	return err == nil && isMessage(short)
}

// strayLines detects the lines of a child's output that are no message. A message may
// have several lines.
type strayLines struct {
	depth int // open objects and lists in a message
	count int
}

// has reports whether a line is neither a message nor a part of one.
func (s *strayLines) has(line []byte) bool {
	text := bytes.TrimSpace(line)
	if len(text) == 0 {
		return false
	}
	if s.depth > 0 {
		s.depth = max(s.depth+nesting(text), 0)
		return false
	}
	if json.Valid(text) {
		switch text[0] {
		case '[':
			return len(text) <= maxStrayBytes && !isBatch(text)
		case '{': // an object that is no message is a log line, or an answer to no request
			return len(text) <= maxStrayBytes && !isReadable(text)
		default:
			return true
		}
	}
	if !opensMessage(text) {
		return true
	}
	s.depth = max(nesting(text), 0)
	return s.depth == 0
}

// add counts a stray line. It returns an error with the line after more than maxStray
// lines.
func (s *strayLines) add(shown string) error {
	if s.count++; s.count > maxStray {
		return fmt.Errorf("more than %d lines of its standard output are no messages, the last one is %q; have the server print such lines to standard error", maxStray, shown)
	}
	return nil
}

// opensMessage reports whether a line may be the first of several lines of a message,
// which is an object or a list of objects.
func opensMessage(text []byte) bool {
	next := bytes.TrimSpace(text[1:])
	switch text[0] {
	case '{':
		return len(next) == 0 || next[0] == '"'
	case '[':
		return len(next) == 0 || next[0] == '{'
	default:
		return false
	}
}

// nesting returns how many more objects and lists a line of JSON opens than it closes.
func nesting(text []byte) (n int) {
	inText := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			n++
		case c == '}' || c == ']':
			n--
		}
	}
	return n
}
