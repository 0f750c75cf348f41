package mcp

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestCarryTask(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, message, want string }{
		{"asked", `{"id":1,"method":"tools/call","params":{"name":"run_js","task":{"ttl":5}}}`, `{"id":1,"method":"tools/call","params":{"_meta":{"daybook/task":{"ttl":5}},"name":"run_js"}}`},
		{"with meta", `{"method":"tools/call","params":{"task":{},"_meta":{"progressToken":9007199254740993}}}`, `{"method":"tools/call","params":{"_meta":{"daybook/task":{},"progressToken":9007199254740993}}}`},
		{"not asked", `{"method":"tools/call","params":{"arguments":{"code":"\"task\""}}}`, ""},
		{"null", `{"method":"tools/call","params":{"task":null}}`, ""},
		{"another method", `{"method":"resources/read","params":{"task":{}}}`, ""},
		{"bad meta", `{"method":"tools/call","params":{"task":{},"_meta":7}}`, ""},
		{"a list", `[{"method":"tools/call","params":{"task":{}}}]`, ""},
		{"no JSON", `{"task"`, ""},
	} {
		want := c.want
		if want == "" {
			want = c.message
		}
		if got := string(carryTask([]byte(c.message))); got != want {
			t.Errorf("%s: %s, want %s", c.name, got, want)
		}
	}
}

// FuzzCarryTask checks that a message is unchanged except for the moved member.
func FuzzCarryTask(f *testing.F) {
	f.Add([]byte(`{"id":1,"method":"tools/call","params":{"name":"run_js","task":{"ttl":5},"_meta":{"a":1e400}}}`))
	f.Add([]byte(`{"method":"tools/call","params":{"task":[],"arguments":{"code":"<\ud800>"}}}`))
	f.Add([]byte(`["task"]`))
	f.Fuzz(func(t *testing.T, message []byte) {
		got := carryTask(bytes.Clone(message))
		if bytes.Equal(got, message) {
			return
		}
		var before, after struct {
			ID     json.RawMessage
			Params map[string]json.RawMessage
		}
		if err := json.Unmarshal(message, &before); err != nil {
			t.Skip() // two members whose names differ only in case
		}
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%s became %s: %v", message, got, err)
		}
		var meta map[string]json.RawMessage
		if err := json.Unmarshal(after.Params["_meta"], &meta); err != nil || meta[metaTask] == nil || after.Params["task"] != nil {
			t.Errorf("%s became %s", message, got)
		}
	})
}
