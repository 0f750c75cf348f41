package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"syscall"
	"testing"
)

// The commands about contexts: values that were set are there after the server was killed, and
// cleared ones are not.
func TestContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, url := launchServer(t, dir)
	known := map[string]string{"url": url}
	play(t, known, []step{
		{args: `context get mine` + at, stdout: "id: +(?P<id>[0-9a-f]{64})\nbegan: +\\S+\nupdated: +\\S+\nread: +0 resources\n"},
		{args: `context set mine` + at, status: 2, stderr: "daybook: nothing to set: .*\n"},
		{args: `context set mine word` + at, status: 2, stderr: "daybook: \"word\": give values as KEY=VALUE\n"},
		{args: `context set mine db_password=x` + at, status: 2, stderr: "daybook: .*db_password.*\n"},
		{args: `context set mine --prefer colour=red` + at, status: 2, stderr: "daybook: .*colour.*\n"},
		{args: `context set mine n=42 text=two·words list=[1,2] gone=1 --prefer max_results=7` + at, stdout: "Set.\n"},
		{args: `context set mine gone= --json` + at, stdout: `.*"custom": \{\s*"list": \[\s*1,\s*2\s*\],\s*"n": 42,\s*"text": "two words"\s*\}.*`},
		{args: `run -e 6*7 --session mine` + at, stdout: "42\n", stderr: ".*"},
		{args: `context get --logical ` + unknownID + at, status: 2, stderr: "daybook: .*not found.*\n"},
	})
	// Each change was acknowledged, so none may be lost.
	server.signal(syscall.SIGKILL)
	server.status()
	_, known["url"] = launchServer(t, dir)
	play(t, known, []step{
		{args: `context get mine` + at, stdout: "id: +$id\nbegan: .*\nupdated: .*\nprefers: +max_results = 7\ncustom: +list = \\[1,2\\]\ncustom: +n = 42\ncustom: +text = \"two words\"\n" +
			"read: +0 resources\nTIME +TOOL +RESULT\n\\S+ +run_js +completed: 42\n"},
		{args: `context get yours` + at, stdout: "id: .*\nread: +0 resources\n"},
		{args: `context clear mine` + at, stdout: "Cleared. The recorded events stay.\n"},
		{args: `context get mine` + at, stdout: "id: +$id\nbegan: +\\S+\nupdated: +\\S+\nread: +0 resources\n"},
		{args: `exec list` + at, stdout: ".*completed.*"},
	})
}

// unknownID is an id that no session has.
const unknownID = "00000000000000000000000000000000000000000000000000000000000000aa"

// TestContextOutlivesItsServer: when the owner is killed, the client has the same context at the
// next owner. Without a session name each connection has a context of its own.
func TestContextOutlivesItsServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client, stranger := launch(t, "mcp", "--data-dir", dir), launch(t, "mcp", "--data-dir", dir)
	client.ask(initialize)
	stranger.ask(initialize)
	id := 10
	call := func(p *process, tool, args string) map[string]any {
		t.Helper()
		id++
		answer := p.ask(callTool(id, tool, args))[float64(id)]
		result, _ := answer["result"].(map[string]any)
		content, _ := result["structuredContent"].(map[string]any)
		if content == nil || result["isError"] == true {
			t.Fatalf("%s is answered with %v; stderr:\n%s", tool, answer, p.errs.String())
		}
		return content
	}
	call(client, "set_context", `{"custom":{"word":"kept"},"user_preferences":{"max_results":3}}`)
	call(client, "run_js", `{"code":"40 + 2"}`)
	call(stranger, "set_context", `{"custom":{"other":"mine"}}`)
	before := call(client, "get_context", `{}`)
	if err := syscall.Kill(background(t, dir), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	after := call(client, "get_context", `{}`)
	for _, name := range []string{"session_id", "created_at", "custom", "user_preferences"} {
		if asText(t, before[name]) != asText(t, after[name]) {
			t.Errorf("%s was %v and is %v", name, before[name], after[name])
		}
	}
	if calls, _ := after["recent_tool_calls"].([]any); len(calls) != 1 || calls[0].(map[string]any)["tool"] != "run_js" {
		t.Errorf("the context does not list the run: %v", after)
	}
	others := call(stranger, "get_context", `{}`)
	if custom, _ := others["custom"].(map[string]any); !maps.Equal(custom, map[string]any{"other": "mine"}) || others["session_id"] == after["session_id"] {
		t.Errorf("the stranger has %v", others)
	}
	// A new connection of the same program has another context.
	client.in.Close()
	client.status()
	again := launch(t, "mcp", "--data-dir", dir)
	again.ask(initialize)
	if fresh := call(again, "get_context", `{}`); fmt.Sprint(fresh["custom"]) != "map[]" || fresh["session_id"] == after["session_id"] {
		t.Errorf("a new connection has %v", fresh)
	}
}

func asText(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
