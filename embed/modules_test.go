package embed_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/modules/registrytest"
)

// Packages are admitted from a registry, run from the ledger, and replayed without both the
// registry and the admission, also from an export.
func TestModules(t *testing.T) {
	t.Parallel()
	source := registrytest.New()
	defer source.Close()
	source.Add("counter", "1.0.0", map[string]string{"@deep/words": "^2.0.0"}, map[string]string{
		"index.js": "import { word } from '@deep/words'; let n = 0; export const next = () => word + ++n; export const random = Math.random()",
	})
	source.Add("@deep/words", "2.1.0", nil, map[string]string{"index.js": "exports.word = 'n'"})
	source.Add("@deep/words", "3.0.0", nil, map[string]string{"index.js": "exports.word = 'newer'"})
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Runs: embed.RunOptions{Registry: source.URL}}
	book := start(t, opts)

	const code = "import { next, random } from 'npm:counter@1'\nimport { twice } from './lib/util.ts'\nconsole.log(twice(next()), random); next()"
	files := map[string]string{"lib/util.ts": "export const twice = (s: string): string => s + s"}
	e := run(t, book, embed.Script{Code: code, Files: files})
	if e.Status != events.StatusFailed || !strings.Contains(deref(e.Error), "daybook module add counter@1") {
		t.Fatalf("without the package: %s %s", e.Status, deref(e.Error))
	}
	status, body := postTo(t, book, "/api/modules", `{"specifier":"counter@^1"}`)
	if status != http.StatusCreated || strings.Count(body, `"sha512"`) != 2 || !strings.Contains(body, `"package":"@deep/words@2.1.0"`) {
		t.Fatalf("admit: %d %s", status, body)
	}
	asked := source.Requests()
	first := run(t, book, embed.Script{Code: code, Files: files})
	if first.Status != events.StatusCompleted || deref(first.Result) != "n2" {
		t.Fatalf("%s %s %s", first.Status, deref(first.Result), deref(first.Error))
	}
	second := run(t, book, embed.Script{Code: "next() + (await import('npm:counter@1')).next()", Heap: *first.Heap})
	if deref(second.Result) != "n3n4" {
		t.Errorf("the next run returned %s %s", deref(second.Result), deref(second.Error))
	}
	if source.Requests() != asked {
		t.Error("a run asked the registry")
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/modules?package="+url.QueryEscape("@deep/words@2.1.0")); status != http.StatusConflict || !strings.Contains(body, "counter@1.0.0") {
		t.Errorf("a needed dependency: %d %s", status, body)
	}
	status, body = answerOf(t, book, http.MethodDelete, "/api/modules?package=counter@1.0.0")
	if status != http.StatusOK || !strings.Contains(body, `["counter@1.0.0","@deep/words@2.1.0"]`) {
		t.Errorf("remove: %d %s", status, body)
	}
	source.Close()
	if e := run(t, book, embed.Script{Code: code, Files: files}); e.Status != events.StatusFailed {
		t.Errorf("after the removal the run is %s", e.Status)
	}
	for _, id := range []string{e.ExecutionID, first.ExecutionID, second.ExecutionID} {
		if r := replayIn(t, book, id); r.Verdict != events.ReplayIdentical {
			t.Errorf("the replay of %s is %s %s: %+v", id, r.Verdict, r.Message, r.Difference)
		}
	}
	status, body = answerOf(t, book, http.MethodGet, "/api/executions/"+first.ExecutionID+"/events")
	if status != http.StatusOK || strings.Count(body, string(events.TypeExecutionModulesLoaded)) != 1 {
		t.Errorf("the events of the run: %d %s", status, body)
	}
	key := book.AuditKey()
	closeBook(t, book)
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	replayed := 0
	err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}}, func(r embed.Replayed) error {
		replayed++
		if r.Verdict != events.ReplayIdentical {
			t.Errorf("from the export, %s is %s %s", r.ExecutionID, r.Verdict, r.Reason)
		}
		return nil
	})
	if err != nil || replayed != 4 {
		t.Errorf("%d runs were replayed from the export: %v", replayed, err)
	}
}

