package events

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf8"
)

// unmarshalBody decodes a body into a payload that new returns. Package encoding/json needs a
// quarter of the time of a rebuild. Nearly all bodies have the form that encodeBody writes, which
// the reader of the type can decode; encoding/json decodes, or refuses, all others.
func (k *kind) unmarshalBody(body []byte) (Data, error) {
	d := k.new()
	if read := k.reader(); read != nil {
		p := canonicalParser{rest: body}
		if read(&p, reflect.ValueOf(d).Elem()) && len(p.rest) == 0 {
			return d, nil
		}
		d = k.new()
	}
	return d, json.Unmarshal(body, d)
}

// canonicalParser reads JSON without white space, and only values that encoding/json reads the
// same way. rest is what was not read yet.
type canonicalParser struct{ rest []byte }

// canonicalReader reads a value into a zero variable. It returns false if it cannot; the variable
// may have changed then.
type canonicalReader func(p *canonicalParser, into reflect.Value) bool

// canonicalReaderOf returns the reader of a type, or nil for a type that it does not support.
// within holds the structs that contain the type: a type that contains itself is not supported.
func canonicalReaderOf(t reflect.Type, within ...reflect.Type) canonicalReader {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return readUnmarshaler
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.String:
		return func(p *canonicalParser, into reflect.Value) bool {
			s, ok := p.text()
			into.SetString(s)
			return ok
		}
	case reflect.Bool:
		return func(p *canonicalParser, into reflect.Value) bool {
			isTrue := p.skip("true")
			into.SetBool(isTrue)
			return isTrue || p.skip("false")
		}
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint64:
		return readInteger
	case reflect.Pointer:
		read := canonicalReaderOf(t.Elem(), within...)
		if read == nil {
			return nil
		}
		return func(p *canonicalParser, into reflect.Value) bool {
			if p.skip("null") {
				return true
			}
			into.Set(reflect.New(t.Elem()))
			return read(p, into.Elem())
		}
	case reflect.Slice:
		return sliceReader(t, within)
	case reflect.Map:
		if t != reflect.TypeFor[map[string]string]() {
			return nil
		}
		return readTexts
	case reflect.Struct:
		return structReader(t, within)
	default:
		return nil
	}
}

// readUnmarshaler reads a text that the type decodes itself.
func readUnmarshaler(p *canonicalParser, into reflect.Value) bool {
	before := p.rest
	if _, ok := p.text(); !ok {
		return false
	}
	return into.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(before[:len(before)-len(p.rest)]) == nil
}

