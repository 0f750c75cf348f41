package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"

	"daybook/events"
)

// meter counts and hashes the output of an attempt, whether it is stored or
// not.
type meter struct {
	// lines and bytes count the whole execution's, as its terminal event does.
	lines, bytes int64
	// hash is over this attempt's alone.
	hash hash.Hash
	// open is true when the last line has not ended.
	open      bool
	truncated bool
	buf       []byte
}

// newMeter begins at the number of the next line and the offset of the next
// byte.
func newMeter(firstLine, firstByte int64) *meter {
	return &meter{lines: firstLine - 1, bytes: firstByte, hash: sha256.New()}
}

func (m *meter) add(l events.Line) {
	m.buf = append(m.buf[:0], l.Text...)
	if !l.Continued {
		m.buf = append(m.buf, '\n')
		m.lines++
	}
	m.open = l.Continued
	m.bytes += int64(len(m.buf))
	m.hash.Write(m.buf)
}

func (m *meter) totals() events.OutputTotals {
	return events.OutputTotals{
		Lines: m.lines, Bytes: m.bytes, SHA256: hex.EncodeToString(m.hash.Sum(nil)), Truncated: m.truncated,
	}
}
