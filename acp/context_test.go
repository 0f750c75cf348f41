package acp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"daybook/embed"
)

// contextOf returns the conversation context of a session, read over REST.
func contextOf(t *testing.T, book *embed.Daybook, session string) (body string, calls []notedCall) {
	t.Helper()
	req, err := http.NewRequestWithContext(waitContext(t), http.MethodGet, book.URL()+"/api/context?logical_session="+url.QueryEscape(session), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s, %v", resp.Status, raw, err)
	}
	var answer struct {
		SessionID string      `json:"session_id"`
		Calls     []notedCall `json:"recent_tool_calls"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.SessionID != session {
		t.Errorf("the context of %s names session %s", session, answer.SessionID)
	}
	return string(raw), answer.Calls
}

type notedCall struct {
	Tool    string            `json:"tool"`
	Args    map[string]string `json:"args"`
	Summary string            `json:"result_summary"`
}

// Prompts and their tool calls are in the context of their session only, also after a
// restart.
func TestPromptsHaveAContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	serve := func() *embed.Daybook {
		book, err := embed.Start(waitContext(t), embed.Options{DataDir: dir, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1}, Logger: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = book.Close() }) // the second time: the first error is checked below
		return book
	}
	book := serve()
	p := connect(t, book).initialize()
	id, other := p.newSession(obj{"mcpServers": []obj{child(t, "tools", "tools")}}), p.newSession()
	p.prompt(id, "globalThis.n = 41")
	p.prompt(id, "/help")
	p.prompt(id, "n + (await mcp.tools.echo({text: 'x'}))")
	p.prompt(other, "'elsewhere'")
	want := [][3]string{{"run_js", "globalThis.n = 41", "completed: 41"}, {"run_js", "n + (await mcp.tools.echo({text: 'x'}))", "completed: 41tools says x"}, {"mcp.tools.echo", "", "ok: "}}
	before, calls := contextOf(t, book, id)
	if len(calls) != len(want) {
		t.Fatalf("%d calls: %s", len(calls), before)
	}
	for i, c := range calls {
		if c.Tool != want[i][0] || c.Args["code"] != want[i][1] || !strings.HasPrefix(c.Summary, want[i][2]) {
			t.Errorf("call %d: %+v, want %q", i, c, want[i])
		}
	}
	if body, calls := contextOf(t, book, other); len(calls) != 1 || calls[0].Summary != "completed: elsewhere" {
		t.Errorf("the other session: %s", body)
	}
	p.leave()
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}
	book = serve()
	if after, _ := contextOf(t, book, id); after != before {
		t.Errorf("before the restart\n%s\nafter\n%s", before, after)
	}
	if err := book.Close(); err != nil {
		t.Error(err)
	}
}
