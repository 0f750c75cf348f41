package projections

import (
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"math"
	"strings"
)

// cursor is the position of the last row of a page. Its text is opaque to clients. A
// checksum detects text that this package did not issue or that was cut or mistyped,
// which would otherwise continue at a wrong row. It is no secret: a forged cursor only
// names another row.
type cursor struct {
	kind cursorKind
	seq  uint64
}

// cursorKind is the list that a cursor belongs to.
type cursorKind byte

const (
	cursorExecutions cursorKind = 'x'
	// cursorEnded continues a list of executions with ended ones only.
	cursorEnded cursorKind = 'e'
	cursorHeaps cursorKind = 'h'
	// cursorTagged continues after a heap, by its hash instead of a position.
	cursorTagged  cursorKind = 't'
	cursorAgents  cursorKind = 'a'
	cursorLogical cursorKind = 'l'
	// cursorSessions continues a list of sessions of every kind.
	cursorSessions cursorKind = 's'
	// cursorShared continues it after a named session whose position of the last use a session of
	// another kind shares: the next page begins with that one.
	cursorShared cursorKind = 'b'
	// cursorNames continues a list of names, after a name instead of a position.
	cursorNames cursorKind = 'n'
	// cursorTagEdits continues a history of tags, oldest edit first.
	cursorTagEdits cursorKind = 'g'
)

func (c cursor) String() string {
	return encodeCursor(binary.AppendUvarint([]byte{byte(c.kind)}, c.seq))
}

func encodeCursor(body []byte) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body)))
}

// tagCursor returns the cursor after a heap. heap MUST be a well-formed hash.
func tagCursor(heap string) string {
	hash, _ := hex.DecodeString(heap)
	return encodeCursor(append([]byte{byte(cursorTagged)}, hash...))
}

// parseTagCursor returns the bytes of the hash.
func parseTagCursor(text string) (hash []byte, err error) {
	body, ok := decodeCursorBody(text)
	switch {
	case !ok:
		return nil, badQuery("cursor %.40q is not one that was given out; leave it out to begin at the first heap", text)
	case body[0] != byte(cursorTagged) || len(body) != 1+sha256.Size:
		return nil, badQuery("cursor %.40q belongs to another list; leave it out to begin at the first heap", text)
	}
	return body[1:], nil
}

// nameCursor returns the cursor after a name, which is not empty.
func nameCursor(name string) string { return encodeCursor(append([]byte{byte(cursorNames)}, name...)) }

// parseNameCursor returns the name of a cursor, or an empty name without a cursor.
func parseNameCursor(text string) (name string, err error) {
	if text == "" {
		return "", nil
	}
	body, ok := decodeCursorBody(text)
	switch {
	case !ok:
		return "", badQuery("cursor %.40q is not one that was given out; leave it out to begin at the first name", text)
	case body[0] != byte(cursorNames):
		return "", badQuery("cursor %.40q belongs to another list; leave it out to begin at the first name", text)
	}
	return string(body[1:]), nil
}

// parseCursor parses a cursor of one of the kinds, for a list that starts at the newest
// row.
func parseCursor(text string, kinds ...cursorKind) (cursor, error) {
	return parseCursorFrom("the newest", text, kinds...)
}

// parseCursorFrom is parseCursor for a list that starts elsewhere, which errors call
// start.
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
	body, ok := decodeCursorBody(text)
	if !ok {
		return c, false
	}
	seq, n := binary.Uvarint(body[1:])
	c = cursor{cursorKind(body[0]), seq}
	if c.kind == cursorTagged || c.kind == cursorNames {
		return c, true // well-formed, but for another list
	}
	return c, n == len(body)-1 && seq < 1<<63 && c.String() == text
}

// decodeCursorBody checks the form and the checksum of a cursor. The body has at least
// two bytes.
func decodeCursorBody(text string) (body []byte, ok bool) {
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

// parseStart returns the position before which a page of a list from the newest row
// starts: that of its cursor, or math.MaxInt64 without a cursor.
func parseStart(text string, kind cursorKind) (before uint64, err error) {
	if text == "" {
		return math.MaxInt64, nil
	}
	c, err := parseCursor(text, kind)
	return c.seq, err
}

// parseSessionStart is parseStart for a list of sessions of every kind: it returns the positions
// before which named sessions and others start.
func parseSessionStart(text string) (named, others uint64, err error) {
	if text == "" {
		return math.MaxInt64, math.MaxInt64, nil
	}
	c, err := parseCursor(text, cursorSessions, cursorShared)
	if err == nil && c.kind == cursorShared {
		return c.seq, min(c.seq+1, math.MaxInt64), nil
	}
	return c.seq, c.seq, err
}

// readPage reads the rows of a page and closes rows. A row beyond limit means that there is
// a next page; next is then its cursor.
func readPage[T any](rows *sql.Rows, limit int, kind cursorKind, scan func(row func(...any) error) (one T, seq uint64, err error)) (list []T, next string, err error) {
	defer rows.Close()
	list = []T{}
	var last uint64
	for rows.Next() {
		if len(list) == limit {
			return list, cursor{kind, last}.String(), nil
		}
		one, seq, err := scan(rows.Scan)
		if err != nil {
			return nil, "", err
		}
		list, last = append(list, one), seq
	}
	return list, "", rows.Err()
}
