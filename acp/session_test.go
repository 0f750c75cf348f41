package acp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/internal/dev/tier"
)

func TestACP01_NothingBeforeInitialize(t *testing.T) {
	t.Parallel()
	shared(t)
	p := connect(t, sharedDaybook.book)
	for _, method := range []string{"session/new", "session/load", "session/list", "session/prompt", "nonsense"} {
		p.mustFail(-32600, method, obj{"cwd": "/", "mcpServers": []any{}})
	}
	p.initialize().newSession()
}

func TestACP02_Version(t *testing.T) {
	t.Parallel()
	shared(t)
	for _, asked := range []int{0, 1, 2, 99} {
		p := connect(t, sharedDaybook.book)
		var r struct {
			ProtocolVersion   int
			AgentCapabilities sdk.AgentCapabilities
			AuthMethods       []any
		}
		p.mustCall("initialize", obj{"protocolVersion": asked}, &r)
		if r.ProtocolVersion != 1 || r.AuthMethods == nil {
			t.Errorf("asked for version %d, it answers %+v", asked, r)
		}
	}
}

// TestACP03_NothingUnasked: the agent sends no requests to a client that declares no
// capabilities.
func TestACP03_NoRequests(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	p.prompt(id, "console.log(1); 2")
	for _, m := range p.messagesSince(0) {
		if m.Method != "" && m.Method != sdk.ClientMethodSessionUpdate {
			t.Errorf("the agent requests %s", m.Method)
		}
	}
}

func TestACP04_IDsAreUnguessable(t *testing.T) {
	t.Parallel()
	p := shared(t)
	seen := map[string]bool{}
	for range 100 {
		id := p.newSession()
		if len(id) != 64 || seen[id] {
			t.Fatalf("session id %q is short, or known", id)
		}
		seen[id] = true
	}
}

func TestACP05_SessionsAreApart(t *testing.T) {
	t.Parallel()
	p := shared(t)
	a, b := p.newSession(), p.newSession()
	p.prompt(a, "globalThis.mine = 1; let held = 2")
	if got := p.promptTexts(b, "typeof mine + typeof held"); !slices.Equal(got, []string{"undefinedundefined"}) {
		t.Errorf("the other session sees %q", got)
	}
	if got := p.promptTexts(a, "mine + held"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("its own session sees %q", got)
	}
	if history := strings.Join(p.promptTexts(b, "/history"), ""); strings.Contains(history, "held = 2") {
		t.Errorf("the other session's history has its prompts: %s", history)
	}
}

func TestACP06_and_10_PathsAreAbsolute(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	for _, bad := range []obj{
		{"cwd": "relative"}, {"cwd": ""}, {"cwd": "./x"}, {"cwd": "/ok", "additionalDirectories": []string{"/ok", "no"}},
		{"cwd": "/" + strings.Repeat("x", 5000)}, {"cwd": "/a\x00b"},
	} {
		bad["mcpServers"] = []any{}
		p.mustFail(-32602, "session/new", bad)
		bad["sessionId"] = id
		for _, method := range []string{"session/load", "session/resume", "session/fork"} {
			p.mustFail(-32602, method, bad)
		}
	}
	p.mustFail(-32602, "session/list", obj{"cwd": "relative"})
	// The session is not affected.
	p.prompt(id, "1")
}

func TestACP10_AndTheOtherCapabilities(t *testing.T) {
	t.Parallel()
	shared(t)
	p := connect(t, sharedDaybook.book)
	m := p.mustCall("initialize", obj{"protocolVersion": 1}, nil)
	var r struct{ AgentCapabilities obj }
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	want := obj{
		"auth": obj{}, "loadSession": true, "mcpCapabilities": obj{"http": true, "sse": true}, "promptCapabilities": obj{"embeddedContext": true},
		"sessionCapabilities": obj{"additionalDirectories": obj{}, "close": obj{}, "delete": obj{}, "fork": obj{}, "list": obj{}, "resume": obj{}},
	}
	if diff := cmp.Diff(want, r.AgentCapabilities); diff != "" {
		t.Errorf("the capabilities differ from those of this test:\n%s", diff)
	}
}

