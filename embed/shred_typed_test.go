package embed_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/lifecycle/retention"
)

// formsOf returns the forms in which a file may hold a text: as it is, as one byte for each
// character, in UTF-16, with escapes of JSON for some characters or for all, percent-encoded, in
// hexadecimal, and each in base64 at the three offsets; and its hash.
func formsOf(text string) map[string]string {
	var wide, narrow []byte
	escaped, all := "", ""
	for _, unit := range utf16.Encode([]rune(text)) {
		wide = append(wide, byte(unit), byte(unit>>8))
		narrow = append(narrow, byte(unit)) // the marks have no characters above U+00FF
		code := fmt.Sprintf(`\u%04x`, unit)
		all += code
		if unit > unicode.MaxASCII {
			escaped += code
		} else {
			escaped += string(rune(unit))
		}
	}
	inJSON := func(text string) string {
		raw, err := json.Marshal(text)
		if err != nil {
			panic(err) // strings always encode
		}
		return string(raw[1 : len(raw)-1])
	}
	forms := map[string]string{
		"UTF-8": text, "Latin-1": string(narrow), "UTF-16": string(wide), "escapes": escaped, "escapes in capitals": strings.ReplaceAll(strings.ToUpper(escaped), `\U`, `\u`),
		"escapes only": all, "JSON": inJSON(text), "JSON in JSON": inJSON(inJSON(text)), "percent": url.QueryEscape(text), "hexadecimal": hex.EncodeToString([]byte(text)),
	}
	for name, form := range maps.Clone(forms) {
		for offset := range 3 {
			encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + form))
			forms[fmt.Sprintf("%s in base64 at %d", name, offset)] = encoded[4 : len(encoded)-4]
			encoded = base64.URLEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + form))
			forms[fmt.Sprintf("%s in base64url at %d", name, offset)] = encoded[4 : len(encoded)-4]
		}
	}
	sum := sha256.Sum256([]byte(text))
	forms["hash"], forms["bytes of the hash"], forms["hash in base64"] = hex.EncodeToString(sum[:]), string(sum[:]), base64.StdEncoding.EncodeToString(sum[:])
	return forms
}

