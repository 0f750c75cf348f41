package web_test

import (
	"encoding/json"
	"testing"

	"daybook/internal/web"
)

// JSONMembers finds the members that the standard decoder finds, at the same offsets.
func FuzzJSONMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":"\"}","b":[{"c":"]"},2],"d":{"e":{}} , "f" : null,"g":-1.5e3 }`, `{"\u0061\\":"\\"}`, `[1]`, `"{"`, `1`, `{"a":true,"a":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		var want map[string]json.RawMessage
		err := json.Unmarshal(data, &want)
		list, isObject := web.JSONMembers(data)
		if isObject != (err == nil && want != nil) {
			t.Fatalf("%q: is an object: %v, %v", data, isObject, err)
		}
		got := map[string]string{}
		for _, m := range list {
			got[m.Name] = string(m.Value)
			if at := string(data[m.Start : m.Start+len(m.Value)]); at != string(m.Value) {
				t.Errorf("%q: %q is said to be at %d, where %q is", data, m.Value, m.Start, at)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: members %v, want %d", data, got, len(want))
		}
		for name, value := range want {
			if got[name] != string(value) {
				t.Errorf("%q: %q is %q, want %q", data, name, got[name], value)
			}
		}
	})
}