type listed struct {
	Sessions []struct {
		SessionID, Cwd, Title, UpdatedAt string
		AdditionalDirectories            []string
	}
	NextCursor string
}

func (p *peer) list(params obj) (r listed) {
	p.t.Helper()
	p.mustCall("session/list", params, &r)
	return r
}

// TestACP11_12_13_Directories: the directories that a client names replace all earlier
// ones. Another cwd is accepted and recorded too.
func TestACP11_12_13_Directories(t *testing.T) {
	t.Parallel()
	p := shared(t)
	home := t.TempDir()
	id := p.newSession(obj{"cwd": home, "additionalDirectories": []string{"/b", "/a"}})
	find := func(cwd string) []string {
		t.Helper()
		for _, s := range p.list(obj{"cwd": cwd}).Sessions {
			if s.SessionID == id {
				return append([]string{s.Cwd}, s.AdditionalDirectories...)
			}
		}
		return nil
	}
	if got := find(home); !slices.Equal(got, []string{home, "/b", "/a"}) {
		t.Errorf("a new session has %q", got)
	}
	other := t.TempDir()
	for _, step := range []struct {
		method, cwd string
		more        obj
		want        []string
	}{
		{"session/load", home, obj{"additionalDirectories": []string{"/c"}}, []string{home, "/c"}},
		{"session/resume", home, nil, []string{home}},
		{"session/load", other, obj{"additionalDirectories": []string{"/c", "/d"}}, []string{other, "/c", "/d"}},
		{"session/load", other, obj{"additionalDirectories": []string{}}, []string{other}},
		{"session/resume", home, obj{"additionalDirectories": []string{"/e"}}, []string{home, "/e"}},
	} {
		params := obj{"sessionId": id, "cwd": step.cwd, "mcpServers": []any{}}
		for k, v := range step.more {
			params[k] = v
		}
		p.mustCall(step.method, params, nil)
		if got := find(step.cwd); !slices.Equal(got, step.want) {
			t.Errorf("after %s with %v the session has %q", step.method, params, got)
		}
	}
	if got := find(other); got != nil {
		t.Errorf("the session is listed under its old cwd: %q", got)
	}
}

func TestACP07_08_CwdIsTheSessions(t *testing.T) {
	t.Parallel()
	p := shared(t)
	dir, extra := t.TempDir(), t.TempDir()
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	id := p.newSession(obj{"cwd": dir, "additionalDirectories": []string{extra}, "mcpServers": []obj{child(t, "tools", "tools")}})
	if got := p.promptTexts(id, `await mcp.tools.where({})`); !slices.Equal(got, []string{real}) {
		t.Errorf("a server runs in %q, want %q", got, real)
	}
}

func TestACP19_UnknownSessions(t *testing.T) {
	t.Parallel()
	p := shared(t)
	for _, id := range []string{strings.Repeat("0", 64), "sess_x", "", "../../etc", strings.Repeat("é", 500)} {
		for _, method := range []string{"session/load", "session/resume", "session/fork"} {
			p.mustFail(-32002, method, obj{"sessionId": id, "cwd": "/tmp", "mcpServers": []any{}})
		}
		p.mustFail(-32002, "session/prompt", obj{"sessionId": id, "prompt": text("1")})
		p.mustFail(-32002, "session/set_mode", obj{"sessionId": id, "modeId": "auto"})
		p.mustFail(-32002, "session/close", obj{"sessionId": id})
	}
}

// conversation fills a session with turns of every kind.
func conversation(t testing.TB, p *peer, id string) {
	t.Helper()
	for _, code := range []string{
		"// Count the ways\nconsole.log('one'); console.error('two'); globalThis.x = 41",
		"/heap",
		"throw new TypeError('no')",
		"let y: number = x + 1; y",
		"undefined",
		"Here it is:\n```ts\nconst z: string = 'fenced'; z\n```\nand that is all.",
		"for (let i = 0; i < 2500; i++) console.log('line', i)",
		"'x'.repeat(700_000)",
		"const = 1",
		"/nonsense",
	} {
		if got := p.prompt(id, code); got != "end_turn" {
			t.Fatalf("%q ends with %s", code, got)
		}
	}
	var r struct{ StopReason string }
	p.mustCall("session/prompt", obj{"sessionId": id, "prompt": []obj{
		{"type": "text", "text": "prompt.resources.map(r => r.uri + ':' + r.text).join()"},
		{"type": "resource_link", "name": "a", "uri": "file:///a.txt"},
		{"type": "resource", "resource": obj{"uri": "file:///b.txt", "text": "hello </script> \u2028 it's"}},
	}}, &r)
}

