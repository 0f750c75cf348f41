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

// recordVersion is the first line of every record.
const recordVersion = "daybook-event-v1"

// MaxRecordBytes is the maximum length of a record in bytes. It is the limit of an entry in a C2SP
// entry bundle.
const MaxRecordBytes = 1<<16 - 1

// transportHeaders are the headers that servers add when they deliver, republish or copy a message.
// They are no part of the stored message and are left out of its record.
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
//	daybook-event-v1
//	<position>
//	<subject>
//	<name>: <value>      for each header, by name
//
//	<SHA-256 of the payload in hex>
//
// Each line ends with a newline. Headers that servers add on delivery are left out. AppendRecord
// returns an error for a message that no client could have stored.
func AppendRecord(dst []byte, m Record) ([]byte, error) {
	begin := len(dst)
	dst = append(dst, recordVersion...)
	dst = append(dst, '\n')
	dst = strconv.AppendUint(dst, m.Seq, 10)
	dst = append(dst, '\n')
	if m.Subject == "" || hasSpace(m.Subject) {
		return dst, fmt.Errorf("position %d: %q cannot be a subject", m.Seq, m.Subject)
	}
	dst = append(dst, m.Subject...)
	dst = append(dst, '\n')
	dst, err := appendHeader(dst, m)
	if err != nil {
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

// header is the name of a header and its values.
type header struct {
	name   string
	values []string
}

// storedHeaders appends the stored headers to list, sorted by name. Insertion sort is the fastest
// way: each event has about ten.
func storedHeaders(list []header, m Record) []header {
	for name, values := range m.Header {
		if strings.HasPrefix(name, "Nats-") && transportHeaders[name] {
			continue
		}
		at := len(list)
		list = append(list, header{})
		for ; at > 0 && list[at-1].name > name; at-- {
			list[at] = list[at-1]
		}
		list[at] = header{name, values}
	}
	return list
}

// appendHeader appends a line for each value of each stored header.
func appendHeader(dst []byte, m Record) ([]byte, error) {
	var room [16]header
	for _, h := range storedHeaders(room[:0], m) {
		if h.name == "" || hasSpace(h.name) || strings.IndexByte(h.name, ':') >= 0 {
			return dst, fmt.Errorf("position %d: %q cannot be the name of a header", m.Seq, h.name)
		}
		for _, value := range h.values {
			if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
				return dst, fmt.Errorf("position %d: the header %s holds a line end", m.Seq, h.name)
			}
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
