package mcp_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/events"
	"daybook/internal/contextstore"
	"daybook/ledger"
	"daybook/mcp"
)

// member returns one member of a tool's answer.
func (r toolResult) member(t testing.TB, name string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(r.StructuredContent, &m); err != nil {
		t.Fatalf("%v in %+v", err, r)
	}
	return m[name]
}

// Preferences apply to the calls that follow.
func TestPreferencesApply(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
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

// A second read of a resource returns it again, and reports the first one.
func TestAlreadyFetched(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
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
		var fetched struct {
			Note, Summary string
			FetchedAt     string `json:"fetched_at"`
			DocumentID    string `json:"document_id"`
			Unchanged     bool
		}
		if err := json.Unmarshal(meta["daybook/already_fetched"], &fetched); err != nil {
			t.Fatalf("%v in %s", err, meta)
		}
		if fetched.Note != "document_already_fetched_this_session" || fetched.FetchedAt == "" || fetched.DocumentID != "session://a%20session" || fetched.Unchanged != unchanged || len([]rune(fetched.Summary)) > 201 || !strings.Contains(text, id) {
			t.Errorf("%+v, %s", fetched, text)
		}
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

// A repeated run is executed again, and its answer reports the earlier one. With reuse,
// the earlier one is the answer, unless the run depends on more than its request.
func TestRepeatedRun(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
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
	// A run that sets tags has an effect each time.
	tagged, _ := run(p, `{"code":"7","tags":{"a":"b"}}`)
	again, earlier := run(p, `{"code":"7","tags":{"a":"b"},"reuse":true}`)
	if tagged == again || earlier == nil || earlier.ExecutionID != tagged {
		t.Errorf("with tags: %s after %s, %+v", again, tagged, earlier)
	}
	// Another session has no earlier calls.
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

// context_clear returns the documented answer, and clears only its own session.
func TestContextClear(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
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

// The answers to a probe are the same after each start.
func TestProbeIsStable(t *testing.T) {
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

// A request without a session has no context: the tools for contexts report it, and all
// others work.
func TestContextToolsWithoutSession(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
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

// noteEvents returns the number of recorded notes in contexts.
func (b *testStack) noteEvents(t testing.TB) (n int) {
	t.Helper()
	last, err := b.store.LastSeq(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list, err := b.store.Read(t.Context(), 0, int(last)+1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Type == events.TypeContextNoted {
			n++
		}
	}
	return n
}

// Calls that only read record no event and no note in the context, however often they
// are repeated; searches and changes do.
func TestPollsAreNotNoted(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	contexts := book.contexts(t)
	p := openPipe(t, book.serve(t, mcp.Options{Contexts: contexts}), "a session")
	p.initialize()
	var id string
	if err := json.Unmarshal(p.tool("run_js", `{"code":"1"}`).member(t, "execution_id"), &id); err != nil {
		t.Fatal(err)
	}
	heap := *book.await(t, id).Heap
	contexts.Flush(t.Context())
	before := book.noteEvents(t)
	for range 10 {
		p.tool("get_execution", `{"execution_id":"`+id+`"}`)
		p.tool("get_execution", `{"execution_id":"`+id+`","wait_secs":1}`)
		p.tool("get_execution_output", `{"execution_id":"`+id+`"}`)
		p.tool("list_executions", `{}`)
		p.tool("get_heap_tags", `{"heap":"`+heap+`"}`)
		p.tool("discover_tools", `{"intent":"anything"}`)
		contexts.Flush(t.Context())
	}
	if n := book.noteEvents(t) - before; n != 0 {
		t.Errorf("polling left %d events", n)
	}
	p.call("resources/read", `{"uri":"execution://`+id+`"}`)
	contexts.Flush(t.Context())
	noted := book.noteEvents(t)
	for range 5 {
		p.call("resources/read", `{"uri":"execution://`+id+`"}`)
		contexts.Flush(t.Context())
	}
	if n := book.noteEvents(t) - noted; n != 0 {
		t.Errorf("polling a resource left %d events", n)
	}
	p.tool("set_heap_tags", `{"heap":"`+heap+`","tags":{"a":"b"}}`)
	p.tool("query_heaps_by_tags", `{"tags":{}}`)
	var calls []struct{ Tool string }
	if err := json.Unmarshal(p.tool("get_context", `{}`).member(t, "recent_tool_calls"), &calls); err != nil {
		t.Fatal(err)
	}
	var tools []string
	for _, c := range calls {
		tools = append(tools, c.Tool)
	}
	if diff := cmp.Diff([]string{"run_js", "set_heap_tags", "query_heaps_by_tags"}, tools); diff != "" {
		t.Errorf("the notes in the context (-want +got):\n%s", diff)
	}
}

// With tokens, two principals of a tenant with one session name have separate contexts.
// One principal has the same context on every connection.
func TestContextOfAPrincipal(t *testing.T) {
	t.Parallel()
	auth, list := tokens(t, "default/ada read run", "default/bob read run", "default/ada read run")
	for _, tenantScope := range []bool{false, true} {
		book := openStack(t, ledger.Options{})
		contexts, err := contextstore.New(contextstore.Options{Log: book.store, Views: book.views, TenantScope: tenantScope})
		if err != nil {
			t.Fatal(err)
		}
		var lines logLines
		url := serveHTTP(t, book.serve(t, mcp.Options{Auth: auth, Contexts: contexts, Logger: slog.New(slog.NewTextHandler(&lines, nil))}))
		connect := func(token string) *sdk.ClientSession {
			transport := &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: bothHeaders{"Authorization", "Bearer " + token, "X-Mcp-Session-Id", "shared"}}}
			ss, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ss.Close() })
			return ss
		}
		ada, bob, adaAgain := connect(list[0]), connect(list[1]), connect(list[2])
		if text, refused := call(t, ada, "set_context", map[string]any{"custom": map[string]any{"city": "Oslo"}}); refused {
			t.Fatal(text)
		}
		for who, c := range map[string]struct {
			ss   *sdk.ClientSession
			want bool
		}{"ada": {ada, true}, "bob": {bob, tenantScope}, "ada on another connection": {adaAgain, true}} {
			text, refused := call(t, c.ss, "get_context", nil)
			if refused || strings.Contains(text, "Oslo") != c.want {
				t.Errorf("tenant scope %t: %s reads %s", tenantScope, who, text)
			}
			res, err := c.ss.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "session://shared/context"})
			if err != nil || strings.Contains(res.Contents[0].Text, "Oslo") != c.want {
				t.Errorf("tenant scope %t: %s reads the resource %+v, %v", tenantScope, who, res, err)
			}
		}
		for range 5 {
			if res, err := bob.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "session://other/context"}); err == nil {
				t.Errorf("the context of another session is %+v", res)
			}
		}
		if n := lines.violations.Load(); n != 1 {
			t.Errorf("5 reads of another session's context wrote %d log lines", n)
		}
	}
}

// logLines counts log lines about reads of other sessions' contexts.
type logLines struct{ violations atomic.Int32 }

func (l *logLines) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("context isolation violation")) {
		l.violations.Add(1)
	}
	return len(line), nil
}

// bothHeaders are two headers of every request: name, value, name, value.
type bothHeaders [4]string

func (h bothHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(h[0], h[1])
	r.Header.Set(h[2], h[3])
	return http.DefaultTransport.RoundTrip(r)
}