// TestACP15_16_17_18_Replay: a client that loads a session receives the updates that
// were sent live, in the same order, and each prompt before its updates.
func TestACP15_16_17_18_Replay(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession(obj{"mcpServers": []obj{child(t, "tools", "tools")}})
	mark := p.mark()
	conversation(t, p, id)
	p.prompt(id, `console.log("before"); const r = await Promise.all([mcp.tools.echo({text: "1"}), mcp.tools.echo({text: "2"})]); console.log("between"); await mcp.tools.nothing?.({}); r.join()`)
	live := updates(t, p.messagesSince(mark), id)

	again := shared(t)
	load := again.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	all := again.messagesSince(0)
	at := slices.IndexFunc(all, func(m message) bool { return string(m.ID) == string(load.ID) && m.Method == "" })
	replayed := updates(t, all[:at], id)
	if more := updates(t, all[at:], id); len(more) != 0 {
		t.Errorf("%d updates come after the answer", len(more))
	}
	var agentUpdates []sdk.SessionUpdate
	prompts, ids := 0, map[string]int{}
	for _, u := range replayed {
		if u.UserMessageChunk != nil {
			if u.UserMessageChunk.MessageId == nil {
				t.Error("a prompt has no message id")
			} else if ids[*u.UserMessageChunk.MessageId] == 0 {
				prompts++
				ids[*u.UserMessageChunk.MessageId] = 1
			}
			continue
		}
		agentUpdates = append(agentUpdates, u)
	}
	if prompts != 12 {
		t.Errorf("%d prompts are replayed, want 12", prompts)
	}
	if diff := cmp.Diff(asJSON(t, live), asJSON(t, agentUpdates)); diff != "" {
		t.Errorf("the replay differs from the live updates:\n%.4000s", diff)
	}
	// The chunks of a message follow each other, and its id is not used again.
	seen, last := map[string]bool{}, ""
	for _, u := range agentUpdates {
		if c := u.AgentMessageChunk; c != nil {
			if c.MessageId == nil {
				t.Fatal("a message has no id")
			}
			if id := *c.MessageId; id != last {
				if seen[id] && u.ToolCall == nil && len(seen) > 0 && !strings.Contains(c.Content.Text.Text, "between") {
					t.Errorf("message %s is continued after another: %q", id, c.Content.Text.Text)
				}
				seen[id], last = true, id
			}
		}
	}
}

func asJSON(t testing.TB, list []sdk.SessionUpdate) []string {
	t.Helper()
	out := make([]string, len(list))
	for i, u := range list {
		b, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = string(b[:min(len(b), 2000)])
	}
	return out
}

