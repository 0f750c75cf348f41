package proof

import (
	"crypto/sha256"
	"strconv"
)

// holeVersion is the first line of the record of a position that holds nothing.
const holeVersion = "daybook-hole-v1"

// AppendHole appends the record of a position that no event has, where the
// opening of a volume says so:
//
//	daybook-hole-v1
//	<position>
//
// It keeps every later event at the leaf of its position.
func AppendHole(dst []byte, position uint64) []byte {
	dst = append(dst, holeVersion...)
	dst = append(dst, '\n')
	dst = strconv.AppendUint(dst, position, 10)
	return append(dst, '\n')
}

// HoleHash is the hash of the leaf of such a position.
func HoleHash(position uint64) Hash { return sha256.Sum256(AppendHole([]byte{0}, position)) }
