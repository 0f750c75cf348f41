package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// outputSchemas compiles the output schemas of the tools.
func outputSchemas(t testing.TB, tools []listed) map[string]*jsonschema.Schema {
	t.Helper()
	schemas := map[string]*jsonschema.Schema{}
	for _, tool := range tools {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(tool.OutputSchema))
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("tool.json", doc); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		if schemas[tool.Name], err = c.Compile("tool.json"); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
	}
	return schemas
}

// checkAnswer checks a result against the promises of its tool: the text and the
// structured content are equal and satisfy the schema.
func checkAnswer(t testing.TB, tool string, schema *jsonschema.Schema, r toolResult) {
	t.Helper()
	if len(r.Content) != 1 || r.Content[0].Type != "text" {
		t.Fatalf("%s: want one text, got %+v", tool, r.Content)
	}
	structured, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.StructuredContent))
	if err != nil {
		t.Fatalf("%s: structuredContent %q: %v", tool, r.StructuredContent, err)
	}
	if err := schema.Validate(structured); err != nil {
		t.Errorf("%s: %s breaks its schema: %v", tool, r.StructuredContent, err)
	}
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(r.Content[0].Text))
	if err != nil {
		t.Fatalf("%s: text %q: %v", tool, r.Content[0].Text, err)
	}
	if a, b := mustJSON(t, text), mustJSON(t, structured); a != b {
		t.Errorf("%s: text %s differs from structuredContent %s", tool, a, b)
	}
}

// newPermissiveStack returns a stack on which every call succeeds.
func newPermissiveStack() *fakeStack {
	return &fakeStack{
		submit: func(_ context.Context, s ledger.Submission) (ledger.Receipt, error) {
			return ledger.Receipt{ExecutionID: "one", Seq: 1, Warnings: []string{s.Heap}}, nil
		},
		execution: func(id string) (projections.ExecutionDetail, error) {
			return projections.ExecutionDetail{Execution: projections.Execution{ExecutionID: id, Status: events.StatusCompleted}}, nil
		},
		output: func(id string, q projections.OutputQuery) (projections.OutputPage, error) {
			return projections.OutputPage{ExecutionID: id, Status: events.StatusCompleted, StartLine: q.LineOffset}, nil
		},
		cancel: func(context.Context, string) (uint64, error) { return 2, nil },
	}
}

// FuzzArguments sends any JSON as the arguments of any tool. Each call returns an answer
// that satisfies the schema, or a message.
func FuzzArguments(f *testing.F) {
	seeds := []string{
		`{}`, `null`, `[]`, `5`, `{"code":"1"}`, `{"code":null,"heap":1}`, `{"code":"\ud800\\","tags":{"a":"b","":null}}`,
		`{"execution_id":"x","line_offset":1e3,"byte_offset":-0}`, `{"execution_id":"x","line_limit":99999999999999999999}`,
		`{"heap":"` + strings.Repeat("ab", 32) + `","keys":" a, ,b"}`, `{"tags":{}}`, `{"fields":"index,,code"}`, `{"limit":1.0,"status":"running"}`,
		`{"code":"x","code":5}`, "{\"code\":\"\xff\"}", `{"":{"":{"":[]}}}`,
	}
	type target struct {
		p      *pipe
		tool   string
		schema *jsonschema.Schema
	}
	var targets []target
	for _, stateless := range []bool{false, true} {
		opts := mcp.Options{Stateless: stateless}
		_, tools := listTools(f, opts)
		p := openPipe(f, newPermissiveStack().serve(f, opts), "fuzz")
		p.initialize()
		schemas := outputSchemas(f, tools)
		for _, tool := range tools {
			targets = append(targets, target{p, tool.Name, schemas[tool.Name]})
		}
	}
	for i := range targets {
		for _, seed := range seeds {
			f.Add(uint8(i), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		var line bytes.Buffer
		if json.Compact(&line, raw) != nil || bytes.ContainsAny(line.Bytes(), "\n") {
			return // not JSON: TestStdioSurvivesGarbage and FuzzLines
		}
		tg := targets[int(which)%len(targets)]
		name := tg.tool
		p := *tg.p
		p.t = t
		p.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","arguments":` + line.String() + `}}`)
		m := p.receive()
		if m["error"] != nil {
			if message := rpcErrorOf(t, m["error"]); !strings.Contains(message, "nests deeper") && !strings.Contains(message, "nested far too deep") {
				t.Fatalf("%s %s: protocol error %s", name, line.Bytes(), message)
			}
			return
		}
		var r toolResult
		if err := json.Unmarshal(m["result"], &r); err != nil {
			t.Fatal(err)
		}
		if r.IsError {
			checkSentence(t, name, r)
		} else {
			checkAnswer(t, name, tg.schema, r)
		}
	})
}

// FuzzParams sends any JSON as the params of any method. Each request is answered with a
// result or a message.
func FuzzParams(f *testing.F) {
	methods := slices.Sorted(maps.Keys(methodParams))
	for i, method := range methods {
		for _, seed := range []string{`{}`, `null`, `[1]`, `"\ud800"`, `{"_meta":{"progressToken":[]}}`, `{"name":"run_js","arguments":{"code":5},"task":{}}`,
			`{"uri":"execution://%00/output"}`, `{"taskId":"\u0000","cursor":"x"}`, `{"ref":{"type":"ref/resource","uri":5}}`} {
			f.Add(uint8(i), []byte(seed))
		}
		params := "{"
		for k, v := range methodParams[method] {
			params += fmt.Sprintf("%q:%s,", k, v)
		}
		f.Add(uint8(i), []byte(strings.TrimSuffix(params, ",")+"}"))
	}
	shared := openPipe(f, newPermissiveStack().serve(f, mcp.Options{}), "fuzz")
	shared.initialize()
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		var line bytes.Buffer
		if json.Compact(&line, raw) != nil {
			return // not JSON: FuzzLines
		}
		p := *shared
		p.t = t
		method := methods[int(which)%len(methods)]
		p.send(message(method, line.String()))
		for {
			m := p.receive()
			if m["id"] == nil {
				continue // a notification about a watched run
			}
			checkReply(t, method+" "+line.String(), []byte(encode(t, m)))
			return
		}
	})
}

// FuzzLines sends any bytes over stdio. The connection continues and answers a ping at
// the end.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "{}", "[1]\n2", handshake, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":5}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, "\xff\x00", `{"jsonrpc":"2.0","id":"ping","method":"ping"}`} {
		f.Add([]byte(seed))
	}
	s := new(fakeStack).serve(f, mcp.Options{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var out bytes.Buffer
		in := io.MultiReader(strings.NewReader(handshake), bytes.NewReader(raw), strings.NewReader("\n"+`{"jsonrpc":"2.0","id":"the last","method":"ping"}`))
		if err := s.ServeStdio(t.Context(), in, &out, ""); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		for _, m := range messages(t, out.Bytes()) {
			if string(m["id"]) == `"the last"` && m["result"] != nil {
				return
			}
		}
		t.Fatalf("%q: no answer to the ping in %q", raw, out.Bytes())
	})
}
