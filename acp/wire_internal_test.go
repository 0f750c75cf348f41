package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
	"daybook/internal/lines"
	"daybook/projections"
)

// FuzzLine: every line is parsed as a message or refused, and the answer to a request
// has the key of the request's id.
func FuzzLine(f *testing.F) {
	for _, s := range []string{`{"jsonrpc":"2.0","id":1,"method":"x"}`, `{"id":"a<b\u2028","method":"session/prompt","params":{"sessionId":"s"}}`, `{"id":1.50}`, `[]`, `{"id":null}`, `"`, `{"id":-0,"method":""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		raw, err := lines.Read(bufio.NewReader(bytes.NewReader(append(line, '\n'))), 1<<10)
		text := bytes.TrimSpace(raw)
		if errors.Is(err, lines.ErrTooLong) || len(text) == 0 {
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		e, bad := decodeLine(text)
		if bad != nil {
			if bad.Message == "" || bad.Code == 0 {
				t.Errorf("%q is refused without a reason", text)
			}
			return
		}
		_ = e.session()
		key, ok := idKey(e.ID)
		if !ok {
			return
		}
		answer, err := json.Marshal(struct {
			JSONRPC string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  any             `json:"result"`
		}{"2.0", e.ID, 1})
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := answerTo(answer); !ok || got != key {
			t.Errorf("the answer to %s has the key %q, the request %q", e.ID, got, key)
		}
	})
}

func TestAnswerTo(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":5,"result":{}}`:                "5",
		`{"jsonrpc":"2.0","id":"a\u003cb","error":{}}`:        `"a\u003cb"`,
		`{"jsonrpc":"2.0","id":5,"method":"session/x"}`:       "",
		`{"jsonrpc":"2.0","method":"session/update","id":5}`:  "",
		`{"jsonrpc":"2.0","id":null,"error":{}}`:              "",
		`{"id":5,"jsonrpc":"2.0","result":{}}`:                "5",
		`{ "jsonrpc": "2.0", "id": 5, "result": {} }`:         "5",
		`{"result":{"id":7,"method":"x"},"id":5}`:             "5",
		`{"id":5, "method":"session/x"}`:                      "",
		`[{"id":5}]`:                                          "",
		`{"id":`:                                              "",
		`{"jsonrpc":"2.0","method":"x","params":{"id":"no"}}`: "",
	} {
		if got, ok := answerTo([]byte(line)); got != want || ok != (want != "") {
			t.Errorf("%s answers %q", line, got)
		}
	}
}

// FuzzPrompt: any text is a command, or code that keeps the content of its fences.
func FuzzPrompt(f *testing.F) {
	for _, s := range []string{"1 + 1", "/help", " /load abc ", "/a/.test('x')", "```js\n1\n```", "text\n```ts\nlet a = 1\n```\nmore\n````js\n```\n````", "```js\nunclosed", "//\n\n// title", "\xff", "/* c */"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := readPrompt([]sdk.ContentBlock{sdk.TextBlock(s)})
		switch {
		case err != nil:
			return
		case a.command == "help":
			if !strings.Contains(strings.ToLower(s), "help") && !strings.Contains(s, "?") {
				t.Errorf("%q is parsed as /help", s)
			}
		case a.command != "":
			if !strings.Contains(s, "/"+a.command) {
				t.Errorf("%q is parsed as /%s", s, a.command)
			}
		case a.note != "":
			if !strings.Contains(s, "```") || a.code != "" {
				t.Errorf("%q is answered %q, with code %q", s, a.note, a.code)
			}
		case !strings.Contains(s, "```") && a.code != s:
			t.Errorf("%q is run as %q", s, a.code)
		}
		if !utf8.ValidString(a.title) || strings.ContainsAny(a.title, "\n\r") || utf8.RuneCountInString(a.title) > maxTitle || a.title == "" {
			t.Errorf("%q has the title %q", s, a.title)
		}
	})
}

