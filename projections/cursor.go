package projections

import (
	"encoding/base64"
	"encoding/binary"
)

// A cursor is the position of the last row of a page, opaque to users.

func formatCursor(seq uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint([]byte{'p'}, seq))
}

func parseCursor(cursor string) (uint64, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil && len(raw) > 1 && raw[0] == 'p' {
		if seq, n := binary.Uvarint(raw[1:]); n == len(raw)-1 && seq < 1<<63 {
			return seq, nil
		}
	}
	return 0, badQuery("cursor %.40q is not one that was given out; leave it out to begin at the newest", cursor)
}
