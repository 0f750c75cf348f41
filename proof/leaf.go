package proof

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
)

// Hash is the SHA-256 of a leaf or an inner node of the tree.
type Hash = tlog.Hash

// versionHeader is the header of messages whose record has version 2. Messages without it have
// records of version 1.
const versionHeader = "ce-recordversion"

// firstLines are the first lines of records, by version.
var firstLines = [...]string{1: "daybook-event-v1", 2: "daybook-event-v2"}

// MaxRecordBytes is the maximum length of a record in bytes. It is the limit of an entry in a C2SP
// entry bundle.
const MaxRecordBytes = 1<<16 - 1

// transportHeaders are the headers that servers add when they deliver, republish or copy a message.
// They are no part of the stored message. A record of version 1 covers all other headers.
var transportHeaders = map[string]bool{
	"Nats-Stream":        true,
	"Nats-Subject":       true,
	"Nats-Sequence":      true,
	"Nats-Time-Stamp":    true,
	"Nats-Last-Sequence": true,
	"Nats-Num-Pending":   true,
	"Nats-UpTo-Sequence": true,
	"Nats-Msg-Size":      true,
	"Nats-Stream-Source": true,
}

// Record is a stored message and its position in the ledger.
type Record struct {
	// Seq is the position, from 1.
	Seq     uint64
	Subject string
	Header  map[string][]string
	Body    []byte
}

// AppendRecord appends the record of a stored message to dst. The RFC 6962 leaf hash of the record
// represents the event in the tree. The record is
//
//	daybook-event-v2
//	<position>
//	<subject>
//	<name>: <value>      for each header that the record covers, by name
//
//	<SHA-256 of the payload in hex>
//
// Each line ends with a newline. The record covers the headers whose names begin with "ce-", and
// "content-type". A message without the header "ce-recordversion" has a record of version 1, which
// begins with "daybook-event-v1" and covers all headers but those that servers add on delivery.
//
// AppendRecord returns an error for a message that no client could have stored, for one of a later
// version, and for a malformed one: one of version 2 with a covered header that has several values,
// or with a name that a reader could take for that of a covered header.
func AppendRecord(dst []byte, m Record) ([]byte, error) {
	version, err := recordVersion(m)
	if err != nil {
		return dst, err
	}
	begin := len(dst)
	dst = append(dst, firstLines[version]...)
	dst = append(dst, '\n')
	dst = strconv.AppendUint(dst, m.Seq, 10)
	dst = append(dst, '\n')
	if m.Subject == "" || hasSpace(m.Subject) {
		return dst, fmt.Errorf("position %d: %q cannot be a subject", m.Seq, m.Subject)
	}
	dst = append(dst, m.Subject...)
	dst = append(dst, '\n')
	if dst, err = appendHeader(dst, m, version); err != nil {
		return dst, err
	}
	dst = append(dst, '\n')
	sum := sha256.Sum256(m.Body)
	dst = hex.AppendEncode(dst, sum[:])
	dst = append(dst, '\n')
	if !utf8.Valid(dst[begin:]) {
		return dst, fmt.Errorf("position %d: its subject or headers are not text", m.Seq)
	}
	if len(dst)-begin > MaxRecordBytes {
		return dst, fmt.Errorf("position %d: its subject and headers are longer than %d bytes", m.Seq, MaxRecordBytes)
	}
	return dst, nil
}

// recordVersion returns the version of the record of a message. events.Decode decides by the same
// rules.
func recordVersion(m Record) (int, error) {
	values, ok := m.Header[versionHeader]
	switch {
	case !ok:
		return 1, nil
	case len(values) != 1:
		return 0, fmt.Errorf("position %d: the message is malformed: %s has %d values", m.Seq, versionHeader, len(values))
	case values[0] != "2":
		return 0, fmt.Errorf("position %d: the record has version %.40q; a newer verifier is needed", m.Seq, values[0])
	}
	return 2, nil
}

// header is the name of a header and its values.
type header struct {
	name   string
	values []string
}

// coveredHeaders appends the headers that a record covers to list, sorted by name. Insertion sort
// is the fastest way: each event has about ten.
func coveredHeaders(list []header, m Record, version int) ([]header, error) {
	for name, values := range m.Header {
		covered, err := isCovered(name, values, version)
		if err != nil {
			return list, fmt.Errorf("position %d: %w", m.Seq, err)
		}
		if !covered {
			continue
		}
		at := len(list)
		list = append(list, header{})
		for ; at > 0 && list[at-1].name > name; at-- {
			list[at] = list[at-1]
		}
		list[at] = header{name, values}
	}
	return list, nil
}