func TestUpdates(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	mark := p.mark()
	p.prompt(id, "// Greet\nconsole.log('hi'); console.warn('careful'); ({a: [1, 2]})")
	var kinds []string
	for _, u := range updates(t, p.messagesSince(mark), id) {
		switch {
		case u.SessionInfoUpdate != nil:
			kinds = append(kinds, "info "+*u.SessionInfoUpdate.Title)
		case u.ToolCall != nil:
			kinds = append(kinds, fmt.Sprintf("call %s %s %s", u.ToolCall.Kind, u.ToolCall.Status, u.ToolCall.Title))
		case u.AgentMessageChunk != nil:
			kinds = append(kinds, "says "+u.AgentMessageChunk.Content.Text.Text)
		case u.ToolCallUpdate != nil:
			raw := u.ToolCallUpdate.RawOutput.(map[string]any)
			kinds = append(kinds, fmt.Sprintf("call %s %v heap %t", *u.ToolCallUpdate.Status, raw["status"], raw["heap"] != nil))
		default:
			t.Errorf("an update of an unknown kind: %+v", u)
		}
	}
	want := []string{"info Greet", "call execute in_progress Greet", "says hi\n", "says [WARN] careful\n", "call completed completed heap true", `says {"a":[1,2]}`}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestACP21_22_23_24_LoadAndResumeContinue(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	p.prompt(id, "globalThis.x = 7")
	p.mustCall("session/set_mode", obj{"sessionId": id, "modeId": "auto"}, nil)
	p.mustCall("session/set_config_option", obj{"sessionId": id, "configId": "timeout", "value": "5"}, nil)
	for _, method := range []string{"session/load", "session/resume"} {
		q := shared(t)
		mark := q.mark()
		var r struct {
			Modes         struct{ CurrentModeID string }
			ConfigOptions []struct{ ID, CurrentValue string }
		}
		m := q.mustCall(method, obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []obj{child(t, "tools", "tools")}}, &r)
		all := q.messagesSince(mark)
		at := slices.IndexFunc(all, func(o message) bool { return string(o.ID) == string(m.ID) })
		if method == "session/resume" && at != 0 {
			t.Errorf("%d messages come before the answer to session/resume", at)
		}
		set := map[string]string{}
		for _, o := range r.ConfigOptions {
			set[o.ID] = o.CurrentValue
		}
		if r.Modes.CurrentModeID != "auto" || set["mode"] != "auto" || set["timeout"] != "5" || set["heap_memory"] != "64" {
			t.Errorf("%s answers with %+v", method, r)
		}
		if got := q.promptTexts(id, "x"); !slices.Equal(got, []string{"7"}) {
			t.Errorf("after %s x is %q", method, got)
		}
		if got := q.promptTexts(id, `await mcp.tools.destroy({})`); !slices.Equal(got, []string{"destroyed"}) {
			t.Errorf("after %s a tool returns %q", method, got)
		}
	}
	// mcpServers may be left out.
	q := shared(t)
	q.mustCall("session/resume", obj{"sessionId": id, "cwd": os.TempDir()}, nil)
	if got := q.promptTexts(id, "x"); !slices.Equal(got, []string{"7"}) {
		t.Errorf("after the last resume x is %q", got)
	}
}

func (p *peer) begin(id, code string) (ask int) {
	p.t.Helper()
	mark := p.mark()
	ask = p.ask("session/prompt", obj{"sessionId": id, "prompt": text(code)})
	p.await("the first line", func(m message) bool {
		return slices.ContainsFunc(updates(p.t, p.messagesSince(mark), id), func(u sdk.SessionUpdate) bool { return u.AgentMessageChunk != nil })
	})
	return ask
}

const endless = "console.log('begun'); for (;;) {}"

// TestACP25_TakenOver: another connection that loads or resumes a session takes it
// over, and the running prompt is cancelled.
func TestACP25_TakenOver(t *testing.T) {
	t.Parallel()
	p, q := shared(t), shared(t)
	id := p.newSession()
	ask := p.begin(id, endless)
	mark := q.mark()
	q.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	if m := p.awaitAnswer(ask); !strings.Contains(string(m.Result), `"cancelled"`) {
		t.Errorf("the old connection is answered %s", m.line)
	}
	p.mustFail(-32602, "session/prompt", obj{"sessionId": id, "prompt": text("1")})
	if all := strings.Join(asJSON(t, updates(t, q.messagesSince(mark), id)), "\n"); !strings.Contains(all, "Cancelled by user") {
		t.Errorf("the replay lacks the end of the run: %s", all)
	}
	if got := q.promptTexts(id, "2"); !slices.Equal(got, []string{"2"}) {
		t.Errorf("the new connection receives %q", got)
	}
}

