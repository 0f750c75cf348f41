package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"daybook/internal/web"
	"daybook/ledger"
)

// arguments holds the arguments of one call after the check against the tool's
// properties: each has its declared type, and the required ones are present.
type arguments map[string]any // string, int64, bool, []string, map[string]string or map[string]json.RawMessage

func (a arguments) text(name string) string { s, _ := a[name].(string); return s }

func (a arguments) has(name string) bool { _, ok := a[name]; return ok }

// integer returns an argument, or deflt if it is absent.
func (a arguments) integer(name string, deflt int64) int64 {
	if n, ok := a[name].(int64); ok {
		return n
	}
	return deflt
}

// optionalInt returns nil for an absent argument.
func (a arguments) optionalInt(name string) *int {
	n, ok := a[name].(int64)
	if !ok {
		return nil
	}
	i := int(n)
	return &i
}

// textList returns nil for an absent argument.
func (a arguments) textList(name string) []string {
	l, _ := a[name].([]string)
	return l
}

func (a arguments) truth(name string) bool { b, _ := a[name].(bool); return b }

// textMap returns nil for an absent argument, and an empty map for an empty one.
func (a arguments) textMap(name string) map[string]string {
	m, _ := a[name].(map[string]string)
	return m
}

// anyMap returns nil for an absent argument, and an empty map for an empty one.
func (a arguments) anyMap(name string) map[string]json.RawMessage {
	m, _ := a[name].(map[string]json.RawMessage)
	return m
}

// decodeArguments decodes the arguments of a call. A null argument counts as absent. Its
// errors state what to send instead.
func decodeArguments(tool string, ps []property, raw json.RawMessage) (arguments, error) {
	a := arguments{}
	raw = bytes.TrimSpace(raw)
	var given map[string]json.RawMessage
	var twice string
	if len(raw) > 0 && !isNull(raw) {
		if !utf8.Valid(raw) {
			return nil, ledger.Invalid("arguments", "the arguments of %s must be valid UTF-8", tool)
		}
		if raw[0] != '{' {
			return nil, ledger.Invalid("arguments", "the arguments of %s must be an object, not %s", tool, describe(raw))
		}
		var err error
		if given, twice, err = decodeMembers(raw); err != nil {
			return nil, ledger.Invalid("arguments", "the arguments of %s are not well-formed JSON", tool)
		}
	}
	if twice != "" {
		return nil, ledger.Invalid(twice, "the arguments of %s have %s twice; give it once", tool, quote(twice))
	}
	if err := refuseUnknown(tool, ps, given); err != nil {
		return nil, err
	}
	for _, p := range ps {
		v, ok := given[p.name]
		if !ok || isNull(v) {
			if p.required {
				return nil, ledger.Invalid(p.name, "%s needs the argument %s (%s)", tool, p.name, p.kind.article())
			}
			continue
		}
		value, err := p.decode(v)
		if err != nil {
			return nil, err
		}
		a[p.name] = value
	}
	return a, nil
}

// decodeMembers decodes an object. It returns a name that occurs twice, because some
// readers take the first of the values and others the last.
func decodeMembers(raw json.RawMessage) (m map[string]json.RawMessage, twice string, err error) {
	m = map[string]json.RawMessage{}
	err = web.EachMember(raw, func(name string, value []byte) error {
		m[name] = value
		return nil
	})
	if repeated, ok := errors.AsType[*web.RepeatedError](err); ok {
		return m, repeated.Name, nil
	}
	return m, "", err
}

func refuseUnknown(tool string, ps []property, given map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.ContainsFunc(ps, func(p property) bool { return p.name == name }) {
			continue
		}
		if len(ps) == 0 {
			return ledger.Invalid(name, "%s takes no arguments; leave out %s", tool, quote(name))
		}
		var names []string
		for _, p := range ps {
			names = append(names, p.name)
		}
		return ledger.Invalid(name, "%s has no argument %s; it takes %s", tool, quote(name), strings.Join(names, ", "))
	}
	return nil
}