// readInteger reads an integer of at most 18 digits, which cannot overflow.
func readInteger(p *canonicalParser, into reflect.Value) bool {
	isNegative := p.skip("-")
	var n int64
	digits := 0
	for digits < len(p.rest) && p.rest[digits] >= '0' && p.rest[digits] <= '9' {
		if digits == 18 {
			return false
		}
		n = n*10 + int64(p.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 1 && p.rest[0] == '0' || digits < len(p.rest) && strings.IndexByte(".eE", p.rest[digits]) >= 0 {
		return false
	}
	p.rest = p.rest[digits:]
	switch {
	case into.CanUint() && !isNegative && !into.OverflowUint(uint64(n)):
		into.SetUint(uint64(n))
	case into.CanInt() && !into.OverflowInt(n):
		if isNegative {
			n = -n
		}
		into.SetInt(n)
	default:
		return false
	}
	return true
}

func sliceReader(t reflect.Type, within []reflect.Type) canonicalReader {
	switch {
	case t.Elem().Kind() == reflect.Uint8 && t.Elem() != reflect.TypeFor[byte]():
		return nil
	case t.Elem() == reflect.TypeFor[byte]():
		return func(p *canonicalParser, into reflect.Value) bool {
			if p.skip("null") {
				return true
			}
			s, ok := p.text()
			if !ok {
				return false
			}
			b, err := base64.StdEncoding.DecodeString(s)
			into.SetBytes(b)
			return err == nil
		}
	}
	read := canonicalReaderOf(t.Elem(), within...)
	if read == nil {
		return nil
	}
	return func(p *canonicalParser, into reflect.Value) bool {
		if p.skip("null") {
			return true
		}
		if !p.skip("[") {
			return false
		}
		into.Set(reflect.MakeSlice(t, 0, 0))
		if p.skip("]") {
			return true
		}
		for n := 1; ; n++ {
			into.Grow(1)
			into.SetLen(n)
			element := into.Index(n - 1)
			element.SetZero()
			if !read(p, element) {
				return false
			}
			if p.skip("]") {
				return true
			}
			if !p.skip(",") {
				return false
			}
		}
	}
}

func readTexts(p *canonicalParser, into reflect.Value) bool {
	if p.skip("null") {
		return true
	}
	if !p.skip("{") {
		return false
	}
	texts := map[string]string{}
	into.Set(reflect.ValueOf(texts))
	if p.skip("}") {
		return true
	}
	for {
		name, ok := p.text()
		if !ok || !p.skip(":") {
			return false
		}
		if texts[name], ok = p.text(); !ok {
			return false
		}
		if p.skip("}") {
			return true
		}
		if !p.skip(",") {
			return false
		}
	}
}

// canonicalMember is a member of an object. read is nil if it is not supported.
type canonicalMember struct {
	name  string
	index []int
	read  canonicalReader
}

// canonicalMembers returns the members of a struct, or false if they cannot be told.
func canonicalMembers(t reflect.Type, within []reflect.Type) (list []canonicalMember, ok bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, isTagged := f.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
			continue
		case f.Anonymous && isTagged, f.Anonymous && f.Type.Kind() != reflect.Struct, options != "" && options != "omitempty" && options != "omitzero":
			return nil, false
		case f.Anonymous:
			inner, ok := canonicalMembers(f.Type, within)
			if !ok {
				return nil, false
			}
			for _, m := range inner {
				m.index = append([]int{i}, m.index...)
				list = append(list, m)
			}
		case f.IsExported():
			if name == "" {
				name = f.Name
			}
			list = append(list, canonicalMember{name, []int{i}, canonicalReaderOf(f.Type, within...)})
		}
	}
	names := map[string]bool{}
	for _, m := range list {
		if names[m.name] {
			return nil, false
		}
		names[m.name] = true
	}
	return list, len(list) <= 64
}

func structReader(t reflect.Type, within []reflect.Type) canonicalReader {
	for _, outer := range within {
		if outer == t {
			return nil
		}
	}
	members, ok := canonicalMembers(t, append(within[:len(within):len(within)], t))
	if !ok {
		return nil
	}
	return func(p *canonicalParser, into reflect.Value) bool {
		if !p.skip("{") {
			return false
		}
		if p.skip("}") {
			return true
		}
		var seen uint64 // a bit for each member
		next := 0       // the members are usually in order
		for {
			name, ok := p.plainText()
			if !ok || !p.skip(":") {
				return false
			}
			found := -1
			for n := range members {
				if i := (next + n) % len(members); members[i].name == string(name) {
					found = i
					break
				}
			}
			if found < 0 || seen&(1<<found) != 0 {
				return false
			}
			seen |= 1 << found
			next = found + 1
			if m := &members[found]; m.read == nil || !m.read(p, into.FieldByIndex(m.index)) {
				return false
			}
			if p.skip("}") {
				return true
			}
			if !p.skip(",") {
				return false
			}
		}
	}
}

// skip reads a text if it follows.
func (p *canonicalParser) skip(text string) bool {
	if len(p.rest) < len(text) || string(p.rest[:len(text)]) != text {
		return false
	}
	p.rest = p.rest[len(text):]
	return true
}

// plainText reads a text in quotes that has no escapes.
func (p *canonicalParser) plainText() ([]byte, bool) {
	if len(p.rest) == 0 || p.rest[0] != '"' {
		return nil, false
	}
	isASCII := true
	for i, c := range p.rest[1:] {
		switch {
		case c == '"':
			text := p.rest[1 : i+1]
			if !isASCII && !utf8.Valid(text) {
				return nil, false
			}
			p.rest = p.rest[i+2:]
			return text, true
		case c == '\\' || c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			isASCII = false
		}
	}
	return nil, false
}

// text reads a text in quotes.
func (p *canonicalParser) text() (string, bool) {
	if b, ok := p.plainText(); ok {
		return string(b), true
	}
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			var s string
			if p.rest[0] != '"' || json.Unmarshal(p.rest[:i+1], &s) != nil {
				return "", false
			}
			p.rest = p.rest[i+1:]
			return s, true
		}
	}
	return "", false
}
