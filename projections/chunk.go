package projections

import (
	"encoding/binary"
	"errors"
	"fmt"

	"daybook/events"
)

// encodedChunk is the stored form of a chunk: its bytes exactly as they are served, and
// the level, time and length of each piece in a few bytes.
type encodedChunk struct {
	text, pieces []byte
	lineEnds     int64
}

// The table stores levels by index; only append to the list.
var levels = [...]events.Level{events.LevelLog, events.LevelDebug, events.LevelInfo, events.LevelWarn, events.LevelError, events.LevelTrace}

const continuedBit = 0x80

func encodeChunk(lines []events.Line) encodedChunk {
	p := encodedChunk{text: []byte{}} // not nil: NULL is not the empty text
	var before int64
	for _, l := range lines {
		p.text = append(p.text, l.Text...)
		flags := levelIndex(l.Level)
		if l.Continued {
			flags |= continuedBit
		} else {
			p.text = append(p.text, '\n')
			p.lineEnds++
		}
		p.pieces = append(p.pieces, flags)
		p.pieces = binary.AppendUvarint(p.pieces, uint64(len(l.Text)))
		p.pieces = binary.AppendVarint(p.pieces, l.TimeMillis-before)
		before = l.TimeMillis
	}
	return p
}

func levelIndex(l events.Level) byte {
	for i, known := range levels {
		if l == known {
			return byte(i)
		}
	}
	return 0
}

var errChunk = errors.New("stored output chunk is malformed; rebuild the projections")

func decodeChunk(text, pieces []byte) ([]events.Line, error) {
	var lines []events.Line
	var at int64
	for len(pieces) > 0 {
		flags := pieces[0]
		size, n := binary.Uvarint(pieces[1:])
		if n <= 0 || size > uint64(len(text)) || int(flags&^continuedBit) >= len(levels) {
			return nil, errChunk
		}
		delta, m := binary.Varint(pieces[1+n:])
		if m <= 0 {
			return nil, errChunk
		}
		pieces = pieces[1+n+m:]
		at += delta
		l := events.Line{Text: string(text[:size]), Level: levels[flags&^continuedBit], TimeMillis: at, Continued: flags&continuedBit != 0}
		text = text[size:]
		if !l.Continued {
			if len(text) == 0 || text[0] != '\n' {
				return nil, errChunk
			}
			text = text[1:]
		}
		lines = append(lines, l)
	}
	if len(text) != 0 {
		return nil, fmt.Errorf("%w: %d bytes are left over", errChunk, len(text))
	}
	return lines, nil
}
