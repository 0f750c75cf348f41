package mcp_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"daybook/mcp"
)

// schema is the part of an advertised input schema that the tests read.
type schema struct {
	Properties           map[string]schemaProperty
	Required             []string
	AdditionalProperties *bool
}

type schemaProperty struct {
	Type    string
	Enum    []string
	Minimum *int64
	Maximum *int64
	// AdditionalProperties is absent for an object that accepts values of any type.
	AdditionalProperties json.RawMessage
}

// kind returns the type, and for objects whether their values may have any type.
func (p schemaProperty) kind() string {
	if p.Type == "object" && p.AdditionalProperties == nil {
		return "any object"
	}
	return p.Type
}

// sample returns a value that a property accepts.
func (p schemaProperty) sample() any {
	switch {
	case len(p.Enum) > 0:
		return p.Enum[0]
	case p.Type == "integer" && p.Minimum != nil:
		return *p.Minimum
	case p.Type == "integer":
		return 16
	case p.Type == "array":
		return []string{"builtin.console"}
	case p.Type == "object":
		return map[string]string{"k": "v"}
	default:
		return strings.Repeat("a", 64)
	}
}

func (s schema) minimal() map[string]any {
	a := map[string]any{}
	for _, name := range s.Required {
		a[name] = s.Properties[name].sample()
	}
	return a
}

// goDetail matches internal details that clients must not see: types, packages and stack
// traces of Go.
var goDetail = regexp.MustCompile(`(?i)json: |cannot unmarshal|\bgo (value|struct)|goroutine|\.go:\d|panic|nil pointer|\bint64\b|map\[|<nil>|%!|context deadline`)

// quoted matches the parts of a message that repeat the request.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"|'[^']*'`)

// checkSentence checks that a result is an error with a message that a model can act on.
func checkSentence(t testing.TB, what string, r toolResult) {
	t.Helper()
	switch {
	case !r.IsError:
		t.Errorf("%s: accepted: %v", what, r.Content)
	case len(r.Content) != 1 || r.Content[0].Type != "text":
		t.Errorf("%s: want one text, got %v", what, r.Content)
	default:
		checkMessage(t, what, r.Content[0].Text)
	}
}

