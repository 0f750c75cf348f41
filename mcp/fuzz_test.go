package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
	"daybook/projections"
)

// outputSchemas compiles what every tool says of its answers.
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

// checkAnswer requires a result that keeps the promises of its tool: the text
// and the structured content say the same, and satisfy the schema.
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

// agreeable answers everything.
func agreeable() *fakeBook {
	return &fakeBook{
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

// FuzzArguments sends any JSON as the arguments of any tool. Whatever comes is
// answered: with what the schema promises, or with a sentence.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `5`, `{"code":"1"}`, `{"code":null,"heap":1}`, `{"code":"\ud800\\","tags":{"a":"b","":null}}`,
		`{"execution_id":"x","line_offset":1e3,"byte_offset":-0}`, `{"execution_id":"x","line_limit":99999999999999999999}`,
		`{"heap":"` + strings.Repeat("ab", 32) + `","keys":" a, ,b"}`, `{"tags":{}}`, `{"fields":"index,,code"}`, `{"limit":1.0,"status":"running"}`,
		`{"code":"x","code":5}`, "{\"code\":\"\xff\"}", `{"":{"":{"":[]}}}`,
	} {
		for i := range 12 {
			f.Add(uint8(i), []byte(seed))
		}
	}
	type target struct {
		p       *pipe
		tools   []listed
		schemas map[string]*jsonschema.Schema
	}
	var targets []target
	for _, stateless := range []bool{false, true} {
		opts := mcp.Options{Stateless: stateless}
		_, tools := listTools(f, opts)
		p := openPipe(f, agreeable().serve(f, opts), "fuzz")
		p.initialize()
		targets = append(targets, target{p, tools, outputSchemas(f, tools)})
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		var line bytes.Buffer
		if json.Compact(&line, raw) != nil || bytes.ContainsAny(line.Bytes(), "\n") {
			return // not JSON: TestStdioSurvivesGarbage and FuzzLines
		}
		n := int(which) % 12
		tg := targets[0]
		if n == 11 {
			tg, n = targets[1], 0
		}
		name := tg.tools[n].Name
		p := *tg.p
		p.t = t
		p.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + name + `","arguments":` + line.String() + `}}`)
		m := p.receive()
		if m["error"] != nil {
			// The SDK refuses nesting beyond a thousand levels on its own.
			if bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) < 900 {
				t.Fatalf("%s %s: protocol error %s", name, line.Bytes(), m["error"])
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
			checkAnswer(t, name, tg.schemas[name], r)
		}
	})
}

// FuzzLines sends any bytes over stdio. The connection survives, and answers a
// ping at the end.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{"", "\n", "{}", "[1]\n2", handshake, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":5}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`, "\xff\x00", `{"jsonrpc":"2.0","id":"ping","method":"ping"}`} {
		f.Add([]byte(seed))
	}
	s := new(fakeBook).serve(f, mcp.Options{})
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
