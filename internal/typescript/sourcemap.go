package typescript

import (
	"encoding/json"
	"errors"
	"sort"
	"strings"
)

var errMappings = errors.New("malformed mappings")

// sourceMap is a source map of version 3 with one source.
type sourceMap struct {
	Version  int      `json:"version"`
	Sources  []string `json:"sources"`
	Mappings string   `json:"mappings"`
	Names    []string `json:"names"`
}

// segment maps a column of a generated line to a place of the source. All are
// 0-based; columns count UTF-16 units.
type segment struct {
	generated, line, column int
}

// shift is text that was put into a line of a source: every column from after it
// on was size less before.
type shift struct{ column, size int }

// shiftBack rewrites a source map of edited, a source with insertions, to one of
// the source without them.
func shiftBack(encoded []byte, edited []byte, inserted []insertion) ([]byte, error) {
	var m sourceMap
	if err := json.Unmarshal(encoded, &m); err != nil {
		return nil, err
	}
	lines, err := decodeMappings(m.Mappings)
	if err != nil {
		return nil, err
	}
	byLine := shifts(edited, inserted)
	for _, segments := range lines {
		for i := range segments {
			s := &segments[i]
			moved := 0
			for _, in := range byLine[s.line] {
				if s.column < in.column {
					break
				}
				moved += min(in.size, s.column-in.column)
			}
			s.column -= moved
		}
	}
	m.Mappings, m.Names = encodeMappings(lines), []string{}
	return json.Marshal(m)
}

// shifts returns the insertions by line of the edited source, columns as there.
func shifts(edited []byte, inserted []insertion) map[int][]shift {
	starts := lineStarts(edited)
	byLine := map[int][]shift{}
	moved := 0
	for _, n := range inserted {
		at := n.at + moved
		moved += len(n.text)
		line := sort.SearchInts(starts, at+1) - 1
		byLine[line] = append(byLine[line], shift{columns(string(edited[starts[line]:at])), len(n.text)})
	}
	return byLine
}

const base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

func decodeMappings(mappings string) ([][]segment, error) {
	var lines [][]segment
	line, column := 0, 0
	for text := range strings.SplitSeq(mappings, ";") {
		var segments []segment
		generated := 0
		for one := range strings.SplitSeq(text, ",") {
			if one == "" {
				continue
			}
			var fields []int
			for len(one) > 0 {
				value, bits := 0, 0
				for more := true; more; bits += 5 {
					if len(one) == 0 || bits > 30 {
						return nil, errMappings
					}
					digit := strings.IndexByte(base64, one[0])
					if digit < 0 {
						return nil, errMappings
					}
					value |= digit & 31 << bits
					more, one = digit&32 != 0, one[1:]
				}
				if value&1 != 0 {
					value = -(value >> 1)
				} else {
					value >>= 1
				}
				fields = append(fields, value)
			}
			if len(fields) == 1 {
				generated += fields[0]
				continue
			}
			if len(fields) < 4 {
				return nil, errMappings
			}
			generated += fields[0]
			line += fields[2]
			column += fields[3]
			segments = append(segments, segment{generated, line, column})
		}
		lines = append(lines, segments)
	}
	return lines, nil
}

func encodeMappings(lines [][]segment) string {
	var b strings.Builder
	put := func(value int) {
		value <<= 1
		if value < 0 {
			value = -value | 1
		}
		for {
			digit := value & 31
			if value >>= 5; value > 0 {
				digit |= 32
			}
			b.WriteByte(base64[digit])
			if value == 0 {
				return
			}
		}
	}
	line, column := 0, 0
	for i, segments := range lines {
		if i > 0 {
			b.WriteByte(';')
		}
		generated := 0
		for j, s := range segments {
			if j > 0 {
				b.WriteByte(',')
			}
			put(s.generated - generated)
			put(0)
			put(s.line - line)
			put(s.column - column)
			generated, line, column = s.generated, s.line, s.column
		}
	}
	return b.String()
}
