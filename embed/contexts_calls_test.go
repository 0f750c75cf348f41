package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
)

// counter starts an MCP server whose only tool returns another number at each call.
func counter(t *testing.T) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	s := sdk.NewServer(&sdk.Implementation{Name: "counter", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "next"}, func(context.Context, *sdk.CallToolRequest, map[string]any) (*sdk.CallToolResult, any, error) {
		return nil, map[string]any{"n": asked.Add(1)}, nil
	})
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL, asked
}

// The context lists a run that called a server with its calls. With reuse such a run is run
// again, because its result depended on more than its request. Both hold after a restart. The
// context does not contain values that only the configuration of the server marks as secret.
func TestReuseAsksServersAgain(t *testing.T) {
	t.Parallel()
	url, asked := counter(t)
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"mcpServers": {"counter": {"url": %q}}}`, url), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := embed.ReadMCPServers(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	opts := embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Tools: embed.ToolOptions{Servers: servers}, Contexts: embed.ContextOptions{SecretKeys: []string{"pin"}}}
	book := start(t, opts)
	p := &person{t: t, way: way{"stdio", "2025-11-25", true}, word: "counting"}
	p.connect(book)
	const asking = `(await mcp.counter.next({ of: "Oslo", password: "s3cret", userPin: "4711" })).n`
	for n, want := range []struct{ code, result string }{{asking, "1"}, {asking, "2"}, {"6 * 7", "42"}, {"6 * 7", "42"}} {
		text, bad := p.call("run_js", map[string]any{"code": want.code, "reuse": true})
		var told struct {
			StructuredContent struct {
				ExecutionID  string `json:"execution_id"`
				AlreadyTried *struct {
					Reused bool
					Result string
				} `json:"already_tried"`
			}
		}
		if err := json.Unmarshal([]byte(text), &told); err != nil || bad {
			t.Fatalf("%s: %v", text, err)
		}
		got := told.StructuredContent
		var ended struct{ Result *string }
		_, body := get(t, book.URL()+"/api/executions/"+got.ExecutionID+"?wait=60")
		if err := json.Unmarshal([]byte(body), &ended); err != nil || ended.Result == nil || *ended.Result != want.result {
			t.Fatalf("run %d: %v in %s", n, err, body)
		}
		switch {
		case n%2 == 0 && got.AlreadyTried != nil:
			t.Errorf("run %d has no prior run: %s", n, text)
		case n == 1 && (got.AlreadyTried == nil || got.AlreadyTried.Reused || got.AlreadyTried.Result != "1"):
			t.Errorf("run %d must list the prior run and be run: %s", n, text)
		case n == 3 && (got.AlreadyTried == nil || !got.AlreadyTried.Reused):
			t.Errorf("run %d called no server and must be reused: %s", n, text)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the server was asked %d times", n)
	}
	check := func() string {
		t.Helper()
		all, _ := p.context()
		for _, want := range []string{`"tool":"mcp.counter.next"`, `"of":"Oslo"`, `"password":"[redacted]"`, `"userPin":"[redacted]"`, `ok: {\"n\":1}`, `ok: {\"n\":2}`} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in %s", want, all)
			}
		}
		for _, secret := range []string{"s3cret", "4711"} {
			for _, call := range toolCalls(t, all) {
				if strings.HasPrefix(call.Tool, "mcp.") && strings.Contains(string(call.Args), secret) {
					t.Errorf("the context contains a secret: %s", call.Args)
				}
			}
		}
		return all
	}
	before := check()
	closeBook(t, book)
	book = start(t, opts)
	p.connect(book)
	if after := check(); after != before {
		t.Errorf("before the restart\n%s\nafter\n%s", before, after)
	}
}

type toldCall struct {
	Tool string
	Args json.RawMessage
}

func toolCalls(t *testing.T, context string) []toldCall {
	t.Helper()
	var c struct {
		Calls []toldCall `json:"recent_tool_calls"`
	}
	if err := json.Unmarshal([]byte(context), &c); err != nil {
		t.Fatal(err)
	}
	return c.Calls
}