func TestUnfenced(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"1":                "1",
		"```js\na\nb\n```": "a\nb",
		"do:\n```TypeScript\na\n```\nand\n```mjs\nb\n```": "a\nb",
		"```python\na\n```":    "```python\na\n```",
		"```\na\n```":          "a",
		"x\n```\na\n```":       "x\n```\na\n```",
		"```js\na":             "```js\na",
		"````ts\n```\na\n````": "```\na",
		"x = `\n```js\n`":      "x = `\n```js\n`",
	} {
		if got := codeInFences(in); got != want {
			t.Errorf("%q is run as %q, want %q", in, got, want)
		}
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", strings.Repeat("é", chunkBytes), strings.Repeat("x", chunkBytes) + "😀", strings.Repeat("😀", chunkBytes/2)} {
		var all strings.Builder
		for _, u := range chunks("m", s) {
			part := u.AgentMessageChunk.Content.Text.Text
			if part == "" || len(part) > chunkBytes || !utf8.ValidString(part) {
				t.Errorf("a part of %d bytes, valid: %t", len(part), utf8.ValidString(part))
			}
			all.WriteString(part)
		}
		if all.String() != s {
			t.Errorf("%d bytes come out as %d", len(s), all.Len())
		}
	}
}

// TestInterrupted: a prompt whose run was not requested is rendered as failed.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	r := rendering{prompt: projections.AgentPrompt{PromptID: "p", ExecutionID: "e"}}
	list := r.interruptedUpdates()
	if len(list) != 2 || list[0].ToolCallUpdate == nil || *list[0].ToolCallUpdate.Status != sdk.ToolCallStatusFailed || list[1].AgentMessageChunk == nil {
		t.Errorf("it is rendered as %+v", list)
	}
	r.prompt.Title = "t"
	if done := r.endUpdates(projections.RunTrace{Status: events.StatusCancelled}, shownArtifacts{}); len(done) != 1 {
		t.Errorf("a cancelled run is rendered as %+v", done)
	}
}

func TestToolServers(t *testing.T) {
	t.Parallel()
	l := toolServers([]sdk.McpServer{
		{Stdio: &sdk.McpServerStdio{Name: "a b", Command: "/x"}}, {Stdio: &sdk.McpServerStdio{Name: "a.b", Command: "/x"}},
		{Http: &sdk.McpServerHttpInline{Name: "a_b", Url: "http://x"}}, {Sse: &sdk.McpServerSseInline{Name: "", Url: "http://x"}}, {},
		{Stdio: &sdk.McpServerStdio{Name: strings.Repeat("é", 100), Command: "/x"}},
	}, events.AgentWorkspace{Cwd: "/work"})
	var names []string
	for _, s := range l.servers {
		names = append(names, s.Name)
		if s.Transport == "stdio" && s.Dir != "/work" {
			t.Errorf("%s is started in %q", s.Name, s.Dir)
		}
	}
	if got := strings.Join(names, " "); got != "a_b a.b a_b_2 server "+strings.Repeat("_", 60) || len(l.unusable) != 1 {
		t.Errorf("the servers are called %s; %v cannot be used", got, l.unusable)
	}
}

// Each server that cannot be used is reported, also if other servers have its name.
func TestUnusableServersOfTheSameName(t *testing.T) {
	t.Parallel()
	var list []sdk.McpServer
	for range maxServers {
		list = append(list, sdk.McpServer{Stdio: &sdk.McpServerStdio{Name: "files", Command: "/x"}})
	}
	for _, name := range []string{"server 1", "web", "web", "files"} {
		list = append(list, sdk.McpServer{Http: &sdk.McpServerHttpInline{Name: name, Url: "http://x"}})
	}
	l := toolServers(append([]sdk.McpServer{{}}, list...), events.AgentWorkspace{})
	if got := strings.Join(slices.Sorted(maps.Keys(l.unusable)), ", "); got != "files_65, server 1, server 1_2, web, web_2" || len(l.names()) != len(list)+1 {
		t.Errorf("%s cannot be used, of %d servers", got, len(l.names()))
	}
}