func TestACP26_27_Close(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession(obj{"mcpServers": []obj{child(t, "tools", "tools")}})
	ask := p.begin(id, endless)
	p.mustCall("session/close", obj{"sessionId": id}, nil)
	if m := p.awaitAnswer(ask); !strings.Contains(string(m.Result), `"cancelled"`) {
		t.Errorf("the prompt is answered %s", m.line)
	}
	p.mustFail(-32602, "session/prompt", obj{"sessionId": id, "prompt": text("1")})
	p.mustCall("session/close", obj{"sessionId": id}, nil)
	p.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	if got := p.promptTexts(id, "3"); !slices.Equal(got, []string{"3"}) {
		t.Errorf("after the session is loaded again the prompt returns %q", got)
	}
}

func TestACP34_Blocks(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	var r struct{ StopReason string }
	mark := p.mark()
	p.mustCall("session/prompt", obj{"sessionId": id, "prompt": []obj{
		{"type": "text", "text": "prompt.resources[0].name"}, {"type": "resource_link", "name": "notes", "uri": "file:///notes.md"},
	}}, &r)
	if got := messageTexts(updates(t, p.messagesSince(mark), id)); !slices.Equal(got, []string{"notes"}) {
		t.Errorf("code sees %q of the link", got)
	}
	for _, bad := range [][]obj{
		{{"type": "image", "data": "AAAA", "mimeType": "image/png"}}, {{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}},
		{{"type": "text", "text": "  \n"}}, {}, {{"type": "other"}}, {{"type": "resource_link", "name": "a", "uri": "file:///a"}},
	} {
		p.mustFail(-32602, "session/prompt", obj{"sessionId": id, "prompt": bad})
	}
	p.mustFail(-32602, "session/prompt", obj{"sessionId": id, "prompt": text("a\x00b")})
}

// TestACP35_Cancel: a cancelled prompt is answered without an error, whatever its
// script does. A cancellation right after the prompt takes effect.
func TestACP35_Cancel(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	for _, code := range []string{endless, "console.log('begun'); await new Promise(() => setTimeout(() => {}, 60000))", "console.log('begun'); while (true) console.log('x'.repeat(1000))"} {
		ask := p.begin(id, code)
		p.send(obj{"jsonrpc": "2.0", "method": "session/cancel", "params": obj{"sessionId": id}})
		if m := p.awaitAnswer(ask); m.Error != nil || !strings.Contains(string(m.Result), `"cancelled"`) {
			t.Errorf("%q is answered %s", code, m.line)
		}
		all := p.messagesSince(0)
		if last := updates(t, all, id); last[len(last)-1].ToolCallUpdate == nil {
			t.Errorf("the last update before the answer is %+v", last[len(last)-1])
		}
	}
	for range tier.Choose(5, 20) {
		ask := p.ask("session/prompt", obj{"sessionId": id, "prompt": text(endless)})
		p.send(obj{"jsonrpc": "2.0", "method": "session/cancel", "params": obj{"sessionId": id}})
		if m := p.awaitAnswer(ask); m.Error != nil || !strings.Contains(string(m.Result), `"cancelled"`) {
			t.Fatalf("a prompt cancelled at once is answered %s", m.line)
		}
	}
	// $/cancel_request cancels a prompt too.
	ask := p.begin(id, endless)
	p.send(obj{"jsonrpc": "2.0", "method": "$/cancel_request", "params": obj{"requestId": ask}})
	if m := p.awaitAnswer(ask); m.Error != nil || !strings.Contains(string(m.Result), `"cancelled"`) {
		t.Errorf("a cancelled request is answered %s", m.line)
	}
	if got := p.promptTexts(id, "'alive'"); !slices.Equal(got, []string{"alive"}) {
		t.Errorf("after that a prompt returns %q", got)
	}
}

// TestOnePromptAtATime: a second prompt is refused. The SDK would cancel the first.
func TestOnePromptAtATime(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id, other := p.newSession(), p.newSession()
	ask := p.begin(id, "console.log('begun'); await new Promise(r => setTimeout(r, 300)); 'first'")
	p.mustFail(-32600, "session/prompt", obj{"sessionId": id, "prompt": text("'second'")})
	if got := p.promptTexts(other, "'beside'"); !slices.Equal(got, []string{"beside"}) {
		t.Errorf("another session returns %q", got)
	}
	if m := p.awaitAnswer(ask); !strings.Contains(string(m.Result), "end_turn") {
		t.Errorf("the first prompt is answered %s", m.line)
	}
	p.prompt(id, "1")
}

