package mcp_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/ledger"
	"daybook/mcp"
)

// member reads one member of a tool's answer.
func (r toolResult) member(t testing.TB, name string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(r.StructuredContent, &m); err != nil {
		t.Fatalf("%v in %+v", err, r)
	}
	return m[name]
}

// Preferences hold for the calls that follow.
func TestA09_PreferencesApply(t *testing.T) {
	t.Parallel()
	book := openBook(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "a session")
	p.initialize()
	for _, code := range []string{"1", "2", "3"} {
		var id string
		if err := json.Unmarshal(p.tool("run_js", `{"code":"`+code+`"}`).member(t, "execution_id"), &id); err != nil {
			t.Fatal(err)
		}
		book.await(t, id)
	}
	listed := func(args string) int {
		t.Helper()
		var list []json.RawMessage
		if err := json.Unmarshal(p.tool("list_executions", args).member(t, "executions"), &list); err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := listed(`{}`); n != 3 {
		t.Errorf("%d executions before", n)
	}
	p.tool("set_context", `{"user_preferences":{"max_results":2}}`)
	if all, some := listed(`{}`), listed(`{"limit":1}`); all != 2 || some != 1 {
		t.Errorf("with max_results 2 there are %d executions, and %d with a limit of 1", all, some)
	}
	for format, want := range map[string]string{"plain": "sessions: \n  - a session", "markdown": "- **sessions**: \n  - a session", "json": `{"sessions":["a session"]}`} {
		p.tool("set_context", `{"user_preferences":{"output_format":"`+format+`"}}`)
		r := p.tool("list_sessions", `{}`)
		if r.Content[0].Text != want || string(r.StructuredContent) != `{"sessions":["a session"]}` {
			t.Errorf("%s: %q and %s", format, r.Content[0].Text, r.StructuredContent)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// A resource that is read again comes again, and with it that it was read.
func TestA17_AlreadyFetched(t *testing.T) {
	t.Parallel()
	book := openBook(t, ledger.Options{})
	p := openPipe(t, book.serve(t, mcp.Options{}), "a session")
	p.initialize()
	read := func() (meta map[string]json.RawMessage, text string) {
		t.Helper()
		var r struct {
			Meta     map[string]json.RawMessage `json:"_meta"`
			Contents []struct{ Text string }
		}
		if err := json.Unmarshal(p.call("resources/read", `{"uri":"session://a%20session"}`), &r); err != nil {
			t.Fatal(err)
		}
		return r.Meta, r.Contents[0].Text
	}
	for _, unchanged := range []bool{true, false} {
		var id string
		if err := json.Unmarshal(p.tool("run_js", `{"code":"1"}`).member(t, "execution_id"), &id); err != nil {
			t.Fatal(err)
		}
		book.await(t, id)
		if unchanged {
			if meta, _ := read(); meta["daybook/already_fetched"] != nil {
				t.Errorf("the first time: %s", meta)
			}
		}
		meta, text := read()
		var told struct {
			Note, Summary string
			FetchedAt     string `json:"fetched_at"`
			Unchanged     bool
		}
		if err := json.Unmarshal(meta["daybook/already_fetched"], &told); err != nil {
			t.Fatalf("%v in %s", err, meta)
		}
		if told.Note != "document_already_fetched_this_session" || told.FetchedAt == "" || told.Unchanged != unchanged || len([]rune(told.Summary)) > 201 || !strings.Contains(text, id) {
			t.Errorf("%+v, %s", told, text)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// A run done before is done again, and says so; with reuse it is not, unless it
// depends on more than its request.
func TestA19_RepeatedRun(t *testing.T) {
	t.Parallel()
	book := openBook(t, ledger.Options{})
	s := book.serve(t, mcp.Options{})
	p := openPipe(t, s, "a session")
	p.initialize()
	type tried struct {
		ExecutionID string `json:"execution_id"`
		Status      string
		Result      *string
		Reused      bool
	}
	run := func(p *pipe, args string) (id string, earlier *tried) {
		t.Helper()
		r := p.tool("run_js", args)
		if r.IsError {
			t.Fatalf("%s: %+v", args, r)
		}
		if err := json.Unmarshal(r.member(t, "execution_id"), &id); err != nil {
			t.Fatal(err)
		}
		book.await(t, id)
		if raw := r.member(t, "already_tried"); raw != nil {
			if err := json.Unmarshal(raw, &earlier); err != nil {
				t.Fatal(err)
			}
		}
		return id, earlier
	}
	first, earlier := run(p, `{"code":"6 * 7"}`)
	if earlier != nil {
		t.Errorf("the first: %+v", earlier)
	}
	second, earlier := run(p, `{"code":"6 * 7"}`)
	if second == first || earlier == nil || earlier.ExecutionID != first || earlier.Status != "completed" || earlier.Result == nil || *earlier.Result != "6 * 7" || earlier.Reused {
		t.Errorf("again: %s, %+v", second, earlier)
	}
	reused, earlier := run(p, `{"code":"6 * 7","reuse":true}`)
	if reused != second || earlier == nil || !earlier.Reused {
		t.Errorf("reused: %s, %+v", reused, earlier)
	}
	for name, args := range map[string]string{
		"other code": `{"code":"6 * 8","reuse":true}`, "another limit": `{"code":"6 * 7","execution_timeout_secs":5,"reuse":true}`,
		"with a key": `{"code":"6 * 7","idempotency_key":"k","reuse":true}`,
	} {
		if id, _ := run(p, args); id == first || id == second {
			t.Errorf("%s: answered with an earlier run", name)
		}
	}
	// One that sets tags has an effect each time.
	tagged, _ := run(p, `{"code":"7","tags":{"a":"b"}}`)
	again, earlier := run(p, `{"code":"7","tags":{"a":"b"},"reuse":true}`)
	if tagged == again || earlier == nil || earlier.ExecutionID != tagged {
		t.Errorf("with tags: %s after %s, %+v", again, tagged, earlier)
	}
	// Another session has tried nothing.
	other := openPipe(t, s, "another session")
	other.initialize()
	if id, earlier := run(other, `{"code":"6 * 7","reuse":true}`); id == second || earlier != nil {
		t.Errorf("in another session: %s, %+v", id, earlier)
	}
	for _, p := range []*pipe{p, other} {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}

// Clearing answers as documented, and clears its own session only.
func TestA27_ContextClear(t *testing.T) {
	t.Parallel()
	book := openBook(t, ledger.Options{})
	s := book.serve(t, mcp.Options{})
	one, two := openPipe(t, s, ""), openPipe(t, s, "")
	for _, p := range []*pipe{one, two} {
		p.initialize()
		p.tool("set_context", `{"custom":{"a":1}}`)
	}
	var cleared struct {
		Status, Message string
		SessionID       string `json:"session_id"`
	}
	if err := json.Unmarshal(one.tool("context_clear", `{}`).StructuredContent, &cleared); err != nil {
		t.Fatal(err)
	}
	id := string(one.tool("get_context", `{}`).member(t, "session_id"))
	if cleared.Status != "cleared" || `"`+cleared.SessionID+`"` != id || cleared.Message != "Conversation context has been reset. Starting fresh." {
		t.Errorf("%+v of %s", cleared, id)
	}
	got := []string{string(one.tool("get_context", `{}`).member(t, "custom")), string(two.tool("get_context", `{}`).member(t, "custom"))}
	if diff := cmp.Diff([]string{`{}`, `{"a":1}`}, got); diff != "" {
		t.Error(diff)
	}
	for _, p := range []*pipe{one, two} {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
}

// What a probe sees of a server is the same from start to start.
func TestA35_ProbeIsStable(t *testing.T) {
	t.Parallel()
	var lists []string
	for range 2 {
		raw, _ := listTools(t, mcp.Options{})
		lists = append(lists, string(raw))
	}
	if diff := cmp.Diff(lists[0], lists[1]); diff != "" {
		t.Error(diff)
	}
}

// A request without any session has no context: tools about it say what to do,
// and all others work.
func TestA37_NoSession(t *testing.T) {
	t.Parallel()
	book := openBook(t, ledger.Options{})
	s := book.serve(t, mcp.Options{})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	cs, err := sdk.NewClient(&sdk.Implementation{Name: "t", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: server.URL + "/mcp"}, &sdk.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cs.Close() })
	for tool, want := range map[string]string{
		"get_context": "X-MCP-Session-Id", "set_context": "X-MCP-Session-Id", "context_clear": "X-MCP-Session-Id", "health_check": "", "list_sessions": "", "query_heaps_by_tags": "",
	} {
		args := map[string]any{}
		if tool == "query_heaps_by_tags" {
			args["tags"] = map[string]string{}
		}
		res, err := cs.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
		if err != nil {
			t.Fatal(err)
		}
		text := res.Content[0].(*sdk.TextContent).Text
		if res.IsError != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", tool, text)
		}
	}
}
