package web

import (
	"bytes"
	"encoding/json"
)

// JSONMember is a member of a JSON object. Value is a slice of the text that has the
// object. Start is the offset of Value in that text, in bytes.
type JSONMember struct {
	Name  string
	Value []byte
	Start int
}

// JSONMembers returns the members of an object, in order. data MUST be well-formed
// JSON; JSONMembers reports false if it is not an object. The values are slices of data
// and not copies: a decoder would hold several copies of each one.
func JSONMembers(data []byte) (list []JSONMember, isObject bool) {
	const space = " \t\r\n"
	rest := bytes.TrimLeft(data, space)
	if len(rest) == 0 || rest[0] != '{' {
		return nil, false
	}
	rest = rest[1:]
	for {
		rest = bytes.TrimLeft(rest, space+",")
		if len(rest) == 0 || rest[0] == '}' {
			return list, true
		}
		var m JSONMember
		end := jsonValueEnd(rest)
		if json.Unmarshal(rest[:end], &m.Name) != nil {
			return list, false
		}
		rest = bytes.TrimLeft(rest[end:], space+":")
		end = jsonValueEnd(rest)
		m.Value, m.Start = rest[:end:end], len(data)-len(rest)
		list = append(list, m)
		rest = rest[end:]
	}
}

// jsonValueEnd returns the length of the value at the start of well-formed JSON.
func jsonValueEnd(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i += stringEnd(data[i+1:])
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(data)
}

// stringEnd returns the length of a JSON string without its opening quote, including
// the closing one.
func stringEnd(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
