package acp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"daybook/events"
)

// TestAttachmentsDoNotChangeCode: a prompt with attachments runs and is recorded as
// it was sent. Attachments change neither its value nor its positions and directives.
func TestAttachmentsDoNotChangeCode(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	p.prompt(id, "1")
	for _, test := range []struct{ code, want string }{
		{"let x = 5", ""},
		{"function f() { return prompt }", ""},
		{"class C {}", ""},
		{"// prompt", ""},
		{"/* prompt */", ""},
		{"type T = 1", ""},
		{"var z = 1", ""},
		{"enum E { A }", ""},
		{"let prompted = 'prompt'", ""},
		{"5 // prompt", "5"},
		{"#!/usr/bin/env daybook\nprompt.resources.length", "1"},
		{"'use strict'; (function () { return typeof this })() + prompt.resources.length", "undefined1"},
		{"// first\n'use strict'; (function () { return typeof this })()", "undefined"},
		{"const n: number = prompt.resources.length; n", "1"},
		{"nope.a.b", "ReferenceError: nope is not defined\n    at prompt.ts:1:1"},
		{"null.prompt", "    at prompt.ts:1:6"},
		{"const y = = 1 // prompt", "    at prompt.ts:1:11"},
	} {
		mark := p.mark()
		p.mustCall("session/prompt", obj{"sessionId": id, "prompt": []obj{
			{"type": "text", "text": test.code},
			{"type": "resource", "resource": obj{"uri": "file:///a.txt", "text": "attached \u2028 text"}},
		}}, nil)
		list := updates(t, p.messagesSince(mark), id)
		got := strings.Join(messageTexts(list), "\n")
		matches := got == test.want
		if strings.Contains(test.want, "prompt.ts") { // an error, which may have more lines
			matches = strings.Contains(got, test.want)
		}
		if !matches {
			t.Errorf("%q returns %q, want %q", test.code, got, test.want)
		}
		for _, u := range list {
			if u.ToolCall == nil {
				continue
			}
			past, err := sharedDaybook.book.History(waitContext(t), string(u.ToolCall.ToolCallId))
			if err != nil {
				t.Fatal(err)
			}
			d := past[0].Data.(*events.ExecutionRequested)
			if source := d.Content.Value().Source.Text; source != test.code || d.SourceSHA256 != events.Hash([]byte(test.code)) {
				t.Errorf("%q is recorded as %q", test.code, source)
			}
			var given struct {
				Prompt struct{ Resources []struct{ URI, Text string } }
			}
			if globals := d.Content.Value().Globals; globals == nil || json.Unmarshal([]byte(globals.Text), &given) != nil ||
				len(given.Prompt.Resources) != 1 || given.Prompt.Resources[0].Text != "attached \u2028 text" {
				t.Errorf("the attachment of %q is recorded as %+v", test.code, globals)
			}
		}
	}
}

// TestPromptIsAName: scripts may declare the name prompt, and the first prompt after a
// load runs as it was sent.
func TestPromptIsAName(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	expect := func(code, want string) {
		t.Helper()
		if got := p.promptTexts(id, code); strings.Join(got, "\n") != want {
			t.Errorf("%q returns %q, want %q", code, got, want)
		}
	}
	expect("let prompt = 'mine'", "")
	expect("prompt", "mine")
	expect("globalThis.prompt.resources.length + prompt", "0mine")
	p.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	expect("let first = 1", "")
	expect("'use strict'; prompt + globalThis.prompt.resources.length", "mine0")
	expect("/reset", "The next prompt starts from an empty heap.")
	expect("prompt.resources.length", "0")
	expect("function prompt() {}", "")
	expect("prompt.resources.length", "0")
}

// TestLargeAttachment: an attachment that no event and no literal can hold reaches the
// run complete. Attachments of more than 16 MiB are refused before anything is
// recorded.
func TestLargeAttachment(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow under the race detector: 9 MiB of JSON pass several decoders")
	}
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	large := strings.Repeat("line of the attached file\n", 40_000)
	attach := func(code, text string) []obj {
		return []obj{{"type": "text", "text": code}, {"type": "resource", "resource": obj{"uri": "file:///large", "text": text}}}
	}
	mark := p.mark()
	p.mustCall("session/prompt", obj{"sessionId": id, "prompt": attach("globalThis.kept = prompt.resources[0].text; kept.split('\\n').length", large)}, nil)
	if got := messageTexts(updates(t, p.messagesSince(mark), id)); !slices.Equal(got, []string{"40001"}) {
		t.Errorf("the run returns %q", got)
	}
	if got := p.promptTexts(id, "kept.length + '|' + prompt.resources.length"); !slices.Equal(got, []string{"1040000|0"}) {
		t.Errorf("the next run returns %q", got)
	}
	// The line has 9 MiB, and JSON that Daybook writes escapes each of its characters.
	p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":999,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"1"},{"type":"resource","resource":{"uri":"file:///l","text":"%s"}}]}}`, id, strings.Repeat("\u2028", 3<<20)))
	m := p.awaitAnswer(999)
	if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, "attach less") {
		t.Errorf("attachments of more than 16 MiB: %.300s", m.line)
	}
	if got := p.promptTexts(id, "/history"); len(got) != 1 || strings.Count(got[0], ", run ") != 2 {
		t.Errorf("after the refusal the history is %q", got)
	}
}

// TestSearchFindsSentCode: the search for code, a replay and the recorded run show
// the code of a prompt as it was sent.
func TestSearchFindsSentCode(t *testing.T) {
	t.Parallel()
	p := shared(t)
	id := p.newSession()
	name := "found" + strings.ReplaceAll(id, "-", "") // in no other run of the shared Daybook
	p.mustCall("session/prompt", obj{"sessionId": id, "prompt": []obj{
		{"type": "text", "text": "let " + name + " = prompt.resources.length"}, {"type": "resource_link", "name": "a", "uri": "file:///secret8462"},
	}}, nil)
	count := func(word string) int {
		t.Helper()
		resp := httptest.NewRecorder()
		sharedDaybook.book.Handler().ServeHTTP(resp, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/executions?text="+word, nil))
		var page struct{ Executions []json.RawMessage }
		if err := json.Unmarshal(resp.Body.Bytes(), &page); err != nil || resp.Code != http.StatusOK {
			t.Fatalf("search %q: %d %s, %v", word, resp.Code, resp.Body, err)
		}
		return len(page.Executions)
	}
	if n := count(name); n != 1 {
		t.Errorf("a search for the code finds %d runs", n)
	}
	if n := count("secret8462"); n != 0 {
		t.Errorf("a search for the attachment finds %d runs by their code", n)
	}
	// The replay and the recorded run show only the code.
	mark := p.mark()
	p.mustCall("session/load", obj{"sessionId": id, "cwd": os.TempDir(), "mcpServers": []any{}}, nil)
	list := updates(t, p.messagesSince(mark), id)
	at := slices.IndexFunc(list, func(u sdk.SessionUpdate) bool { return u.ToolCall != nil })
	if at < 0 || list[at].ToolCall.RawInput.(map[string]any)["code"] != "let "+name+" = prompt.resources.length" {
		t.Errorf("the replay shows %s", strings.Join(asJSON(t, list), "\n"))
	}
	if links := strings.Count(strings.Join(asJSON(t, list), "\n"), "secret8462"); links != 1 {
		t.Errorf("the replay names the attachment %d times, want once", links)
	}
}
