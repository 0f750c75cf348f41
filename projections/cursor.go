package projections

import (
	"encoding/base64"
	"encoding/binary"
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
)

func (c cursor) String() string {
	raw := binary.AppendUvarint([]byte{byte(c.kind)}, c.seq)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw)))
}

// parseCursor reads a cursor of one of the kinds.
func parseCursor(text string, kinds ...cursorKind) (cursor, error) {
	c, ok := decodeCursor(text)
	if !ok {
		return cursor{}, badQuery("cursor %.40q is not one that was given out; leave it out to begin at the newest", text)
	}
	for _, kind := range kinds {
		if c.kind == kind {
			return c, nil
		}
	}
	return cursor{}, badQuery("cursor %.40q belongs to another list; leave it out to begin at the newest", text)
}

func decodeCursor(text string) (c cursor, ok bool) {
	if strings.ContainsAny(text, "\r\n") { // the decoder would skip them
		return c, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 6 {
		return c, false
	}
	body, sum := raw[:len(raw)-4], raw[len(raw)-4:]
	if binary.BigEndian.Uint32(sum) != crc32.ChecksumIEEE(body) {
		return c, false
	}
	seq, n := binary.Uvarint(body[1:])
	c = cursor{cursorKind(body[0]), seq}
	return c, n == len(body)-1 && seq < 1<<63 && c.String() == text
}
