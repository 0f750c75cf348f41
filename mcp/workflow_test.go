package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/ledger"
	"daybook/mcp"
)

// headerTransport adds a header to every request of a client.
type headerTransport struct{ name, value string }

func (h headerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h.name, h.value)
	return http.DefaultTransport.RoundTrip(r)
}

// transports connect a client with a session name to a server.
var transports = map[string]func(t testing.TB, s *mcp.Server, session string) sdk.Transport{
	"stdio": func(t testing.TB, s *mcp.Server, session string) sdk.Transport {
		p := openPipe(t, s, session)
		return &sdk.IOTransport{Reader: readCloser{p}, Writer: p.in}
	},
	"http": func(t testing.TB, s *mcp.Server, session string) sdk.Transport {
		return &sdk.StreamableClientTransport{
			Endpoint:   serveHTTP(t, s) + "/mcp",
			HTTPClient: &http.Client{Transport: headerTransport{"X-MCP-Session-Id", session}},
		}
	},
	"sse": func(t testing.TB, s *mcp.Server, session string) sdk.Transport {
		return &sdk.SSEClientTransport{
			Endpoint:   serveHTTP(t, s) + "/sse",
			HTTPClient: &http.Client{Transport: headerTransport{"X-MCP-Session-Id", session}},
		}
	},
}

// TestWorkflow does the typical work of an agent over every transport, in every protocol
// revision that the SDK's client supports.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	for transport, open := range transports {
		for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
			if transport == "sse" && revision == "2026-07-28" {
				continue // the revision does not have this transport
			}
			t.Run(transport+"/"+revision, func(t *testing.T) {
				t.Parallel()
				book := openStack(t, ledger.Options{})
				s := book.serve(t, mcp.Options{})
				c := sdk.NewClient(&sdk.Implementation{Name: "agent", Version: "3"}, nil)
				cs, err := c.Connect(t.Context(), open(t, s, "work"), &sdk.ClientSessionOptions{ProtocolVersion: revision})
				if err != nil {
					t.Fatalf("connect: %v", err)
				}
				if got := cs.InitializeResult().ProtocolVersion; got != revision {
					t.Errorf("negotiated %s", got)
				}
				agent{t, book, cs}.work(transport)
				if err := cs.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

// agent calls tools through the SDK's client, which checks answers against the
// advertised output schemas.
type agent struct {
	t    testing.TB
	book *testStack
	cs   *sdk.ClientSession
}

func (a agent) call(tool string, args, answer any) *sdk.CallToolResult {
	a.t.Helper()
	res, err := a.cs.CallTool(context.Background(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	if res.IsError {
		a.t.Fatalf("%s: %s", tool, res.Content[0].(*sdk.TextContent).Text)
	}
	if err := json.Unmarshal([]byte(res.Content[0].(*sdk.TextContent).Text), answer); err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	return res
}

func (a agent) run(args map[string]any) (id string) {
	a.t.Helper()
	var out struct {
		ExecutionID string `json:"execution_id"`
	}
	res := a.call("run_js", args, &out)
	if seq, ok := res.Meta["daybook/sequence"].(float64); !ok || seq < 1 {
		a.t.Errorf("run_js: _meta is %v", res.Meta)
	}
	return out.ExecutionID
}

type execution struct {
	Status       string
	Result, Heap *string
}

// get reads an execution right after its submission; it must be readable.
func (a agent) get(id string) (e execution) {
	a.t.Helper()
	a.call("get_execution", map[string]any{"execution_id": id}, &e)
	return e
}

func (a agent) work(transport string) {
	a.t.Helper()
	tools, err := a.cs.ListTools(context.Background(), nil)
	if err != nil || len(tools.Tools) != 18 {
		a.t.Fatalf("tools/list: %d tools, %v", len(tools.Tools), err)
	}
	first := a.run(map[string]any{"code": "console.log(\"hello\")\n\"done\""})
	if e := a.get(first); e.Status != "running" && e.Status != "completed" {
		a.t.Errorf("right after run_js: %+v", e)
	}
	d := a.book.await(a.t, first)
	if want := map[string]string{"stdio": "mcp-stdio", "http": "mcp-http", "sse": "mcp-http"}[transport]; d.Actor.Transport != want || d.Actor.Client != "agent/3" || d.Actor.Principal != "anonymous" {
		a.t.Errorf("actor %+v", d.Actor)
	}
	if (d.Actor.Address == "127.0.0.1") != (transport != "stdio") {
		a.t.Errorf("address %q over %s", d.Actor.Address, transport)
	}
	e := a.get(first)
	if e.Status != "completed" || e.Result == nil || *e.Result != "done" || e.Heap == nil {
		a.t.Fatalf("ended as %+v", e)
	}
	var page struct {
		Data    string
		HasMore bool `json:"has_more"`
	}
	a.call("get_execution_output", map[string]any{"execution_id": first}, &page)
	if page.Data != "hello\n" || page.HasMore {
		a.t.Errorf("output %+v", page)
	}

	second := a.run(map[string]any{"code": "2", "heap": *e.Heap, "tags": map[string]string{"step": "2"}})
	a.book.await(a.t, second)
	heap := a.get(second).Heap
	var found struct{ Results []struct{ Heap string } }
	a.call("query_heaps_by_tags", map[string]any{"tags": map[string]string{"step": "2"}}, &found)
	if len(found.Results) != 1 || heap == nil || found.Results[0].Heap != *heap {
		a.t.Errorf("found %+v, want %v", found, heap)
	}
	var tags struct{ Tags map[string]string }
	a.call("set_heap_tags", map[string]any{"heap": *heap, "tags": map[string]string{"step": "two"}}, &tags)
	a.call("get_heap_tags", map[string]any{"heap": *heap}, &tags)
	if tags.Tags["step"] != "two" {
		a.t.Errorf("right after set_heap_tags: %v", tags)
	}

	third := a.run(map[string]any{"code": "await forever"})
	var cancelled struct{ OK bool }
	a.call("cancel_execution", map[string]any{"execution_id": third}, &cancelled)
	if e := a.get(third); !cancelled.OK || e.Status != "cancelled" {
		a.t.Errorf("right after cancel_execution: %+v", e)
	}
	a.book.await(a.t, third)

	var list struct{ Executions []struct{ Status string } }
	a.call("list_executions", nil, &list)
	if len(list.Executions) != 3 || list.Executions[0].Status != "cancelled" {
		a.t.Errorf("list_executions: %+v", list)
	}
	var log struct {
		Entries []struct {
			Index     int
			InputHeap *string `json:"input_heap"`
		}
	}
	a.call("list_session_snapshots", nil, &log)
	if len(log.Entries) != 3 || log.Entries[1].InputHeap == nil || *log.Entries[1].InputHeap != *e.Heap {
		a.t.Errorf("session log: %+v", log)
	}
}
