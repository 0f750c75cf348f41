package embed_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/web/access"
)

// A tenant with the maximum number of sessions, contexts or tagged heaps is refused new ones
// and can use the existing ones. Other tenants are not limited.
func TestKeptLimits(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{Access: embed.AccessOptions{Limits: embed.Limits{Sessions: 2, TaggedHeaps: 1}}, Runs: embed.RunOptions{Elsewhere: true}})
	acme, other, operator := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes), g.token(events.DefaultTenant, "operator", access.AllScopes)
	g.await(operator)
	want := func(what, token, method, path, body string, status int, parts ...string) {
		t.Helper()
		got, text := g.ask(token, method, path, body)
		if got != status {
			t.Errorf("%s: %d %s, want %d", what, got, text, status)
		}
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not in %s", what, part, text)
			}
		}
	}
	metric := func(line string) {
		t.Helper()
		for ctx := within(t); ; {
			_, text := g.ask(operator, http.MethodGet, "/metrics", "")
			if strings.Contains(text, "\n"+line+"\n") {
				return
			}
			select {
			case <-ctx.Done():
				t.Fatalf("no %q in\n%s", line, text)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	largest := func(of string, n int) {
		t.Helper()
		metric(fmt.Sprintf("daybook_largest_tenant{of=%q} %d", of, n))
	}
	run := func(session string) string { return fmt.Sprintf(`{"code":"1","session":%q}`, session) }
	open := func(intent string) string { return fmt.Sprintf(`{"intent":%q,"seeds":["builtin"]}`, intent) }
	const value = `{"custom":{"a":1}}`
	want("a named session", acme, http.MethodPost, "/api/exec", run("a"), http.StatusAccepted)
	largest("sessions", 1)
	want("a logical session", acme, http.MethodPost, "/api/logical-sessions", open("x"), http.StatusOK)
	largest("sessions", 2)

	const sessions = "over the limit of sessions, logical and named (limit-sessions: 2, 2 in use); use an existing session, or ask the operator to raise it"
	const permanent = `"permanent":true`
	want("another name", acme, http.MethodPost, "/api/exec", run("b"), http.StatusTooManyRequests, sessions, permanent)
	want("another intent", acme, http.MethodPost, "/api/logical-sessions", open("y"), http.StatusTooManyRequests, sessions)
	metric(`daybook_limit_refusals_total{limit="limit-sessions"} 2`)
	want("the same intent", acme, http.MethodPost, "/api/logical-sessions", open("x"), http.StatusOK)
	want("the same name", acme, http.MethodPost, "/api/exec", run("a"), http.StatusAccepted)
	want("a run outside of sessions", acme, http.MethodPost, "/api/exec", `{"code":"1"}`, http.StatusAccepted)
	want("another tenant", other, http.MethodPost, "/api/exec", run("b"), http.StatusAccepted)

	want("a second context", acme, http.MethodPatch, "/api/context?session=c", value, http.StatusOK)
	largest("contexts", 2)
	want("a third context", acme, http.MethodPatch, "/api/context?session=d", value, http.StatusTooManyRequests, "over the limit of conversation contexts (limit-sessions: 2, 2 in use)")
	want("a known context", acme, http.MethodPatch, "/api/context?session=c", `{"custom":{"b":2}}`, http.StatusOK, `"b":2`)
	// A connection has a context too. At the limit its run is accepted without a context.
	connection := g.connect(acme, "2025-11-25")
	res, err := connection.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "2"}})
	const without = "the run is in no conversation context: over the limit of conversation contexts (limit-sessions: 2, 2 in use); use a session that has a context"
	if err != nil || res.IsError || !strings.Contains(fmt.Sprint(res.StructuredContent), without) {
		t.Errorf("a run of another connection: %+v, %v", res, err)
	}
	// The empty context contains the reason.
	const kept = "nothing is kept in this context: over the limit of conversation contexts (limit-sessions: 2, 2 in use); use a session that has a context, or ask the operator to raise it"
	res, err = connection.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_context"})
	if err != nil || res.IsError || !strings.Contains(fmt.Sprint(res.StructuredContent), kept) {
		t.Errorf("the context of another connection: %+v, %v", res, err)
	}
	want("a context that is not there", acme, http.MethodGet, "/api/context?session=e", "", http.StatusOK, kept)
	if got, text := g.ask(acme, http.MethodGet, "/api/context?session=c", ""); got != http.StatusOK || strings.Contains(text, "warnings") {
		t.Errorf("a kept context: %d %s", got, text)
	}
	largest("runs", 4)
	largest("contexts", 2)

	// Each connection has short names of its own, until the tenant has the maximum number.
	// Then the id of the session replaces the short name.
	ref := func(client *sdk.ClientSession) string {
		t.Helper()
		res, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: "open_session", Arguments: map[string]any{"intent": "x", "seeds": []string{"builtin"}}})
		if err != nil || res.IsError {
			t.Fatalf("open_session: %+v, %v", res, err)
		}
		return res.StructuredContent.(map[string]any)["logical_session_ref"].(string)
	}
	first := g.connect(acme, "2025-11-25")
	for n, client := range []*sdk.ClientSession{first, g.connect(acme, "2025-11-25")} {
		if got := ref(client); got != "s0" {
			t.Errorf("the ref of a connection is %q", got)
		}
		largest("short_names", n+1)
	}
	third := g.connect(acme, "2025-11-25")
	id := ref(third)
	if !events.ValidHash(id) || ref(third) != id || ref(first) != "s0" {
		t.Errorf("at the limit a third connection has the ref %q, the first %q", id, ref(first))
	}
	if res, err := third.CallTool(t.Context(), &sdk.CallToolParams{Name: "run_js", Arguments: map[string]any{"code": "3", "logical_session_ref": id}}); err != nil || res.IsError {
		t.Errorf("a turn by the id: %+v, %v", res, err)
	}
	if got := ref(g.connect(other, "2025-11-25")); got != "s0" {
		t.Errorf("the ref of another tenant is %q", got)
	}
	largest("short_names", 2)

	tags := func(n int) string { return "/api/heaps/" + events.Hash(fmt.Append(nil, n)) + "/tags" }
	want("tags", acme, http.MethodPut, tags(1), `{"tags":{"a":"b"}}`, http.StatusOK)
	largest("tagged_heaps", 1)
	want("tags of another heap", acme, http.MethodPut, tags(2), `{"tags":{"a":"b"}}`, http.StatusTooManyRequests,
		"over the limit of tagged heaps that no run has left (limit-tagged-heaps: 1, 1 in use); tag heaps that runs have left, or ask the operator to raise it")
	want("tags of the same heap", acme, http.MethodPut, tags(1), `{"tags":{"c":"d"}}`, http.StatusOK)
	want("deleted tags", acme, http.MethodDelete, tags(1), "", http.StatusOK)
	want("tags of another tenant", other, http.MethodPut, tags(2), `{"tags":{"a":"b"}}`, http.StatusOK)
}