// filesWithAny returns for each form the files below a directory that contain it.
func filesWithAny(t *testing.T, dir string, forms map[string]string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && !d.Type().IsRegular() {
			return nil
		}
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) { // it was deleted meanwhile
			return nil
		}
		for name, form := range forms {
			if bytes.Contains(raw, []byte(form)) || strings.Contains(path, form) {
				rel, _ := filepath.Rel(dir, path)
				found[name] = append(found[name], rel)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What a person typed is nowhere in the data directory, in no export, in no metric and in no log
// once it is shredded: in a named session, in a logical one, in an editor, and outside of
// sessions.
func TestNothingTypedSurvives(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said, posted := new(shared), new(shared)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(posted, r.Body)
		w.WriteHeader(http.StatusBadGateway) // an attempt that fails is recorded
	}))
	t.Cleanup(receiver.Close)
	configuration := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(configuration, fmt.Appendf(nil, `{"mcpServers": {"weather": {"url": %q, "headers": {"Authorization": "Bearer some-key-4711"}}}}`, weather(t, "some-key-4711")), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := embed.ReadMCPServers(nil, configuration)
	if err != nil {
		t.Fatal(err)
	}
	opts := embed.Options{
		DataDir: dir, Content: embed.ContentOptions{Erasable: true}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}, Tools: embed.ToolOptions{Servers: servers}, Webhooks: embed.WebhookOptions{AllowPrivate: true},
		Logger: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	book := start(t, opts)
	if status, body := postTo(t, book, "/api/webhooks", `{"url":"`+receiver.URL+`"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	var marks []string
	mark := func(what string) string {
		m := "Typed" + what + "Zw7Qü<ß>x"
		marks = append(marks, m)
		return m
	}
	typed := func(where string) embed.Script {
		return embed.Script{
			Code:     "globalThis.kept = '" + mark(where+"Code") + "'; console.log('" + mark(where+"Output") + "'); '" + mark(where+"Result") + "'",
			FileName: mark(where+"File") + ".ts", Tags: map[string]string{"about": mark(where + "Tag")},
		}
	}
	named, logical, unnamed := typed("Named"), typed("Logical"), typed("Unnamed")
	named.Session = "private"
	first := run(t, book, named)
	run(t, book, embed.Script{Code: "throw new Error('" + mark("Error") + "')", Session: "private"})
	called := run(t, book, embed.Script{Code: "(await mcp.weather.today({ city: '" + mark("Argument") + "' })).city", Session: "private"})
	if deref(called.Result) != marks[len(marks)-1] {
		t.Fatalf("a call: %+v", called)
	}
	e := openEditor(t, book)
	directory := "/" + mark("Directory")
	editing := e.call("session/new", map[string]any{"cwd": directory, "mcpServers": []any{}})["sessionId"].(string)
	e.call("session/prompt", map[string]any{"sessionId": editing, "prompt": []any{
		map[string]any{"type": "text", "text": "globalThis.kept = prompt.resources[0].text; '" + mark("Prompt") + "'"},
		map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///" + mark("Uri"), "text": mark("Global")}},
	}})
	e.prompt(editing, "/help "+mark("Command"))
	e.prompt(editing, "/"+mark("Unknown"))
	e.prompt(editing, "/history")
	status, body := postTo(t, book, "/api/logical-sessions", `{"intent":"`+mark("Intent")+`","seeds":["builtin"]}`)
	var opened struct {
		SessionID string `json:"session_id"`
	}
	if err := json.Unmarshal([]byte(body), &opened); err != nil || opened.SessionID == "" {
		t.Fatalf("%d %s", status, body)
	}
	intent := marks[len(marks)-1]
	logical.LogicalSession = opened.SessionID
	run(t, book, logical)
	left := run(t, book, unnamed)
	r, _ := http.NewRequestWithContext(within(t), http.MethodPut, book.URL()+"/api/heaps/"+deref(left.Heap)+"/tags", strings.NewReader(`{"tags":{"set":"`+mark("SetTag")+`"}}`))
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("set tags: %v, %v", answer, err)
	}
	_ = answer.Body.Close()
	p := &person{t: t, way: way{transport: "http", revision: "2025-11-25"}, word: "w"}
	p.connect(book)
	if got, bad := p.call("set_context", map[string]any{"custom": map[string]any{"kept": mark("Context")}}); bad {
		t.Fatal(got)
	}
	p.call("query_heaps_by_tags", map[string]any{"tags": map[string]any{"about": mark("Search")}})
	if got, bad := p.call("set_heap_tags", map[string]any{"heap": deref(left.Heap), "tags": map[string]any{"set": mark("UnnamedMCPTag")}}); bad {
		t.Fatal(got)
	}
	if got, bad := p.call("set_heap_tags", map[string]any{"heap": deref(first.Heap), "tags": map[string]any{"set": mark("NamedMCPTag")}}); bad {
		t.Fatal(got)
	}
	asked := mark("MCPIntent")
	if got, bad := p.call("open_session", map[string]any{"intent": asked, "seeds": []any{"builtin"}}); bad {
		t.Fatal(got)
	}
	p.call("set_context", map[string]any{"custom": map[string]any{"more": mark("ContextAgain")}})

	search := func(where string) {
		t.Helper()
		for _, m := range marks {
			for form, files := range filesWithAny(t, where, formsOf(m)) {
				t.Errorf("%s, %s: in %q of %s", m, form, files, filepath.Base(where))
			}
		}
		for _, hash := range []string{events.Hash([]byte(intent)), events.IntentKey(events.DefaultTenant, intent), events.Hash([]byte(unnamed.Code)), events.Hash([]byte(logical.Code))} {
			if files := filesWith(t, where, hash); len(files) > 0 {
				t.Errorf("the hash %s is in %q", hash, files)
			}
		}
	}
	search(filepath.Join(dir, "jetstream"))
	for _, m := range marks {
		if len(filesWithAny(t, dir, formsOf(m))) == 0 {
			t.Errorf("%s is nowhere before it is shredded, so that the rest of the test shows nothing about it", m)
		}
	}

	// A note that is in memory only when its content is shredded.
	if got, bad := p.call("query_heaps_by_tags", map[string]any{"tags": map[string]any{"about": mark("SearchAgain")}}); bad {
		t.Fatal(got)
	}
	var last uint64
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/"+url.PathEscape(asked)+"/content"); status != http.StatusOK {
		t.Fatalf("shred a session by its intent: %d %s", status, body)
	}
	for _, target := range []retention.Target{
		retention.Named("private"), {Kind: events.SessionLogical, SessionID: opened.SessionID}, {Kind: events.SessionACP, SessionID: editing}, {Kind: events.SessionNone},
	} {
		done, err := book.Shred(within(t), events.DefaultTenant, target, false, eraser)
		if err != nil || done.Executions == 0 || done.Kept != 0 {
			t.Fatalf("%s: %+v, %v", target, done, err)
		}
		if last = done.Last; target.Kind != events.SessionACP {
			continue
		}
		// All sessions are shredded now. What was typed in them is not elsewhere either.
		await(t, book, last)
		_, body := answerOf(t, book, http.MethodGet, "/api/events?limit=1000")
		if !strings.Contains(body, "TypedUnnamedCode") {
			t.Error("the content without a session cannot be read, so that the answer shows nothing")
		}
		for _, m := range marks {
			if about := strings.TrimPrefix(m, "Typed"); strings.HasPrefix(about, "Unnamed") || strings.HasPrefix(about, "SetTag") || strings.HasPrefix(about, "Context") || strings.HasPrefix(about, "Search") {
				continue
			}
			forms := formsOf(m)
			for form, files := range filesWithAny(t, dir, forms) {
				t.Errorf("%s, %s: in %q after its session is shredded", m, form, files)
			}
			for form, at := range forms {
				if strings.Contains(body, at) {
					t.Errorf("the events have %s, %s, after its session is shredded", m, form)
				}
			}
		}
	}
	await(t, book, last)
	silent := func(what, text string) {
		t.Helper()
		for _, m := range marks {
			for form, at := range formsOf(m) {
				if strings.Contains(text, at) {
					t.Errorf("%s has %s, %s", what, m, form)
				}
			}
		}
	}
	for _, path := range []string{"/api/events", "/api/executions", "/api/sessions", "/api/heaps", "/api/webhooks", "/api/executions/" + called.ExecutionID + "/calls", "/metrics"} {
		_, body := answerOf(t, book, http.MethodGet, path)
		silent(path, body)
	}
	e.call("session/load", map[string]any{"sessionId": editing, "cwd": "/", "mcpServers": []any{}})
	all, _ := p.context()
	silent("the context", all)
	search(dir)
	closeBook(t, book)
	search(dir)
	silent("the log", said.String())
	silent("a webhook", posted.String())
	for name, export := range map[string]embed.ExportOptions{"with heaps": {Blobs: true}, "without heaps": {}, "of a session": {Session: "private"}, "of a run": {Execution: called.ExecutionID}} {
		export.DataDir, export.Dir = dir, filepath.Join(t.TempDir(), "export "+name)
		if _, err := embed.Export(within(t), export); err != nil {
			t.Fatalf("an export %s: %v", name, err)
		}
		search(export.Dir)
		plain := filepath.Join(t.TempDir(), "plain.ndjson")
		if _, err := embed.DecryptExport(within(t), embed.Options{DataDir: dir}, export.Dir, plain); err != nil {
			t.Errorf("decrypt an export %s: %v", name, err)
		}
		search(filepath.Dir(plain))
	}
	if _, err := embed.Rebuild(within(t), opts); err != nil {
		t.Fatal(err)
	}
	search(dir)
}
