package proof

import (
	"crypto/sha256"
	"strconv"
)

// holeVersion is the first line of the record of a position without an event.
const holeVersion = "daybook-hole-v1"

// AppendHole appends the record of a position without an event. The event that opens the next
// volume names such positions. The record is
//
//	daybook-hole-v1
//	<position>
//
// With it, every later event has the leaf of its position.
func AppendHole(dst []byte, position uint64) []byte {
	dst = append(dst, holeVersion...)
	dst = append(dst, '\n')
	dst = strconv.AppendUint(dst, position, 10)
	return append(dst, '\n')
}

// HoleHash returns the leaf hash of a position without an event.
func HoleHash(position uint64) Hash { return sha256.Sum256(AppendHole([]byte{0}, position)) }
