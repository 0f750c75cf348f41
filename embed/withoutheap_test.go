package embed_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/projections"
)

// wasmCode adds two numbers in WebAssembly.
const wasmCode = `const add = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11]))).exports.add;
	artifact("sum", "text/plain", String(add(40, 2))); typeof SharedArrayBuffer + " " + add(40, 2)`

// A run of a stateful server with the heap none has WebAssembly and leaves no heap. Runs
// before and after it keep their heaps, and a replay gives the same again.
func TestRunWithoutHeap(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
	_, heap := completes(t, book, embed.Script{Code: "var kept = 41; typeof WebAssembly"})
	submitted := func(body string) projections.ExecutionDetail {
		t.Helper()
		status, answer := postTo(t, book, "/api/exec", body)
		var e struct {
			ID string `json:"execution_id"`
		}
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != http.StatusAccepted {
			t.Fatalf("%d %s", status, answer)
		}
		d, err := book.Wait(within(t), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	body := func(members map[string]any) string {
		b, _ := json.Marshal(members)
		return string(b)
	}
	e := submitted(body(map[string]any{"code": wasmCode, "heap": "none", "session": "notes"}))
	if e.Status != events.StatusCompleted || deref(e.Result) != "function 42" || e.Heap != nil || e.InputHeap != nil || !e.WithoutHeap || e.Artifacts != 1 {
		t.Errorf("%s %s, %+v", deref(e.Result), deref(e.Error), e)
	}
	if d, ok := history(t, book, e.ExecutionID)[0].Data.(*events.ExecutionRequested); !ok || d.Stateful || d.Heap != "" {
		t.Errorf("the request is recorded as %+v", d)
	}
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical || r.Heap != "" {
		t.Errorf("the replay: %+v", r)
	}
	if d := submitted(body(map[string]any{"code": "typeof add + typeof kept + kept", "heap": heap})); deref(d.Result) != "undefinednumber41" || d.WithoutHeap || d.Heap == nil {
		t.Errorf("a run from a heap: %s %s", deref(d.Result), deref(d.Error))
	}
	if d := submitted(`{"code":"typeof WebAssembly"}`); deref(d.Result) != "undefined" || d.WithoutHeap {
		t.Errorf("a run that leaves a heap: %s", deref(d.Result))
	}
	for _, tt := range []struct{ body, want string }{
		{`{"code":"1","heap":"none","tags":{"a":"b"}}`, "leaves no heap to tag"},
		{`{"code":"1","heap":"none","logical_session":"019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3"}`, "session that keeps state"},
	} {
		if status, answer := postTo(t, book, "/api/exec", tt.body); status != http.StatusBadRequest || !strings.Contains(answer, tt.want) {
			t.Errorf("%s: %d %s", tt.body, status, answer)
		}
	}

	ss, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &sdk.StreamableClientTransport{Endpoint: book.URL() + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	res, err := ss.CallTool(within(t), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": wasmCode, "heap": "none", "wait_secs": 60}})
	if err != nil || res.IsError {
		t.Fatalf("%v, %+v", err, res)
	}
	if text := res.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, `"result":"function 42"`) || !strings.Contains(text, `"heap":null`) {
		t.Errorf("over MCP: %s", text)
	}
	if d := run(t, book, embed.Script{Code: "1", Heap: "none"}); !d.WithoutHeap {
		t.Error("a Go program cannot run without a heap")
	}
}
