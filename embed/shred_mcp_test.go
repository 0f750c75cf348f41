package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
)

// The conversation context lists a run over MCP and the requests about it. Shredding its session
// also removes this content.
func TestShredReachesContexts(t *testing.T) {
	t.Parallel()
	const secret = "Unaussprechliches"
	dir := t.TempDir()
	opts := embed.Options{DataDir: dir, Content: embed.ContentOptions{Erasable: true}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	book := start(t, opts)
	named := &person{t: t, way: way{transport: "http", revision: "2025-11-25", named: true}, word: "mine"}
	named.connect(book)
	other := &person{t: t, way: way{transport: "http", revision: "2025-11-25"}, word: "other"}
	other.connect(book)
	text, bad := named.call("run_js", map[string]any{"code": "console.log('" + secret + "'); '" + secret + "'"})
	var ran struct {
		StructuredContent struct {
			ExecutionID string `json:"execution_id"`
		} `json:"structuredContent"`
	}
	if err := json.Unmarshal([]byte(text), &ran); err != nil || bad || ran.StructuredContent.ExecutionID == "" {
		t.Fatalf("%s, %v", text, err)
	}
	id := ran.StructuredContent.ExecutionID
	if _, err := book.Wait(within(t), id); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*person{named, other} {
		for range 2 {
			if got, bad := p.call("get_execution", map[string]any{"execution_id": id}); bad || !strings.Contains(got, secret) {
				t.Fatalf("%s", got)
			}
			p.call("get_execution_output", map[string]any{"execution_id": id})
			p.read("execution://" + id + "/output")
			p.read("execution://" + id)
		}
		p.call("set_context", map[string]any{"custom": map[string]any{"kept": p.word}}) // the earlier notes are recorded then
	}
	if all, _ := named.context(); !strings.Contains(all, secret) {
		t.Errorf("the context does not list the run: %s", all)
	}
	if found := filesWith(t, filepath.Join(dir, "jetstream"), secret); len(found) != 0 {
		t.Errorf("in the ledger before: %q", found)
	}
	done, err := book.Shred(within(t), events.DefaultTenant, retention.Named("session of mine"), false, eraser)
	if err != nil {
		t.Fatal(err)
	}
	await(t, book, done.Last)
	if found := filesWith(t, dir, secret); len(found) != 0 {
		t.Errorf("after it was shredded the secret is in %q", found)
	}
	for _, p := range []*person{named, other} {
		all, custom := p.context()
		if strings.Contains(all, secret) || custom["kept"] != p.word {
			t.Errorf("%s", all)
		}
		if got, bad := p.call("get_execution_output", map[string]any{"execution_id": id}); !bad || !strings.Contains(got, fmt.Sprintf("by event %d", done.Seq)) {
			t.Errorf("output: %s", got)
		}
		if got, bad := p.call("get_execution", map[string]any{"execution_id": id}); bad || strings.Contains(got, secret) {
			t.Errorf("execution: %s", got)
		}
	}
	e, err := book.Wait(within(t), id)
	if err != nil || e.Heap == nil {
		t.Fatalf("%+v, %v", e, err)
	}
	if got, bad := other.call("run_js", map[string]any{"code": "1", "heap": *e.Heap}); !bad || !strings.Contains(got, "by event") {
		t.Errorf("a run from its heap: %s", got)
	}
}

// read reads a resource.
func (p *person) read(uri string) {
	p.t.Helper()
	if _, err := p.ss.ReadResource(within(p.t), &sdk.ReadResourceParams{URI: uri}); err != nil {
		p.t.Errorf("%s: %v", uri, err)
	}
}

// If a server ended between the recording of a shredding and the destruction of the key, the next
// start destroys the key before it serves.
func TestShredIsFinishedAtTheStart(t *testing.T) {
	t.Parallel()
	const secret = "halb-vernichtet"
	opts := embed.Options{DataDir: t.TempDir(), Content: embed.ContentOptions{Erasable: true, KeyDir: filepath.Join(t.TempDir(), "elsewhere")}}
	book := start(t, opts)
	first := run(t, book, embed.Script{Code: "'" + secret + "'", Session: "private"})
	run(t, book, embed.Script{Code: "globalThis.other = 1; 'stays'", Session: "other"})
	keys := map[string][]byte{}
	list, err := os.ReadDir(opts.Content.KeyDir)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	for _, f := range list {
		path := filepath.Join(opts.Content.KeyDir, f.Name())
		if keys[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	done, err := book.Shred(within(t), events.DefaultTenant, retention.Named("private"), false, eraser)
	if err != nil {
		t.Fatal(err)
	}
	closeBook(t, book)
	for path, raw := range keys {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	book = start(t, opts)
	if list, err := os.ReadDir(opts.Content.KeyDir); err != nil || len(list) != 1 {
		t.Errorf("%d keys are left, %v", len(list), err)
	}
	if e, err := book.Wait(within(t), first.ExecutionID); err != nil || e.Shredded == nil || e.Shredded.Seq != done.Seq || e.Result != nil {
		t.Errorf("%+v, %v", e, err)
	}
	if status, body := answerOf(t, book, http.MethodGet, "/api/executions/"+first.ExecutionID+"/output"); status != http.StatusGone {
		t.Errorf("output: %d %s", status, body)
	}
	if e := run(t, book, embed.Script{Code: "'on'", Session: "other"}); deref(e.Result) != "on" {
		t.Errorf("%+v", e)
	}
}