// TestBadArguments sends every tool of both modes each kind of wrong argument. The cases
// come from the advertised schemas, so a new argument needs no new case.
func TestBadArguments(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("9", 400)
	wrong := map[string][]string{ // by declared type
		"string":     {`5`, `true`, `{}`, `["a"]`, huge, `"\ud800"`, `"a\udfffb"`},
		"integer":    {`"5"`, `1.5`, `true`, `{}`, `[1]`, `""`, huge, `-` + huge, `1e400`, `9007199254740993`},
		"array":      {`"a"`, `5`, `{}`, `true`, `[5]`, `[null]`, `[["a"]]`, `["\ud800"]`, `[]`, `[""]`, `["no such thing"]`},
		"object":     {`"a=b"`, `5`, `["a"]`, `{"k":1}`, `{"k":null}`, `{"k":{"a":"b"}}`, `{"k":"\udc00"}`, `{"\ud800":"v"}`, `false`},
		"boolean":    {`"true"`, `1`, `[]`, `{}`},
		"any object": {`"a=b"`, `5`, `["a"]`, `false`, `{"k":"\udc00"}`, `{"k":{"\ud800":1}}`, `{"k":1,"k":2}`},
	}
	for mode, stateless := range map[string]bool{"stateful": false, "stateless": true} {
		_, tools := listTools(t, mcp.Options{Stateless: stateless})
		if want := map[bool]int{false: 18, true: 1}[stateless]; len(tools) != want {
			t.Fatalf("%s: %d tools, want %d", mode, len(tools), want)
		}
		for _, tool := range tools {
			t.Run(mode+"/"+tool.Name, func(t *testing.T) {
				t.Parallel()
				var in schema
				if err := json.Unmarshal(tool.InputSchema, &in); err != nil {
					t.Fatal(err)
				}
				if in.AdditionalProperties == nil || *in.AdditionalProperties {
					t.Error("the schema must forbid other arguments")
				}
				p := openPipe(t, new(fakeStack).serve(t, mcp.Options{Stateless: stateless}), "")
				p.initialize()
				refused := func(what string, args any, mention string) {
					t.Helper()
					raw, ok := args.(string)
					if !ok {
						b, err := json.Marshal(args)
						if err != nil {
							t.Fatal(err)
						}
						raw = string(b)
					}
					r := p.tool(tool.Name, raw)
					checkSentence(t, what, r)
					if len(r.Content) == 1 && !strings.Contains(r.Content[0].Text, mention) {
						t.Errorf("%s: does not mention %q: %s", what, mention, r.Content[0].Text)
					}
				}

				for _, name := range in.Required {
					args := in.minimal()
					delete(args, name)
					refused("without "+name, args, name)
					args[name] = nil
					refused("null "+name, args, name)
				}
				extra := in.minimal()
				extra["no_such_argument"] = 1
				refused("an extra argument", extra, "no_such_argument")
				extra = in.minimal()
				extra[strings.Repeat("x", 1<<16)] = nil
				refused("an extra argument of 64 KiB", extra, "xxx")
				refused("arguments that are a list", `[1,2]`, "must be an object")
				refused("arguments that are a text", `"code"`, "must be an object")
				for _, name := range slices.Sorted(maps.Keys(in.Properties)) {
					prop := in.Properties[name]
					for _, v := range wrong[prop.kind()] {
						refused(fmt.Sprintf("%s: %.20s", name, v), withArgument(t, in.minimal(), name, v), name)
					}
					if len(prop.Enum) > 0 {
						refused(name+" not in its list", withArgument(t, in.minimal(), name, `"nonsense"`), prop.Enum[0])
					}
				}
				if err := p.close(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// withArgument returns arguments with one more, given as JSON.
func withArgument(t testing.TB, args map[string]any, name, value string) string {
	t.Helper()
	args[name] = json.RawMessage(`"PLACE"`)
	b, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(b), `"PLACE"`, value, 1) // Go's encoder may not accept it as JSON
}

// TestNullIsAbsent sends every optional argument as null.
func TestNullIsAbsent(t *testing.T) {
	t.Parallel()
	_, tools := listTools(t, mcp.Options{})
	p := openPipe(t, new(fakeStack).serve(t, mcp.Options{}), "")
	p.initialize()
	for _, tool := range tools {
		var in schema
		if err := json.Unmarshal(tool.InputSchema, &in); err != nil {
			t.Fatal(err)
		}
		args := in.minimal()
		plain, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		for name := range in.Properties {
			if !slices.Contains(in.Required, name) {
				args[name] = nil
			}
		}
		nulls, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		want, got := p.tool(tool.Name, string(plain)), p.tool(tool.Name, string(nulls))
		if fmt.Sprint(want) != fmt.Sprint(got) {
			t.Errorf("%s: with nulls %v, without %v", tool.Name, got, want)
		}
		if strings.Contains(fmt.Sprint(got), "must be") {
			t.Errorf("%s: null counts as a value: %v", tool.Name, got)
		}
	}
}

// TestOutOfRange checks values of the right type that are out of range.
func TestOutOfRange(t *testing.T) {
	t.Parallel()
	p := openPipe(t, new(fakeStack).serve(t, mcp.Options{}), "")
	p.initialize()
	for _, c := range []struct{ tool, args, say string }{
		{"get_execution_output", `{"execution_id":"x","line_offset":0}`, "line_offset must be 1 or more, not 0"},
		{"get_execution_output", `{"execution_id":"x","line_limit":0}`, "line_limit must be 1 or more"},
		{"get_execution_output", `{"execution_id":"x","byte_offset":-1}`, "byte_offset must be 0 or more, not -1"},
		{"get_execution_output", `{"execution_id":"x","byte_offset":0,"byte_limit":0}`, "byte_limit must be 1 or more"},
		{"get_execution_output", `{"execution_id":"x","byte_offset":0,"line_offset":0,"line_limit":-5}`, "not found"}, // ignored in byte mode
		{"get_execution_output", `{"execution_id":"x","line_offset":2.0,"line_limit":1e2}`, "not found"},              // whole numbers in any notation
		{"get_execution", `{"execution_id":"*.>"}`, "list_executions"},
		{"list_executions", `{"limit":0}`, "limit must be 1 to 1000"},
		{"list_executions", `{"limit":1001}`, "limit must be 1 to 1000"},
		{"list_session_snapshots", `{"fields":"index,nonsense"}`, `no field "nonsense"`},
		{"list_session_snapshots", `{"fields":""}`, `no field ""`},
		{"get_heap_tags", `{"heap":"abc"}`, "64 lowercase hex"},
		{"get_heap_tags", `{"heap":""}`, "64 lowercase hex"},
		{"run_js", `{"code":"1","heap":""}`, "heap must not be empty"},
		{"run_js", `{"code":"1","idempotency_key":""}`, "idempotency_key must not be empty"},
	} {
		r := p.tool(c.tool, c.args)
		checkSentence(t, c.tool+" "+c.args, r)
		if len(r.Content) == 1 && !strings.Contains(r.Content[0].Text, c.say) {
			t.Errorf("%s %s: want %q, got %q", c.tool, c.args, c.say, r.Content[0].Text)
		}
	}
}