func TestACP37_List(t *testing.T) {
	t.Parallel()
	p := connect(t, start(t, t.TempDir())).initialize()
	if m := p.mustCall("session/list", obj{}, nil); !strings.Contains(string(m.Result), `"sessions":[]`) {
		t.Errorf("an empty list is %s", m.Result)
	}
	var want []string
	for i := range 120 {
		want = append(want, p.newSession(obj{"cwd": fmt.Sprintf("/p%d", i%2)}))
	}
	p.prompt(want[0], "// The title\n1")
	want = append(want[1:], want[0]) // the last used comes first
	slices.Reverse(want)
	var got []string
	for params := (obj{}); ; {
		page := p.list(params)
		for _, s := range page.Sessions {
			got = append(got, s.SessionID)
		}
		if page.NextCursor == "" {
			break
		}
		params = obj{"cursor": page.NextCursor}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pages differ from the sessions:\n%s", diff)
	}
	first := p.list(obj{"cwd": "/p0"}).Sessions
	if len(first) != 50 || first[0].SessionID != want[0] || first[0].Title != "The title" || first[0].Cwd != "/p0" {
		t.Errorf("the list of a cwd starts with %+v, of %d", first[0], len(first))
	}
	if _, err := time.Parse(time.RFC3339, first[0].UpdatedAt); err != nil {
		t.Error(err)
	}
	if n := len(p.list(obj{"cwd": "/none"}).Sessions); n != 0 {
		t.Errorf("%d sessions of a cwd that has none", n)
	}
	for _, bad := range []string{"", "x", "AAAA", strings.Repeat("A", 5000)} {
		p.mustFail(-32602, "session/list", obj{"cursor": bad})
	}
}

func TestACP38_Delete(t *testing.T) {
	t.Parallel()
	p := shared(t)
	dir := t.TempDir()
	id := p.newSession(obj{"cwd": dir})
	p.prompt(id, "1")
	ask := p.begin(id, endless)
	for range 2 {
		p.mustCall("session/delete", obj{"sessionId": id}, nil)
	}
	if m := p.awaitAnswer(ask); !strings.Contains(string(m.Result), `"cancelled"`) {
		t.Errorf("the prompt is answered %s", m.line)
	}
	if n := len(p.list(obj{"cwd": dir}).Sessions); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
	for _, method := range []string{"session/load", "session/resume", "session/fork"} {
		p.mustFail(-32002, method, obj{"sessionId": id, "cwd": dir, "mcpServers": []any{}})
	}
	p.mustFail(-32002, "session/prompt", obj{"sessionId": id, "prompt": text("1")})
	if got := p.list(obj{"cwd": dir}).Sessions; len(got) != 0 {
		t.Errorf("the deleted session exists again: %v", got)
	}
}

