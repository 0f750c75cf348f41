package embed_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shapes compares answers with shapes. A shape is JSON in which a text in angle brackets stands
// for a type, $name for a text that is the same at each use of the name, and a member whose name
// ends in ? may be missing. All other values must be equal, and further members are errors.
type shapes map[string]string // texts of the names

var (
	nameForm = regexp.MustCompile(`\$[a-z]+[A-Z0-9]*`)
	heapForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

var statusNames = []string{"running", "completed", "failed", "timed_out", "cancelled"}

// typeForms are the types in angle brackets, alone or several with "|".
var typeForms = map[string]func(any) bool{
	"null":     func(v any) bool { return v == nil },
	"string":   func(v any) bool { _, ok := v.(string); return ok },
	"boolean":  func(v any) bool { _, ok := v.(bool); return ok },
	"object":   func(v any) bool { _, ok := v.(map[string]any); return ok },
	"list":     func(v any) bool { _, ok := v.([]any); return ok },
	"integer":  func(v any) bool { n, ok := v.(json.Number); return ok && !strings.ContainsAny(string(n), ".eE") },
	"heap":     func(v any) bool { s, _ := v.(string); return heapForm.MatchString(s) },
	"ISO-8601": func(v any) bool { s, _ := v.(string); return timeForm.MatchString(s) },
	"status":   func(v any) bool { s, _ := v.(string); return slices.Contains(statusNames, s) },
}

// expand replaces names by their texts.
func (s shapes) expand(text string) string {
	return nameForm.ReplaceAllStringFunc(text, func(name string) string {
		if v, ok := s[name]; ok {
			return v
		}
		return name
	})
}

// check returns how an answer differs from a shape, and stores the texts of new names.
func (s shapes) check(shape, answer []byte) error {
	want, err := decodeJSON(shape)
	if err != nil {
		return fmt.Errorf("the shape %s: %w", shape, err)
	}
	got, err := decodeJSON(answer)
	if err != nil {
		return fmt.Errorf("not JSON: %q", answer)
	}
	return s.match("", want, got)
}

func decodeJSON(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

func (s shapes) match(at string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", at, got)
		}
		return s.matchObject(at, want, g)
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return fmt.Errorf("%s is %v, want a list of %d", at, got, len(want))
		}
		for i := range want {
			if err := s.match(fmt.Sprintf("%s[%d]", at, i), want[i], g[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		return s.matchText(at, want, got)
	default:
		if want != got {
			return fmt.Errorf("%s is %v, want %v", at, got, want)
		}
		return nil
	}
}

func (s shapes) matchObject(at string, want, got map[string]any) error {
	known := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		key, mayMiss := strings.CutSuffix(name, "?")
		known[key] = true
		v, ok := got[key]
		if !ok && mayMiss {
			continue
		}
		if !ok {
			return fmt.Errorf("%s.%s is missing in %v", at, key, got)
		}
		if err := s.match(at+"."+key, want[name], v); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(got)) {
		if !known[key] {
			return fmt.Errorf("%s has a member %s, which is not documented", at, key)
		}
	}
	return nil
}

func (s shapes) matchText(at, want string, got any) error {
	if inner, ok := strings.CutPrefix(want, "<"); ok && strings.HasSuffix(inner, ">") {
		for name := range strings.SplitSeq(strings.TrimSuffix(inner, ">"), "|") {
			fits, known := typeForms[strings.TrimSpace(name)]
			if !known {
				return fmt.Errorf("%s: the shape has an unknown type %s", at, want)
			}
			if fits(got) {
				return nil
			}
		}
		return fmt.Errorf("%s is %#v, want %s", at, got, want)
	}
	if want != "" && nameForm.FindString(want) == want && s[want] == "" {
		text, _ := got.(string)
		if text == "" || strings.HasPrefix(want, "$heap") && !heapForm.MatchString(text) {
			return fmt.Errorf("%s is %#v, which cannot be %s", at, got, want)
		}
		s[want] = text
		return nil
	}
	if want = s.expand(want); want != got {
		return fmt.Errorf("%s is %#v, want %q", at, got, want)
	}
	return nil
}

// TestShapes tests the comparison that the other tests use.
func TestShapes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shape, answer string
		ok            bool
	}{
		{`{"a":"<integer>"}`, `{"a":5}`, true},
		{`{"a":"<integer>"}`, `{"a":5.5}`, false},
		{`{"a":"<integer>"}`, `{"a":"5"}`, false},
		{`{"a":"<string|null>"}`, `{"a":null}`, true},
		{`{"a":"<string|null>"}`, `{}`, false},
		{`{"a":"<string|null>"}`, `{"a":false}`, false},
		{`{"a?":"<string>"}`, `{}`, true},
		{`{"a?":"<string>"}`, `{"a":1}`, false},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1}`, `{"a":2}`, false},
		{`["x"]`, `["x"]`, true},
		{`["x"]`, `["x","y"]`, false},
		{`["x"]`, `{"x":1}`, false},
		{`["$x1","$x1"]`, `["one","one"]`, true},
		{`["$x1","$x1"]`, `["one","two"]`, false},
		{`["$x1"]`, `[""]`, false},
		{`[""]`, `[""]`, true},
		{`"$heap1"`, `"abc"`, false},
		{`"<ISO-8601>"`, `"2024-11-05T12:00:00.000Z"`, true},
		{`"<ISO-8601>"`, `"2024-11-05 12:00"`, false},
		{`"<status>"`, `"queued"`, false},
		{`"<nonsense>"`, `"queued"`, false},
		{`null`, `null`, true},
		{`null`, `0`, false},
	} {
		if err := (shapes{}).check([]byte(c.shape), []byte(c.answer)); (err == nil) != c.ok {
			t.Errorf("%s as %s: %v", c.answer, c.shape, err)
		}
	}
}