// isCovered reports whether a record covers a header, and returns an error for a header that its
// message cannot have.
func isCovered(name string, values []string, version int) (bool, error) {
	covered := !strings.HasPrefix(name, "Nats-") || !transportHeaders[name]
	if version > 1 {
		covered = isAttribute(name)
		if !covered && looksLikeAttribute(name) {
			return false, fmt.Errorf("the message is malformed: %q is not the name of a header of an event, but is similar", name)
		}
		if covered && len(values) != 1 {
			return false, fmt.Errorf("the message is malformed: %s has %d values", name, len(values))
		}
		if covered && trim(values[0]) != values[0] {
			return false, fmt.Errorf("the message is malformed: the value of %s begins or ends with a space or tab", name)
		}
	}
	if covered && (name == "" || hasSpace(name) || strings.IndexByte(name, ':') >= 0) {
		return false, fmt.Errorf("%q cannot be the name of a header", name)
	}
	for _, value := range values {
		if (covered || version > 1) && (strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0) {
			return false, fmt.Errorf("the header %s holds a line end", name)
		}
	}
	return covered, nil
}

// isAttribute reports whether a name is that of a header which records of version 2 cover: "ce-"
// and the name of a CloudEvents attribute, or "content-type".
func isAttribute(name string) bool {
	attribute, ok := strings.CutPrefix(name, "ce-")
	if !ok || attribute == "" {
		return name == "content-type"
	}
	for i := range len(attribute) {
		if c := attribute[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// looksLikeAttribute reports whether a reader that ignores the case of names, or spaces around
// them, could take a name for one that isAttribute accepts.
func looksLikeAttribute(name string) bool {
	name = strings.TrimFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
	return len(name) >= 3 && strings.EqualFold(name[:3], "ce-") || strings.EqualFold(name, "content-type")
}

// appendHeader appends a line for each value of each header that the record covers.
func appendHeader(dst []byte, m Record, version int) ([]byte, error) {
	var room [16]header
	list, err := coveredHeaders(room[:0], m, version)
	if err != nil {
		return dst, err
	}
	for _, h := range list {
		for _, value := range h.values {
			dst = append(dst, h.name...)
			dst = append(dst, ": "...)
			dst = append(dst, trim(value)...)
			dst = append(dst, '\n')
		}
	}
	return dst, nil
}

// hasSpace reports whether a text contains a space, a tab or a line end.
func hasSpace(s string) bool {
	for i := range len(s) {
		switch s[i] {
		case ' ', '\t', '\r', '\n':
			return true
		}
	}
	return false
}

// trim removes spaces and tabs from both ends.
func trim(value string) string {
	if n := len(value); n == 0 || value[0] > ' ' && value[n-1] > ' ' {
		return value // most values have none
	}
	return strings.Trim(value, " \t")
}

// LeafHash returns the leaf hash of a record: SHA-256 over a zero byte and the record.
func LeafHash(m Record) (Hash, error) {
	h, _, err := HashLeaf(make([]byte, 0, 1<<10), m)
	return h, err
}

// HashLeaf is LeafHash with a buffer. It returns the buffer, which may have grown, for the next
// call.
func HashLeaf(buf []byte, m Record) (Hash, []byte, error) {
	buf, err := AppendRecord(append(buf[:0], 0), m)
	if err != nil {
		return Hash{}, buf, err
	}
	return sha256.Sum256(buf), buf, nil
}

// holeVersion is the first line of the record of a position without an event.
const holeVersion = "daybook-hole-v1"

// AppendHole appends the record of a position without an event. The event that opens the next
// volume names such positions. The record is
//
//	daybook-hole-v1
//	<position>
//
// Because of this record, the leaf of every later event is at the position of the event.
func AppendHole(dst []byte, position uint64) []byte {
	dst = append(dst, holeVersion...)
	dst = append(dst, '\n')
	dst = strconv.AppendUint(dst, position, 10)
	return append(dst, '\n')
}

// HoleHash returns the leaf hash of a position without an event.
func HoleHash(position uint64) Hash { return sha256.Sum256(AppendHole([]byte{0}, position)) }
