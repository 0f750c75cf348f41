package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"daybook/internal/web"
	"daybook/ledger"
)

// member reads the value of one member of a JSON object. where is its path,
// for messages.
type member func(where string, raw []byte) *failure

// decodeObject reads a JSON object whose members are all known, each given at
// most once under exactly its name. A null member counts as absent. The
// standard decoder would let other spellings, repetitions and broken text
// pass, and the record would then not say what the client meant.
func decodeObject(data []byte, members map[string]member) *failure {
	if web.TooManyValues(data) {
		return fail(http.StatusRequestEntityTooLarge, string(ledger.CodeTooLarge), "", "%s", web.ErrTooManyValues.Message)
	}
	return eachMember("", data, func(name string, raw []byte) *failure {
		read, ok := members[name]
		if !ok {
			return mistyped(name, "unknown field %q; the fields are %s", name, nameList(members))
		}
		if string(raw) == "null" {
			return nil
		}
		return read(name, raw)
	})
}

func eachMember(where string, data []byte, fn func(name string, raw []byte) *failure) *failure {
	if len(data) > largeBody && json.Valid(data) && kindOf(data) == "an object" {
		return eachMemberOf(where, data, fn)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	what := "the body"
	if where != "" {
		what = where
	}
	t, err := dec.Token()
	if err != nil {
		return notJSON(where, what, err)
	}
	if t != json.Delim('{') {
		var whole any
		if err := json.Unmarshal(data, &whole); err != nil {
			return notJSON(where, what, err)
		}
		return mistyped(where, "%s must be a JSON object, not %s", what, kindOf(data))
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return notJSON(where, what, err)
		}
		name, _ := t.(string)
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return notJSON(where, what, err)
		}
		if f := oneMember(where, name, raw, seen, fn); f != nil {
			return f
		}
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(where, what, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid(where, "%s goes on after the end of the JSON object", what)
	}
	return nil
}

func oneMember(where, name string, raw []byte, seen map[string]bool, fn func(name string, raw []byte) *failure) *failure {
	path := name
	if where != "" {
		path = where + "." + name
	}
	if seen[name] {
		return invalid(path, "%q is given twice", path)
	}
	seen[name] = true
	if !utf8.Valid(raw) || strings.ContainsRune(name, utf8.RuneError) {
		return invalid(path, "%s must be valid UTF-8", path)
	}
	return fn(name, raw)
}

// eachMemberOf is eachMember for an object that is known to be well formed. It copies
// no value.
func eachMemberOf(where string, data []byte, fn func(name string, raw []byte) *failure) *failure {
	seen := map[string]bool{}
	list, _ := web.JSONMembers(data)
	for _, m := range list {
		if f := oneMember(where, m.Name, m.Value, seen, fn); f != nil {
			return f
		}
	}
	return nil
}

func notJSON(where, what string, err error) *failure {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return invalid(where, "%s is not complete JSON: it ends too early", what)
	case errors.As(err, &syntax):
		return invalid(where, "%s is not JSON: %v, at byte %d", what, err, syntax.Offset)
	default:
		return invalid(where, "%s is not JSON: %v", what, err)
	}
}

func nameList(members map[string]member) string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kindOf names the JSON type of a value, with its article.
func kindOf(raw []byte) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// text reads a string into s and sets given.
func text(s *string, given *bool) member {
	return func(where string, raw []byte) *failure {
		if raw[0] != '"' {
			return mistyped(where, "%s must be a string, not %s", where, kindOf(raw))
		}
		if loneSurrogate(raw) {
			return invalid(where, `%s holds half of a surrogate pair (\ud800 to \udfff alone), which is not a character`, where)
		}
		if given != nil {
			*given = true
		}
		if len(raw) > largeBody && bytes.IndexByte(raw, '\\') < 0 {
			*s = string(raw[1 : len(raw)-1]) // the decoder would copy it twice
			return nil
		}
		if err := json.Unmarshal(raw, s); err != nil {
			return notJSON(where, where, err)
		}
		return nil
	}
}

// integer reads a whole number: 5.0 is 5.
func integer(n **int) member {
	return func(where string, raw []byte) *failure {
		switch raw[0] {
		case '"', '{', '[', 't', 'f':
			return mistyped(where, "%s must be an integer, not %s", where, kindOf(raw))
		}
		v, whole := web.WholeNumber(string(raw))
		switch {
		case whole && int64(int32(v)) == v:
			*n = new(int(v))
			return nil
		case whole || strings.Trim(string(raw), "-0123456789") == "":
			return invalid(where, "%s is out of range: %s", where, ledger.Excerpt(string(raw)))
		default:
			return mistyped(where, "%s must be an integer, not %s", where, ledger.Excerpt(string(raw)))
		}
	}
}

// boolean reads true or false.
func boolean(to *bool) member {
	return func(where string, raw []byte) *failure {
		switch string(raw) {
		case "true", "false":
			*to = string(raw) == "true"
			return nil
		}
		return mistyped(where, "%s must be true or false, not %s", where, kindOf(raw))
	}
}

// textMap reads an object of strings. An empty one stays different from none.
func textMap(m *map[string]string) member {
	return func(where string, raw []byte) *failure {
		out := map[string]string{}
		f := eachMember(where, raw, func(name string, raw []byte) *failure {
			var s string
			if f := text(&s, nil)(where+"."+name, raw); f != nil {
				return f
			}
			out[name] = s
			return nil
		})
		*m = out
		return f
	}
}

// loneSurrogate reports whether a JSON string has a \u escape of a surrogate
// without its other half. The standard decoder replaces such silently.
func loneSurrogate(raw []byte) bool {
	high := false
	for i := 0; i < len(raw); i++ {
		unit, isEscape := 0, false
		if raw[i] == '\\' && i+1 < len(raw) {
			i++
			if raw[i] == 'u' && i+4 < len(raw) {
				n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 32)
				isEscape = err == nil
				unit = int(n)
				i += 4
			}
		}
		low := isEscape && unit >= 0xdc00 && unit <= 0xdfff
		if high != low {
			return true
		}
		high = isEscape && unit >= 0xd800 && unit <= 0xdbff
	}
	return high
}

// tagList reads tags given as repeated key=value parameters; nil when there
// are none.
func tagList(field string, pairs []string) (map[string]string, *failure) {
	if len(pairs) == 0 {
		return nil, nil
	}
	tags := make(map[string]string, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, invalid(field, `%s must have the form KEY=VALUE, not "%s"`, field, ledger.Excerpt(pair))
		}
		if _, dup := tags[key]; dup {
			return nil, invalid(field, "%s gives the key %q twice", field, key)
		}
		tags[key] = value
	}
	return tags, nil
}

func between[T int | int64](field string, v, low, high T) *failure {
	if v < low || v > high {
		return invalid(field, "%s must be %d to %d, not %d", field, low, high, v)
	}
	return nil
}

func heapKey(field, hash string, valid bool) *failure {
	if valid {
		return nil
	}
	return invalid(field, "%s must be a heap key, 64 lowercase hex characters, not %q", field, fmt.Sprintf("%.80s", hash))
}
