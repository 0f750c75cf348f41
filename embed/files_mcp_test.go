package embed_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
)

// answerOfRun is the part of an answer of run_js that the tests of files read.
type answerOfRun struct {
	ID     string `json:"execution_id"`
	Result string
	Error  string
	Tried  *struct {
		ExecutionID string `json:"execution_id"`
		Reused      bool
	} `json:"already_tried"`
}

// runOverMCP calls run_js, and returns its answer, or the text of its refusal.
func runOverMCP(t *testing.T, ss *sdk.ClientSession, arguments map[string]any) (a answerOfRun, refused string) {
	t.Helper()
	res, err := ss.CallTool(within(t), &sdk.CallToolParams{Name: "run_js", Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	if res.IsError {
		return a, res.Content[0].(*sdk.TextContent).Text
	}
	raw, err := json.Marshal(res.StructuredContent)
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return a, ""
}

// A script imports files that an MCP client sends with it. The recorded request has them, and
// neither an idempotency key nor reuse answers a request with other files.
func TestFilesOverMCP(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: stateless}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}})
		ss, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(within(t), &sdk.StreamableClientTransport{Endpoint: book.URL() + "/mcp", HTTPClient: &http.Client{Transport: namedTransport("files")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer ss.Close()
		call := func(source string, more map[string]any) (answerOfRun, string) {
			t.Helper()
			arguments := map[string]any{"code": `import { twice } from "./lib.ts"; twice(21)`, "files": map[string]any{"lib.ts": source, "data.json": "{}"}}
			if !stateless {
				arguments["wait_secs"] = 60
			}
			for name, v := range more {
				arguments[name] = v
			}
			return runOverMCP(t, ss, arguments)
		}
		const twice, thrice = "export const twice = (n: number): number => 2 * n", "export const twice = (n: number): number => 3 * n"
		first, refused := call(twice, nil)
		if first.Result != "42" || refused != "" {
			t.Errorf("stateless %t: %+v, %s", stateless, first, refused)
		}
		for path, want := range map[string]string{"../x.ts": "is not a plain relative path", "x.txt": "is no module"} {
			if _, refused := call(twice, map[string]any{"files": map[string]any{path: ""}}); !strings.Contains(refused, want) {
				t.Errorf("stateless %t: %s: %q", stateless, path, refused)
			}
		}
		if a, _ := call(twice, map[string]any{"files": nil}); !strings.Contains(a.Error, "Cannot find module './lib.ts'") {
			t.Errorf("stateless %t: without files: %+v", stateless, a)
		}
		if stateless {
			continue
		}
		if again, _ := call(twice, map[string]any{"reuse": true}); again.ID != first.ID || again.Tried == nil || !again.Tried.Reused {
			t.Errorf("the same files with reuse: %+v after %s", again, first.ID)
		}
		other, _ := call(thrice, map[string]any{"reuse": true})
		if other.ID == first.ID || other.Result != "63" || other.Tried != nil {
			t.Errorf("other files with reuse: %+v after %s", other, first.ID)
		}
		keyed, _ := call(twice, map[string]any{"idempotency_key": "k"})
		if again, _ := call(twice, map[string]any{"idempotency_key": "k"}); again.ID != keyed.ID || keyed.ID == first.ID {
			t.Errorf("the same files with the same key: %+v after %s", again, keyed.ID)
		}
		if a, refused := call(thrice, map[string]any{"idempotency_key": "k"}); !strings.Contains(refused, "already used for another request") {
			t.Errorf("other files with the same key: %+v, %q", a, refused)
		}
		requests := 0
		for _, e := range allEvents(t, book) {
			d, ok := e.Data.(*events.ExecutionRequested)
			if !ok || d.ExecutionID != first.ID {
				continue
			}
			requests++
			var recorded map[string]string
			files := d.Content.Value().Files
			if files == nil || files.Blob == nil || json.Unmarshal([]byte(files.Blob.Preview), &recorded) != nil || len(recorded) != 2 || recorded["lib.ts"] != twice {
				t.Errorf("the recorded files are %+v", files)
			}
		}
		if requests != 1 {
			t.Errorf("%d requests are recorded", requests)
		}
	}
}
