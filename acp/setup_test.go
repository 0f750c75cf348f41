package acp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/embed"
)

// TestStateless: a stateless agent advertises exactly the methods that it does not
// refuse.
func TestStateless(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, dir)
	p := connect(t, book).initialize()
	id := p.newSession()
	p.prompt(id, "// From before\n1")
	if err := book.Close(); err != nil {
		t.Fatal(err)
	}

	book, err := embed.Start(waitContext(t), embed.Options{DataDir: dir, NATS: embed.NATSOptions{NoSync: true}, Runs: embed.RunOptions{DrainWait: -1, Stateless: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { book.Close() })
	p = connect(t, book)
	var r struct{ AgentCapabilities obj }
	p.mustCall("initialize", obj{"protocolVersion": 1}, &r)
	want := obj{
		"auth": obj{}, "mcpCapabilities": obj{}, "promptCapabilities": obj{},
		"sessionCapabilities": obj{"delete": obj{}, "list": obj{}},
	}
	if diff := cmp.Diff(want, r.AgentCapabilities); diff != "" {
		t.Errorf("a stateless agent advertises:\n%s", diff)
	}
	where := obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}
	for method, code := range map[string]int{"session/load": -32601, "session/resume": -32601, "session/fork": -32601, "session/close": -32601, "session/new": -32600} {
		m := p.call(method, where)
		if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, "without --stateless") {
			t.Errorf("%s answers %s, want the error %d with advice", method, m.line, code)
		}
	}
	if s := p.list(obj{}).Sessions; len(s) != 1 || s[0].Title != "From before" {
		t.Errorf("it lists %+v", s)
	}
	p.mustCall("session/delete", obj{"sessionId": id}, nil)
	if s := p.list(obj{}).Sessions; len(s) != 0 {
		t.Errorf("after the deletion it lists %+v", s)
	}
}

// TestRoots: every server of a session gets the session's directories as its
// roots, the working directory first.
func TestRoots(t *testing.T) {
	t.Parallel()
	p := shared(t)
	home, more := t.TempDir(), filepath.Join(t.TempDir(), "with space")
	if err := os.Mkdir(more, 0o700); err != nil {
		t.Fatal(err)
	}
	far, _, _ := remote(t, "http", "far")
	servers := []obj{child(t, "tools", "tools"), far}
	spaced := strings.ReplaceAll(more, " ", "%20")
	id := p.newSession(obj{"cwd": home, "additionalDirectories": []string{more, "/"}, "mcpServers": servers})
	if got, want := p.promptTexts(id, "await mcp.far.roots({})"), "file://"+home+" file://"+spaced+" file:///"; !slices.Equal(got, []string{want}) {
		t.Errorf("roots/list of an HTTP server answers %q, want %q", got, want)
	}
	// A server that asks in the result of a call gets them in the order of their URIs.
	if got, want := p.promptTexts(id, "await mcp.tools.roots({})"), "file:/// file://"+home+" file://"+spaced; !slices.Equal(got, []string{want}) {
		t.Errorf("the roots of a stdio server are %q, want %q", got, want)
	}
	// The roots of the last request replace the earlier ones.
	p.mustCall("session/resume", obj{"sessionId": id, "cwd": more, "mcpServers": servers}, nil)
	if got, want := p.promptTexts(id, "await mcp.tools.roots({})"), "file://"+spaced; !slices.Equal(got, []string{want}) {
		t.Errorf("after session/resume the roots are %q, want %q", got, want)
	}
	p.mustCall("session/close", obj{"sessionId": id}, nil) // before the server is closed
}

