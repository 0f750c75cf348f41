package web

import (
	"bytes"
	"encoding/json"
)

// JSONMember is a member of a JSON object. Value is a part of the object's text, which
// begins at Start in it.
type JSONMember struct {
	Name  string
	Value []byte
	Start int
}

// JSONMembers returns the members of an object, in order, without copying a value: a
// decoder would hold each several times. data MUST be well-formed JSON. It reports
// false for another value than an object.
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

// jsonValueEnd returns the length of the value that well-formed JSON starts with.
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

// stringEnd returns the length of a JSON string after its first quote, with the last
// one.
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
