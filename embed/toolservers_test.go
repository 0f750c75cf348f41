package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
)

// shared collects log records. It is safe for concurrent use.
type shared struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *shared) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// weather starts an MCP server over HTTP that requires a key, and returns its URL.
func weather(t *testing.T, key string) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "today"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		City string `json:"city"`
	}) (*sdk.CallToolResult, any, error) {
		if in.City == "" {
			return nil, nil, fmt.Errorf("no city, and the key is %s", key)
		}
		return nil, map[string]any{"city": in.City, "degrees": 7}, nil
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// Scripts call configured servers, also in stateless mode. A server that fails is logged. No
// secret of a configuration is in any output.
func TestScriptsCallServers(t *testing.T) {
	const key = "very-secret-key-4711"
	t.Setenv("WEATHER_KEY", key)
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := fmt.Sprintf(`{"mcpServers": {"weather": {"url": %q, "headers": {"Authorization": "Bearer ${WEATHER_KEY}"}},
		"private": {"url": %[1]q, "headers": {"Authorization": "Bearer ${WEATHER_KEY}"}, "tenants": ["acme"]},
		"broken": {"command": "/nonexistent/program", "env": {"KEY": "${WEATHER_KEY}"}}}}`, weather(t, key))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := embed.ReadMCPServers([]string{"gone=http://user:" + key + "@127.0.0.1:1/mcp"}, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, stateless := range []bool{false, true} {
		said := new(shared)
		book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: stateless}, Tools: embed.ToolOptions{Servers: servers}, Logger: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		for _, test := range []struct{ code, want string }{
			{`(await mcp.weather.today({ city: "Oslo" })).degrees`, "7"},
			{`Object.keys(mcp).join()`, "broken,gone,weather"},
			{`(await mcp.weather.today({ city: "" }).catch(e => e.message))`, "weather.today: no city, and the key is [hidden]"},
			{`(await mcp.broken.anything().catch(e => e.message))`, `broken.anything: MCP server "broken" has no tools now`},
			{`(await mcp.private.today().catch(e => e.message))`, `private.today: this run has no MCP server "private"; it has broken, gone, weather`},
		} {
			done, err := book.Run(within(t), embed.Script{Code: test.code})
			if err != nil || done.Result == nil || *done.Result != test.want {
				t.Errorf("stateless %t: %s: %v %v, %v; want %s", stateless, test.code, deref(done.Result), deref(done.Error), err, test.want)
			}
		}

		failed, err := book.Run(within(t), embed.Script{Code: `await mcp.weather.today({ city: "" })`})
		if err != nil || failed.Status != events.StatusFailed {
			t.Fatalf("%s, %v", failed.Status, err)
		}
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/executions/"+failed.ExecutionID+"/calls", nil)
		book.Handler().ServeHTTP(answer, r)
		var list struct {
			Calls []struct {
				Number          int
				Server, Tool    string
				Outcome         string
				ArgumentsSHA256 string `json:"arguments_sha256"`
			}
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &list); err != nil || answer.Code != http.StatusOK || len(list.Calls) != 1 {
			t.Fatalf("%d %s, %v", answer.Code, answer.Body, err)
		}
		if c := list.Calls[0]; c.Number != 1 || c.Server != "weather" || c.Tool != "today" || c.Outcome != "error" || c.ArgumentsSHA256 != events.Hash([]byte(`{"city":""}`)) {
			t.Errorf("the call: %+v", c)
		}
		history, err := book.History(t.Context(), failed.ExecutionID)
		if err != nil {
			t.Fatal(err)
		}
		all, err := json.Marshal(history)
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string]string{"log": said.String(), "events": string(all), "answer": answer.Body.String(), "status": fmt.Sprint(book.MCPServers()), "configuration": fmt.Sprintf("%+v %#v", servers, servers)} {
			if strings.Contains(text, key) {
				t.Errorf("stateless %t: the %s shows the key:\n%s", stateless, what, text)
			}
		}
		closeBook(t, book)
	}
}
