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

// segment maps a column of a generated line to a position in the source. All numbers are 0-based,
// and columns count UTF-16 units.
type segment struct {
	generated, line, column int
}

// shift is text that was inserted into a line. before is the size of all text that was inserted
// before it in that line. Both sizes are in UTF-16 units.
type shift struct{ column, size, before int }

// shifts returns the insertions into a source by line. Columns are those of the edited source if
// edited is set, else those of the source.
func shifts(source []byte, inserted []insertion, edited bool) map[int][]shift {
	starts := lineStarts(source)
	byLine := map[int][]shift{}
	line, at, column, before := 0, 0, 0, 0
	for _, n := range inserted {
		for line+1 < len(starts) && starts[line+1] <= n.at {
			line++
			at, column, before = starts[line], 0, 0
		}
		column += columns(string(source[at:n.at]))
		at = n.at
		s := shift{column, columns(n.text), before}
		if edited {
			s.column += before
		}
		before += s.size
		byLine[line] = append(byLine[line], s)
	}
	return byLine
}

// lastAt returns the last shift at or before a column. If there is none, it returns one without
// text.
func lastAt(shifts []shift, column int) shift {
	i := sort.Search(len(shifts), func(i int) bool { return shifts[i].column > column })
	if i == 0 {
		return shift{column: column}
	}
	return shifts[i-1]
}

func decodeMap(encoded []byte) (m sourceMap, lines [][]segment, err error) {
	if err := json.Unmarshal(encoded, &m); err != nil {
		return m, nil, err
	}
	lines, err = decodeMappings(m.Mappings)
	return m, lines, err
}

func encodeMap(m sourceMap, lines [][]segment) ([]byte, error) {
	m.Mappings, m.Names = encodeMappings(lines), []string{}
	return json.Marshal(m)
}

// shiftBack turns a source map of a source with insertions into one of the source without them. The
// inserted text must not contain a line end.
func shiftBack(encoded []byte, source []byte, inserted []insertion) ([]byte, error) {
	m, lines, err := decodeMap(encoded)
	if err != nil {
		return nil, err
	}
	byLine := shifts(source, inserted, true)
	for _, segments := range lines {
		for i := range segments {
			s := &segments[i]
			in := lastAt(byLine[s.line], s.column)
			s.column -= in.before + min(in.size, s.column-in.column)
		}
	}
	return encodeMap(m, lines)
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
