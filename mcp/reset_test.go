package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"daybook/events"
	"daybook/ledger"
	"daybook/mcp"
)

// A connection resets and lists by its own short names, and by complete names and ids.
// Short names of other connections and beginnings of names find no session.
func TestSessionsOfOtherConnections(t *testing.T) {
	t.Parallel()
	book := openStack(t, ledger.Options{})
	server := book.serve(t, mcp.Options{})
	a, b := openPipe(t, server, ""), openPipe(t, server, "")
	a.initialize()
	b.initialize()
	a.tool("open_session", `{"intent":"a talk","seeds":["builtin.clone"]}`)
	var id, id2 string
	if err := json.Unmarshal(a.tool("run_js", `{"code":"1","logical_session_ref":"s0"}`).member(t, "execution_id"), &id); err != nil {
		t.Fatal(err)
	}
	book.await(t, id)
	for _, session := range []string{"s0", "a", "a tal"} {
		if r := b.tool("reset_session", mustJSON(t, map[string]any{"session": session})); !r.IsError || !strings.Contains(r.Content[0].Text, "there is no session") {
			t.Errorf("another connection resets %q: %+v", session, r)
		}
		if list := string(b.tool("list_executions", mustJSON(t, map[string]any{"session": session})).member(t, "executions")); list != "[]" {
			t.Errorf("another connection lists %q: %s", session, list)
		}
	}
	// A named session is found by its name and its id.
	named := openPipe(t, server, "logged here")
	named.initialize()
	if err := json.Unmarshal(named.tool("run_js", `{"code":"2"}`).member(t, "execution_id"), &id2); err != nil {
		t.Fatal(err)
	}
	book.await(t, id2)
	for _, session := range []string{"logged here", events.SessionID(events.DefaultTenant, "logged here")} {
		if list := string(b.tool("list_executions", mustJSON(t, map[string]any{"session": session})).member(t, "executions")); !strings.Contains(list, id2) {
			t.Errorf("the runs of %q: %s", session, list)
		}
	}
	for p, session := range map[*pipe]string{a: "s0", b: "a talk"} {
		if list := string(p.tool("list_executions", mustJSON(t, map[string]any{"session": session})).member(t, "executions")); !strings.Contains(list, id) {
			t.Errorf("the runs of %q: %s", session, list)
		}
		if r := p.tool("reset_session", mustJSON(t, map[string]any{"session": session})); r.IsError {
			t.Errorf("reset %q: %+v", session, r)
		}
	}
}