// TestFirstUpdateNamesProblems: the first update of a session names the servers
// that failed and the directories that do not exist.
func TestFirstUpdateNamesProblems(t *testing.T) {
	t.Parallel()
	p := shared(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	params := obj{"cwd": os.TempDir(), "additionalDirectories": []string{"/no/such/directory", file}, "mcpServers": []obj{
		child(t, "works", "works"), child(t, "dies", "dies"), {"type": "http", "name": "bad", "url": "no url", "headers": []obj{}},
	}}
	check := func(id string, updates []sdk.SessionUpdate) {
		t.Helper()
		if len(updates) == 0 || updates[0].AgentMessageChunk == nil {
			t.Fatalf("the first update of %s is not a message: %s", id, strings.Join(asJSON(t, updates), "\n"))
		}
		first := updates[0].AgentMessageChunk.Content.Text.Text
		for _, want := range []string{"`/no/such/directory` does not exist", "`" + file + "` is not a directory", "`dies` is not available: it does not connect", "`bad` is not available: the url must begin"} {
			if !strings.Contains(first, want) {
				t.Errorf("the first update lacks %q:\n%s", want, first)
			}
		}
		if strings.Contains(first, "works") || strings.Contains(first, secret) {
			t.Errorf("the first update has too much:\n%s", first)
		}
	}
	id := p.newSession(params)
	p.prompt(id, "1") // the answer comes after the announcement
	check("session/new", all(t, p.messagesSince(0), id))

	mark := p.mark()
	params["sessionId"] = id
	m := p.mustCall("session/resume", params, nil)
	p.prompt(id, "2")
	after := p.messagesSince(mark)
	at := slices.IndexFunc(after, func(o message) bool { return string(o.ID) == string(m.ID) && o.Method == "" })
	if at != 0 {
		t.Errorf("%d messages come before the answer to session/resume", at)
	}
	check("session/resume", all(t, after, id))

	// A session without problems announces only the commands.
	q := shared(t)
	id = q.newSession(obj{"mcpServers": []obj{child(t, "works", "works")}})
	q.await("the commands", func(m message) bool { return strings.Contains(string(m.line), "available_commands_update") })
	if list := all(t, q.messagesSince(0), id); len(list) != 1 {
		t.Errorf("a session without problems starts with %s", strings.Join(asJSON(t, list), "\n"))
	}
}

// all returns all updates of a session among messages.
func all(t testing.TB, list []message, session string) (updates []sdk.SessionUpdate) {
	t.Helper()
	for _, m := range list {
		if m.Method != sdk.ClientMethodSessionUpdate {
			continue
		}
		var n sdk.SessionNotification
		if err := json.Unmarshal(m.Params, &n); err != nil {
			t.Fatalf("%s: %v", m.line, err)
		}
		if string(n.SessionId) == session {
			updates = append(updates, n.Update)
		}
	}
	return updates
}

// TestResourcesOfOnePrompt: prompt.resources holds the attachments of this prompt only,
// and is empty without any.
func TestResourcesOfOnePrompt(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	attach := func(id, code string, uris ...string) []string {
		t.Helper()
		blocks := []obj{{"type": "text", "text": code}}
		for _, uri := range uris {
			blocks = append(blocks, obj{"type": "resource_link", "name": "a", "uri": uri})
		}
		mark := p.mark()
		p.mustCall("session/prompt", obj{"sessionId": id, "prompt": blocks}, nil)
		return messageTexts(updates(t, p.messagesSince(mark), id))
	}
	expect := func(what string, got []string, want string) {
		t.Helper()
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: the prompt returns %q, want %q", what, got, want)
		}
	}
	const uris = "prompt.resources.map(r => r.uri).join() + '|' + prompt.resources.length"
	expect("nothing was ever attached", attach(id, uris), "|0")
	expect("attached", attach(id, uris, "file:///a", "file:///b"), "file:///a,file:///b|2")
	expect("the next prompt", attach(id, uris), "|0")

	// Code of an earlier prompt reads it as well.
	attach(id, "globalThis.count = () => globalThis['pro' + 'mpt'].resources.length", "file:///c")
	expect("a function of an earlier prompt", attach(id, "count()"), "0")
	expect("a strict prompt", attach(id, "'use strict'; (function () { return typeof this })() + prompt.resources.length"), "undefined0")

	// A prompt that is not run changes nothing.
	attach(id, "1", "file:///c")
	attach(id, "= 1")
	expect("after code that cannot be parsed", attach(id, "count()"), "0")
	attach(id, "1", "file:///c")
	attach(id, "throw 1")
	expect("after an exception", attach(id, "count()"), "0")

	// Other processes and forks do not know what the heap holds.
	attach(id, "1", "file:///d")
	p.mustCall("session/resume", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	expect("after session/resume", attach(id, "count()"), "0")
	attach(id, "1", "file:///e")
	var fork struct{ SessionID string }
	p.mustCall("session/fork", obj{"sessionId": id, "cwd": os.TempDir()}, &fork)
	expect("in a fork", attach(fork.SessionID, "count()"), "0")

	// The client sees the code of the prompt without additions.
	mark := p.mark()
	attach(id, "prompt.resources.length", "file:///f")
	for _, u := range updates(t, p.messagesSince(mark), id) {
		if c := u.ToolCall; c != nil && c.RawInput.(map[string]any)["code"] != "prompt.resources.length" {
			t.Errorf("the code is shown as %v", c.RawInput)
		}
	}
}

// TestLoadAfterClear: a load replays the prompts that came after /clear.
func TestLoadAfterClear(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	prompts := func(id string) (list []string) {
		t.Helper()
		mark := p.mark()
		p.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
		for _, u := range updates(t, p.messagesSince(mark), id) {
			if u.UserMessageChunk != nil {
				list = append(list, u.UserMessageChunk.Content.Text.Text)
			}
		}
		return list
	}
	p.prompt(id, "globalThis.n = 1")
	p.prompt(id, "/clear")
	p.prompt(id, "n + 1")
	p.prompt(id, "/heap")
	if got, want := prompts(id), []string{"n + 1", "/heap"}; !slices.Equal(got, want) {
		t.Errorf("after /clear the load replays %q, want %q", got, want)
	}
	p.prompt(id, "/clear")
	if got := prompts(id); len(got) != 0 {
		t.Errorf("after a second /clear the load replays %q", got)
	}
	p.prompt(id, "n + 2")
	if got, want := prompts(id), []string{"n + 2"}; !slices.Equal(got, want) {
		t.Errorf("after it the load replays %q, want %q", got, want)
	}
	// A fork starts with the prompts of its parent, and its /clear affects only itself.
	var fork struct{ SessionID string }
	p.mustCall("session/fork", obj{"sessionId": id, "cwd": os.TempDir()}, &fork)
	p.mustCall("session/load", obj{"sessionId": fork.SessionID, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	p.prompt(fork.SessionID, "/clear")
	p.prompt(fork.SessionID, "n + 3")
	if got, want := prompts(fork.SessionID), []string{"n + 3"}; !slices.Equal(got, want) {
		t.Errorf("the fork replays %q, want %q", got, want)
	}
	if got, want := prompts(id), []string{"n + 2"}; !slices.Equal(got, want) {
		t.Errorf("its parent replays %q, want %q", got, want)
	}
}

// TestResultIsSentOnce: one update contains the result or the error.
func TestResultIsSentOnce(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	for _, test := range []struct{ code, shown string }{
		{"'re' + 'sult-71'", "result-71"},
		{"throw new Error('fail' + 'ure-72')", "failure-72"},
		{"const = 1", "SyntaxError"},
	} {
		mark := p.mark()
		p.prompt(id, test.code)
		var in []string
		for _, line := range asJSON(t, updates(t, p.messagesSince(mark), id)) {
			if strings.Contains(line, test.shown) {
				in = append(in, line)
			}
		}
		if len(in) != 1 || !strings.Contains(in[0], "agent_message_chunk") {
			t.Errorf("%q is shown in %d updates, want one message:\n%s", test.shown, len(in), strings.Join(in, "\n"))
		}
	}
}

// TestProsePrompts: prose gets a short answer that says what to send.
func TestProsePrompts(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	const hint = "has no language model: send code, or /help."
	for _, test := range []struct {
		prompt, want string
		runs         bool
	}{
		{"What is in this repository?", "This is not code, so nothing was run.", true},
		{"please list all the files, then sort them", "This is not code, so nothing was run.", true},
		{"Wie geht’s dir heute?", "This is not code, so nothing was run.", true},
		{"hello", "ReferenceError: hello is not defined\n    at prompt.ts:1:1\n\nDaybook runs JavaScript", true},
		{"  n", "ReferenceError: n is not defined\n    at prompt.ts:1:3\n\nDaybook runs JavaScript", true},
		{"thanks!", "ReferenceError: thanks is not defined\n    at prompt.ts:1:1\n\nDaybook runs", true},
		{"Please run this:\n```\n1+1\n```", "Nothing was run: the fence after the text has no language. Mark the fence `js` to run it", false},
		{"Here:\n\n```\n1+1\n```\nThanks!", "Mark the fence `js` to run it", false},
		{"Here:\n```python\nprint(1)\n```", "the fence is marked `python`", false},
		{"```python\nprint(1)\n```", "the fence is marked `python`", false},
		{"Please run this:\n```sh\nls\n```", "the fence is marked `sh`", false},
		{"help", "- `/heap`", false},
		{"Help me!", "- `/heap`", false},
		{"?", "- `/heap`", false},
	} {
		mark := p.mark()
		if got := p.prompt(id, test.prompt); got != "end_turn" {
			t.Errorf("%q ends with %s", test.prompt, got)
		}
		list := updates(t, p.messagesSince(mark), id)
		got := messageTexts(list)
		if len(got) != 1 || !strings.Contains(got[0], test.want) || len(got[0]) > 1200 || test.runs && !strings.HasSuffix(got[0], hint) {
			t.Errorf("%q is answered %q, want %q", test.prompt, got, test.want)
		}
		if ran := slices.ContainsFunc(list, func(u sdk.SessionUpdate) bool { return u.ToolCall != nil }); ran != test.runs {
			t.Errorf("%q is run: %t", test.prompt, ran)
		}
	}
	// Code keeps its own errors, and strings may contain fences.
	for code, want := range map[string]string{
		"const x = = 1":       "SyntaxError",
		"let value of things": "SyntaxError",
		"return if x":         "SyntaxError",
		"nothing.here":        "ReferenceError: nothing is not defined",
		"const md = '\\n```json\\n{}\\n```'; md.trim().slice(3, 7)": "json",
		"```\n6 * 7\n```":                         "42",
		"Here is it:\n```\n1\n```\n```js\n3\n```": "3",
		"/* Usage:\n```\nf()\n```\n*/ 4":          "4",
		"Here:\n```python\n1\n```\n```js\n2\n```": "2",
	} {
		if got := p.promptTexts(id, code); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q is answered %q, want %q", code, got, want)
		}
	}
	// A load replays the same answers.
	mark := p.mark()
	p.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	replayed := strings.Join(messageTexts(updates(t, p.messagesSince(mark), id)), "\n")
	for _, want := range []string{"This is not code", "the fence is marked `python`", "ReferenceError: hello is not defined", "Mark the fence `js`"} {
		if !strings.Contains(replayed, want) {
			t.Errorf("the replay lacks %q", want)
		}
	}
}
