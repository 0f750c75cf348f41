package toolserver

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// maxStray is how many lines that are no message a child may write to its standard output
// during a connection. The protocol forbids them, but programs print banners.
const maxStray = 64

// maxStrayBytes is the length of the longest object or list that may be no message.
const maxStrayBytes = 64 << 10

// isReadable reports whether the SDK can read an object. It does not get the result of a
// call, which may be nested more deeply than it reads.
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

// strayLines finds the lines of a child's output that are no message. A message may have
// several lines.
type strayLines struct {
	depth int // of what is open in a message of several lines
	count int
}

// has reports whether a line is no message and no part of one.
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
		case '{': // else a line of a log, or an answer to no request
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

// add counts a stray line. It returns an error that names the line beyond maxStray.
func (s *strayLines) add(shown string) error {
	if s.count++; s.count > maxStray {
		return fmt.Errorf("more than %d lines of its standard output are no messages, the last one is %q; have the server print such lines to standard error", maxStray, shown)
	}
	return nil
}

// opensMessage reports whether a line may be the first one of several of a message: of an
// object, or of a list of objects.
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

// nesting is how many more objects and lists a line of JSON opens than it closes.
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
