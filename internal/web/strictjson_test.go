package web_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"daybook/internal/web"
)

// EachMember finds the members that the standard decoder finds, each name once, in
// objects of any length.
func FuzzEachMember(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"b":{"a":2}}`, `{"a":1,"a":2}`, `{"\u0061":1,"a":2}`, `{"a":1}x`, `{"a":1} `, `{"a":1`, `{"a"`, `{"a":}`, `[1]`, `[1`, `"x"`, ``, `{"":null}`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(data []byte) (map[string]string, error) {
			got := map[string]string{}
			return got, web.EachMember(data, func(name string, value []byte) error {
				if _, known := got[name]; known {
					t.Errorf("%q: fn is called with %q twice", data, name)
				}
				got[name] = string(value)
				return nil
			})
		}
		got, err := read(data)
		var want map[string]json.RawMessage
		standard := json.Unmarshal(data, &want)
		repeated, isRepeated := errors.AsType[*web.RepeatedError](err)
		switch {
		case isRepeated:
			if _, known := got[repeated.Name]; !known {
				t.Errorf("%q: %v, and it is given once", data, err)
			}
			return
		case (err == nil) != (standard == nil && want != nil):
			t.Fatalf("%q: %v, and the standard decoder reads %v, %v", data, err, want, standard)
		case err == nil && len(got) != len(want):
			t.Fatalf("%q: %v, want %v", data, got, want)
		}
		for name, value := range want {
			if err == nil && got[name] != string(value) {
				t.Errorf("%q: %s is %s, want %s", data, name, got[name], value)
			}
		}
		if !json.Valid(data) {
			return
		}
		long, errLong := read(append(data[:len(data):len(data)], strings.Repeat(" ", 1<<20)...))
		if !cmp.Equal(got, long) || (err == nil) != (errLong == nil) {
			t.Errorf("%q: %v, %v; with space after it %v, %v", data, got, err, long, errLong)
		}
	})
}

// Strings decodes a list as the standard decoder does, or refuses the first bad item.
func TestStrings(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][]string{`[]`: {}, `["a","\ud83d\ude00",""]`: {"a", "\U0001f600", ""}} {
		if got, err := web.Strings([]byte(raw)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
	for raw, index := range map[string]int{`["a",1]`: 1, `[null]`: 0, `["a","b","\ud83d"]`: 2} {
		_, err := web.Strings([]byte(raw))
		item, ok := errors.AsType[*web.ItemError](err)
		if _, half := errors.AsType[*web.SurrogateError](err); !ok || item.Index != index || half != strings.Contains(raw, "ud83d") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := web.Strings([]byte(`{}`)); err == nil {
		t.Error("an object is a list")
	}
}

// A surrogate is alone exactly if decoding gives a replacement character that was not
// in the text.
func FuzzLoneSurrogate(f *testing.F) {
	for _, seed := range []string{`"\ud800"`, `"\ud83d\ude00"`, `"\\ud800"`, `"\ud83d\\ude00"`, `"\ud83d\n\ude00"`, `"\ud83d\ud83d\ude00"`, `"\ufffd"`, `"\udc00"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s string
		if !utf8.Valid(raw) || json.Unmarshal(raw, &s) != nil {
			return
		}
		lower := strings.ToLower(string(raw))
		if strings.ContainsRune(lower, utf8.RuneError) || strings.Contains(lower, `\ufffd`) {
			return // the result does not show the difference
		}
		if got, want := web.LoneSurrogate(raw) != "", strings.ContainsRune(s, utf8.RuneError); got != want {
			t.Errorf("%q: %v, want %v", raw, got, want)
		}
	})
}

func TestTooManyValues(t *testing.T) {
	t.Parallel()
	const n = web.MaxJSONValues
	for name, c := range map[string]struct {
		text string
		want bool
	}{
		"nothing":           {"", false},
		"a list":            {"[" + strings.Repeat("1,", n-2) + "1]", false},
		"a longer list":     {"[" + strings.Repeat("1,", n) + "1]", true},
		"members":           {"{" + strings.Repeat(`"a":1,`, n) + `"b":1}`, true},
		"empty objects":     {"[" + strings.Repeat("{}", n) + "]", true},
		"commas in a text":  {`{"code":"` + strings.Repeat(`a,\"[{`, n) + `"}`, false},
		"commas behind one": {`["\\",` + strings.Repeat("1,", n) + "1]", true},
		"an open text":      {`["` + strings.Repeat(",", 2*n) + `\`, false},
	} {
		if got := web.TooManyValues([]byte(c.text)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestWholeNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"5": 5, "5.0": 5, "5e0": 5, "-0.5e1": -5, "9007199254740992": 1 << 53, "1e3": 1000, "0.0": 0, "-0": 0, "500e-2": 5, "0.005e3": 5, "0e-9": 0, "-9007199254740992": -(1 << 53)} {
		if got, ok := web.WholeNumber(text); !ok || got != want {
			t.Errorf("%s is %d, %t, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"5.5", "1e-1", "9007199254740993", "1e300", "99999999999999999999", "", "x", "1e-400", "5.0000000000000000000001", "5.000e-4", "1e9999999999999999999", "-", ".5"} {
		if got, ok := web.WholeNumber(text); ok {
			t.Errorf("%q is parsed as %d", text, got)
		}
	}
}