func TestFork(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	p.prompt(id, "// The trunk\nglobalThis.n = 1")
	var r struct{ SessionID string }
	p.mustCall("session/fork", obj{"sessionId": id, "cwd": os.TempDir()}, &r)
	fork := r.SessionID
	p.prompt(id, "n = 100")
	p.prompt(fork, "n += 1")
	if a, b := p.promptTexts(id, "n"), p.promptTexts(fork, "n"); !slices.Equal(a, []string{"100"}) || !slices.Equal(b, []string{"2"}) {
		t.Errorf("the trunk is at %q and the branch at %q", a, b)
	}
	// A fork of the fork, after the conversation of the first was cleared.
	p.prompt(id, "/clear")
	p.mustCall("session/fork", obj{"sessionId": fork, "cwd": os.TempDir()}, &r)
	mark := p.mark()
	p.mustCall("session/load", obj{"sessionId": r.SessionID, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	var prompts []string
	for _, u := range updates(t, p.messagesSince(mark), r.SessionID) {
		if c := u.UserMessageChunk; c != nil {
			prompts = append(prompts, c.Content.Text.Text)
		}
	}
	if want := []string{"// The trunk\nglobalThis.n = 1", "n += 1", "n"}; !slices.Equal(prompts, want) {
		t.Errorf("the fork of the fork has %q, want %q", prompts, want)
	}
	mark = p.mark()
	p.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	if rest := updates(t, p.messagesSince(mark), id); len(rest) != 0 {
		t.Errorf("a cleared session is replayed with %d updates", len(rest))
	}
	if got := p.promptTexts(id, "n"); !slices.Equal(got, []string{"100"}) {
		t.Errorf("its heap is at %q", got)
	}
	// A session whose prompt is running cannot be forked: it has no heap yet.
	ask := p.begin(id, endless)
	p.mustFail(-32600, "session/fork", obj{"sessionId": id, "cwd": os.TempDir()})
	p.send(obj{"jsonrpc": "2.0", "method": "session/cancel", "params": obj{"sessionId": id}})
	p.awaitAnswer(ask)
}

func TestCommands(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	m := p.await("the commands", func(m message) bool { return strings.Contains(string(m.line), "available_commands_update") })
	for _, name := range []string{"help", "heap", "tags", "history", "fork", "load", "tools", "reset", "clear"} {
		if !strings.Contains(string(m.line), `"name":"`+name+`"`) {
			t.Errorf("/%s is not in the list of commands", name)
		}
		if !strings.Contains(strings.Join(p.promptTexts(id, "/help"), ""), "/"+name) {
			t.Errorf("/help does not list /%s", name)
		}
	}
	says := func(code, want string) string {
		t.Helper()
		got := strings.Join(p.promptTexts(id, code), "|")
		if !strings.Contains(got, want) {
			t.Errorf("%s is answered %q, want %q in it", code, got, want)
		}
		return got
	}
	says("/heap", "empty heap")
	says("/tags", "no tags")
	says("/tools", "no MCP servers")
	// A heap that no other test has, because equal heaps share their tags.
	says(fmt.Sprintf("globalThis.own = %d; let n = 5; n", time.Now().UnixNano()), "5")
	heap := says("/heap", "starts from heap")
	hash := strings.Split(heap, "`")[1]
	says("/tags", "no tags")
	says("/tags stage=test owner=me", "stage = test")
	says("/tags broken", "not of the form")
	says("/tags", "owner = me")
	says("n = 6", "6")
	says("/load", "Give the hash")
	says("/load "+hash, hash)
	says("n", "5")
	says("/load "+strings.Repeat("0", 64), "not in the ledger")
	says("/load zz", "64 lowercase hex")
	says("/history", "completed, run")
	says("/reset", "empty heap")
	says("typeof n", "undefined")
	says("/fork", "Session `")
	says("/unknown", "Unknown command /unknown")
	says("/a/.test('a')", "true")
	says("  /ab/g.flags", "g")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	for _, bad := range []obj{
		{"configId": "mode", "value": "wild"}, {"configId": "timeout", "value": "0.5"}, {"configId": "timeout", "value": "301"},
		{"configId": "heap_memory", "value": "100000"}, {"configId": "nothing", "value": "1"}, {"configId": "mode", "type": "boolean", "value": true},
	} {
		bad["sessionId"] = id
		p.mustFail(-32602, "session/set_config_option", bad)
	}
	p.mustFail(-32602, "session/set_mode", obj{"sessionId": id, "modeId": "wild"})
	p.mustCall("session/set_config_option", obj{"sessionId": id, "configId": "mode", "value": "readonly"}, nil)
	p.await("the mode", func(m message) bool {
		return strings.Contains(string(m.line), `"current_mode_update"`) && strings.Contains(string(m.line), "readonly")
	})
	p.mustCall("session/set_mode", obj{"sessionId": id, "modeId": "ask"}, nil)
	p.await("the options", func(m message) bool { return strings.Contains(string(m.line), `"config_option_update"`) })
	p.mustCall("session/set_config_option", obj{"sessionId": id, "configId": "timeout", "value": "1"}, nil)
	mark := p.mark()
	p.prompt(id, "for (;;) {}")
	if all := strings.Join(asJSON(t, updates(t, p.messagesSince(mark), id)), "\n"); !strings.Contains(all, "Execution timed out") {
		t.Errorf("the run did not time out: %s", all)
	}
}