func TestModulesOfShreddedRuns(t *testing.T) {
	t.Parallel()
	source := registrytest.New()
	defer source.Close()
	source.Add("hello", "1.0.0", nil, map[string]string{"index.js": "exports.hello = 'private-word'"})
	book := start(t, embed.Options{Content: embed.ContentOptions{Erasable: true}, Runs: embed.RunOptions{Registry: source.URL}})
	if status, body := postTo(t, book, "/api/modules", `{"specifier":"hello"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	e := run(t, book, embed.Script{Code: "import { hello } from 'hello'; hello", Session: "private"})
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical {
		t.Errorf("%+v", r)
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/private/content"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if r := replayIn(t, book, e.ExecutionID); r.Reason != "content_shredded" {
		t.Errorf("%+v", r)
	}
}

func TestRefusedModules(t *testing.T) {
	t.Parallel()
	source := registrytest.New()
	defer source.Close()
	source.Add("needs", "1.0.0", map[string]string{"missing": "^1"}, map[string]string{"index.js": ""})
	source.Add("git", "1.0.0", map[string]string{"x": "git+https://evil.example/x.git"}, map[string]string{"index.js": ""})
	source.Add("loud", "1.0.0", map[string]string{"pool": "\x1b[2J" + strings.Repeat("x", 5000)}, map[string]string{"index.js": ""})
	source.Add("beta", "1.0.0-b", nil, map[string]string{"index.js": ""})
	source.Add("loop", "1.0.0", map[string]string{"pool": "1"}, map[string]string{"index.js": ""})
	source.Add("pool", "1.0.0", map[string]string{"loop": "1"}, map[string]string{"index.js": ""})
	book := start(t, embed.Options{Runs: embed.RunOptions{Registry: source.URL}})
	for specifier, want := range map[string]string{
		"absent": "no such package", "needs": "dependency missing of needs@1.0.0", "git": "only packages of the registry", "needs@2": `has no version \"2\"`,
		"loud": `has no version \"\\x1b[2Jxxx`, "beta": "beta has no release in http", "needs/sub": "names a file in a package", "needs@": `has no version after the @: give needs for the newest version, or for example needs@1.2.3`, "jsr:@s/n@": `has no version after the @: give jsr:@s/n for`, "node:fs": "names no package", "../x": "names no package", "http://127.0.0.1/x": "names no package", "": "names no package",
	} {
		body, err := json.Marshal(map[string]string{"specifier": specifier})
		if err != nil {
			t.Fatal(err)
		}
		if status, answer := postTo(t, book, "/api/modules", string(body)); status != http.StatusBadRequest || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s, want %s", specifier, status, answer, want)
		}
	}
	if status, body := postTo(t, book, "/api/modules", `{"specifier":"loop"}`); status != http.StatusCreated || strings.Count(body, `"sha512"`) != 2 {
		t.Errorf("a circle: %d %s", status, body)
	}
	if status, body := answerOf(t, book, http.MethodGet, "/api/modules"); status != http.StatusOK || strings.Count(body, `"sha512"`) != 2 {
		t.Errorf("%d %s", status, body)
	}
}

// Close ends an admission that waits for the registry.
func TestCloseDuringAdmission(t *testing.T) {
	t.Parallel()
	asked, end := make(chan struct{}), make(chan struct{})
	source := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	defer source.Close()
	defer close(end)
	book := start(t, embed.Options{Runs: embed.RunOptions{Registry: source.URL}})
	answers := make(chan string)
	go func() {
		status, body := postTo(t, book, "/api/modules", `{"specifier":"slow"}`)
		answers <- fmt.Sprint(status, body)
	}()
	<-asked
	closeBook(t, book)
	if answer := <-answers; !strings.HasPrefix(answer, "503") || !strings.Contains(answer, "the server is shutting down") {
		t.Error(answer)
	}
}