func (p property) decode(raw json.RawMessage) (any, error) {
	wrong := func() error {
		return ledger.Invalid(p.name, "%s must be %s, not %s", p.name, p.kind.article(), describe(raw))
	}
	switch p.kind {
	case integer:
		if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			return nil, wrong()
		}
		n, ok := web.WholeNumber(string(raw))
		if !ok {
			return nil, wrong()
		}
		return n, nil
	case boolean:
		if raw[0] != 't' && raw[0] != 'f' {
			return nil, wrong()
		}
		return raw[0] == 't', nil
	case anyMap:
		if raw[0] != '{' {
			return nil, wrong()
		}
		return p.decodeAny(raw)
	case textMap:
		if raw[0] != '{' {
			return nil, wrong()
		}
		return p.decodeMap(raw)
	case textList:
		if raw[0] != '[' {
			return nil, wrong()
		}
		return p.decodeList(raw)
	default:
		if raw[0] != '"' {
			return nil, wrong()
		}
		s, err := decodeString(p.name, raw)
		if err != nil {
			return nil, err
		}
		if len(p.oneOf) > 0 && !slices.Contains(p.oneOf, s) {
			return nil, ledger.Invalid(p.name, "%s must be one of %s, not %s", p.name, strings.Join(p.oneOf, ", "), quote(s))
		}
		return s, nil
	}
}

func (p property) decodeList(raw json.RawMessage) ([]string, error) {
	list, err := web.Strings(raw)
	item, ok := errors.AsType[*web.ItemError](err)
	switch {
	case ok && item.Value[0] != '"':
		return nil, ledger.Invalid(p.name, "%s: item %d must be a string, not %s", p.name, item.Index+1, describe(item.Value))
	case ok:
		return nil, notText(p.name, item.Err)
	case err != nil:
		return nil, ledger.Invalid(p.name, "%s is not well-formed JSON", p.name)
	}
	return list, nil
}

// decodeAny decodes an object with values of any type. The values are recorded
// unchanged, so every reader must decode them to the same values.
func (p property) decodeAny(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if half := web.LoneSurrogate(raw); half != "" {
		return nil, ledger.Invalid(p.name, "%s contains %s, half of a surrogate pair, which is not a character", p.name, half)
	}
	given, twice, err := decodeMembers(raw)
	if err != nil {
		return nil, ledger.Invalid(p.name, "%s is not well-formed JSON", p.name)
	}
	if twice != "" {
		return nil, ledger.Invalid(p.name, "%s has the key %s twice; give it once", p.name, quote(twice))
	}
	return given, nil
}

func (p property) decodeMap(raw json.RawMessage) (map[string]string, error) {
	given, twice, err := decodeMembers(raw)
	if err != nil {
		return nil, ledger.Invalid(p.name, "%s is not well-formed JSON", p.name)
	}
	if twice != "" {
		return nil, ledger.Invalid(p.name, "%s has the key %s twice; give it once", p.name, quote(twice))
	}
	m := make(map[string]string, len(given))
	for _, k := range slices.Sorted(maps.Keys(given)) {
		v := given[k]
		if v[0] != '"' {
			return nil, ledger.Invalid(p.name, "%s: the value of %s must be a string, not %s", p.name, quote(k), describe(v))
		}
		s, err := decodeString(p.name, v)
		if err != nil {
			return nil, err
		}
		m[k] = s
	}
	if half := web.LoneSurrogate(raw); half != "" { // in a key
		return nil, notText(p.name, &web.SurrogateError{Escape: half})
	}
	return m, nil
}

// decodeString refuses half surrogate pairs, which encoding/json replaces silently: the
// recorded text must equal the text that was sent.
func decodeString(name string, raw json.RawMessage) (string, error) {
	s, err := web.String(raw)
	if err != nil {
		return "", notText(name, err)
	}
	return s, nil
}

// notText returns the error for a string that package web cannot decode.
func notText(name string, err error) error {
	if half, ok := errors.AsType[*web.SurrogateError](err); ok {
		return ledger.Invalid(name, "%s contains %s, half of a surrogate pair, which is not a character; to have it in a script write it as a JavaScript escape", name, half.Escape)
	}
	return ledger.Invalid(name, "%s is not a well-formed JSON string", name)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

// describe describes a JSON value in an error message: by its type if it is an object, a
// list or null, otherwise by its text, shortened.
func describe(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s) // an error leaves it empty
		return "the string " + quote(s)
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 'n':
		return "null"
	case 't', 'f':
		return string(raw)
	default:
		return clip(string(raw))
	}
}

// quote returns a client's text escaped and shortened, for error messages.
func quote(s string) string { return `"` + ledger.Excerpt(s) + `"` }

const clipBytes = 80

func clip(s string) string {
	if len(s) <= clipBytes {
		return s
	}
	n := clipBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
