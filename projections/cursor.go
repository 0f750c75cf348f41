package projections

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"
)

// cursor is the position of the last row of a page. Its text is opaque to users;
// a checksum tells theirs from ours, so that a cut or mistyped one is refused
// instead of leading somewhere. It is no secret: a forged one only names
// another place to go on from.
type cursor struct {
	kind cursorKind
	seq  uint64
}

// cursorKind is the list that a cursor belongs to.
type cursorKind byte

const (
	cursorExecutions cursorKind = 'x'
	// cursorEnded goes on in a list of executions with ended ones only.
	cursorEnded cursorKind = 'e'
	cursorHeaps cursorKind = 'h'
	// cursorTagged goes on after a heap, by its hash rather than a position.
	cursorTagged  cursorKind = 't'
	cursorAgents  cursorKind = 'a'
	cursorLogical cursorKind = 'l'
	// cursorSessions continues a list of sessions of every kind.
	cursorSessions cursorKind = 's'
	// cursorTagEdits continues a history of tags, oldest edit first.
	cursorTagEdits cursorKind = 'g'
)

func (c cursor) String() string {
	return sealCursor(binary.AppendUvarint([]byte{byte(c.kind)}, c.seq))
}

func sealCursor(body []byte) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body)))
}

// tagCursor goes on after a heap of well-formed hash.
func tagCursor(heap string) string {
	hash, _ := hex.DecodeString(heap)
	return sealCursor(append([]byte{byte(cursorTagged)}, hash...))
}

// parseTagCursor returns the bytes of the hash.
func parseTagCursor(text string) (hash []byte, err error) {
	body, ok := openCursor(text)
	switch {
	case !ok:
		return nil, badQuery("cursor %.40q is not one that was given out; leave it out to begin at the first heap", text)
	case body[0] != byte(cursorTagged) || len(body) != 1+sha256.Size:
		return nil, badQuery("cursor %.40q belongs to another list; leave it out to begin at the first heap", text)
	}
	return body[1:], nil
}

// parseCursor reads a cursor of one of the kinds, of a list that begins at the newest.
func parseCursor(text string, kinds ...cursorKind) (cursor, error) {
	return parseCursorFrom("the newest", text, kinds...)
}

// parseCursorFrom is parseCursor for a list that begins elsewhere.
func parseCursorFrom(start, text string, kinds ...cursorKind) (cursor, error) {
	c, ok := decodeCursor(text)
	if !ok {
		return cursor{}, badQuery("cursor %.40q is not one that was given out; leave it out to begin at %s", text, start)
	}
	for _, kind := range kinds {
		if c.kind == kind {
			return c, nil
		}
	}
	return cursor{}, badQuery("cursor %.40q belongs to another list; leave it out to begin at %s", text, start)
}

func decodeCursor(text string) (c cursor, ok bool) {
	body, ok := openCursor(text)
	if !ok {
		return c, false
	}
	seq, n := binary.Uvarint(body[1:])
	c = cursor{cursorKind(body[0]), seq}
	if c.kind == cursorTagged {
		return c, true // well-formed, but of another list
	}
	return c, n == len(body)-1 && seq < 1<<63 && c.String() == text
}

// openCursor checks the form and the sum of a cursor. The body has two bytes or
// more.
func openCursor(text string) (body []byte, ok bool) {
	if strings.ContainsAny(text, "\r\n") { // the decoder would skip them
		return nil, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 6 {
		return nil, false
	}
	body, sum := raw[:len(raw)-4], raw[len(raw)-4:]
	return body, binary.BigEndian.Uint32(sum) == crc32.ChecksumIEEE(body)
}
