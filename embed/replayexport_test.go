package embed_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"daybook/embed"
	"daybook/events"
	"daybook/internal/modules/registrytest"
	"daybook/internal/web/access"
)

// A token needs the scope run to replay. Each verdict is an event of its tenant.
func TestReplayOverREST(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{})
	ada, bob := g.token("acme", "ada", access.AllScopes), g.token("other", "bob", access.AllScopes)
	onlyRead, err := access.NewScopes(access.Read)
	if err != nil {
		t.Fatal(err)
	}
	reader := g.token("acme", "eve", onlyRead)
	g.await(reader)
	path := "/api/executions/" + g.owns(ada, "acmeword").execution + "/replay"
	if status, answer := g.ask(ada, http.MethodPost, path, ""); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
	if status, _ := g.ask(reader, http.MethodPost, path, ""); status != http.StatusForbidden {
		t.Errorf("a token that reads only is answered %d", status)
	}
	for token, n := range map[string]int{ada: 1, bob: 0} {
		_, list := g.ask(token, http.MethodGet, "/api/events?limit=1000&type="+string(events.TypeExecutionReplayed), "")
		if got := strings.Count(list, `"verdict":`); got != n {
			t.Errorf("%d verdicts, want %d: %s", got, n, list)
		}
	}
}

// Encrypted runs with long texts and a heap are replayed with their keys.
func TestReplayOfEncryptedRuns(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Content: embed.ContentOptions{Erasable: true}})
	first := run(t, book, embed.Script{Code: `let secret = "m` + strings.Repeat("y", 70000) + `"; console.log("text"); secret`, Session: "s"})
	second := run(t, book, embed.Script{Code: `secret.length + 1`, Heap: *first.Heap, Session: "s"})
	for _, id := range []string{first.ExecutionID, second.ExecutionID} {
		if got := replayIn(t, book, id); got.Verdict != events.ReplayIdentical {
			t.Errorf("the verdict is %+v", got)
		}
	}
}

// An export with encrypted content is replayed with the keys only.
func TestReplayOfAnEncryptedExport(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data"), Content: embed.ContentOptions{Erasable: true}}
	book := start(t, opts)
	run(t, book, embed.Script{Code: `const n = Math.random(); console.log("text", n); n`, Session: "s"})
	key := book.AuditKey()
	closeBook(t, book)
	dir := filepath.Join(t.TempDir(), "export")
	if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	for keys, want := range map[string]string{filepath.Join(opts.DataDir, "keys"): "identical", "": "not_replayed no_keys", t.TempDir(): "not_replayed content_shredded"} {
		var got []string
		err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}, KeyDir: keys}, func(r embed.Replayed) error {
			got = append(got, strings.TrimSpace(string(r.Verdict)+" "+r.Reason))
			return nil
		})
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("with the keys in %q: %q, %v; want %s", keys, got, err, want)
		}
	}
	if err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir}, nil); !errors.Is(err, embed.ErrBadKey) {
		t.Errorf("without a trusted key: %v", err)
	}
	heap, err := filepath.Glob(filepath.Join(dir, "blobs", "heap-*"))
	if err != nil || len(heap) == 0 {
		t.Fatal("the export has no heap")
	}
	if err := os.Truncate(heap[0], 100); err != nil {
		t.Fatal(err)
	}
	unproven, _ := errors.AsType[*embed.VerdictError](embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}}, nil))
	if unproven == nil {
		t.Error("an export with a damaged heap is replayed")
	}
}

// Files that change after the verification of an export are not executed.
func TestReplayOfAChangedExport(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data")}
	book := start(t, opts)
	first := run(t, book, embed.Script{Code: `let counter = 1; counter`})
	run(t, book, embed.Script{Code: `counter + 1`, Heap: *first.Heap})
	key := book.AuditKey()
	closeBook(t, book)
	for name, test := range map[string]struct {
		change func(dir string) error
		want   string
	}{
		"event": {func(dir string) error {
			path := filepath.Join(dir, "events.ndjson")
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.ReplaceAll(string(raw), "counter + 1", "counter + 2")), 0o600)
		}, "the events have changed since the export was verified"},
		"large heap": {func(dir string) error {
			return os.Truncate(filepath.Join(dir, "blobs", "heap-"+*first.Heap), 513<<20)
		}, "a blob at most 512 MiB"},
		"device": {func(dir string) error {
			path := filepath.Join(dir, "blobs", "heap-"+*first.Heap)
			return errors.Join(os.Remove(path), os.Symlink(os.DevNull, path))
		}, "is not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "export")
			if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
				t.Fatal(err)
			}
			var said []string
			err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}, Selected: func(int) {
				if err := test.change(dir); err != nil {
					t.Error(err)
				}
			}}, func(r embed.Replayed) error {
				said = append(said, r.Message)
				return nil
			})
			if err != nil {
				said = append(said, err.Error())
			}
			if all := strings.Join(said, "\n"); !strings.Contains(all, test.want) {
				t.Errorf("%q, want %q", all, test.want)
			}
		})
	}
}

// A recorded session that called tools, fetched from a server and imported packages is replayed
// identically without the tools, the network and the registry, from the data directory and from
// an export. One changed byte of a recorded answer is found by the verification of the export.
func TestReplayWithoutTheTools(t *testing.T) {
	t.Parallel()
	servers, err := embed.ReadMCPServers([]string{"weather=" + openWeather(t)}, "")
	if err != nil {
		t.Fatal(err)
	}
	site, source := newWebsite(t), registrytest.New()
	defer source.Close()
	source.Add("tally", "1.0.0", nil, map[string]string{"index.js": "export class Tally { #n = 0; add(x) { return this.#n += x } }; export const parse = text => JSON.parse(text)"})
	opts := fetching(t, fetchPolicy)
	opts.DataDir, opts.Tools, opts.Runs.Registry = filepath.Join(t.TempDir(), "data"), embed.ToolOptions{Servers: servers}, source.URL
	book := start(t, opts)
	if status, body := postTo(t, book, "/api/modules", `{"specifier":"tally"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	var ids []string
	heap := ""
	for _, code := range []string{
		`const seen = new Map(); seen.set("Oslo", (await mcp.weather.today({ city: "Oslo" })).degrees); console.log(seen)`,
		`const all = await Promise.all(["Bergen", "Tromsø"].map(city => mcp.weather.today({ city }))); for (const a of all) seen.set(a.city, a.degrees + Math.random()); seen`,
		`await mcp.weather.today({ city: "" }).catch(e => e.message)`,
		"import { Tally, parse } from 'tally'; const tally = new Tally(); const r = await fetch('URL/open/echo'); const count = +r.headers.get('x-count'); console.log(parse(await r.text()), count); artifact('count', 'text/plain', `${count}`); tally.add(count)",
		"const [a, b] = await Promise.all([fetch('URL/open/echo', { method: 'POST', body: `${Math.random()}` }), mcp.weather.today({ city: 'Rome' })]); console.log(await a.text()); tally.add(b.degrees + (await import('tally')).parse('1'))",
		"const before = await fetch('URL/closed').catch(e => e.message); console.log(before); tally.add(0)",
		`setTimeout(() => console.log("later", Date.now()), 20); await mcp.weather.none({})`,
	} {
		e := run(t, book, embed.Script{Code: strings.ReplaceAll(code, "URL", site.URL), Heap: heap, Session: "trip"})
		ids = append(ids, e.ExecutionID)
		if e.Heap != nil {
			heap = *e.Heap
		}
	}
	key := book.AuditKey()
	closeBook(t, book)
	site.Close()
	source.Close()

	book = start(t, embed.Options{DataDir: opts.DataDir})
	for i, id := range ids {
		if got := replayIn(t, book, id); got.Verdict != events.ReplayIdentical {
			t.Errorf("run %d: %+v", i, got)
		}
	}
	closeBook(t, book)

	dir := filepath.Join(t.TempDir(), "export")
	if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true}); err != nil {
		t.Fatal(err)
	}
	replayAll := func() (verdicts []string, err error) {
		err = embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}, Session: "trip", Parallel: 2}, func(r embed.Replayed) error {
			verdicts = append(verdicts, string(r.Verdict))
			return nil
		})
		return verdicts, err
	}
	if got, err := replayAll(); err != nil || strings.Join(got, " ") != strings.TrimSpace(strings.Repeat("identical ", len(ids))) {
		t.Errorf("from the export: %q, %v", got, err)
	}
	path := filepath.Join(dir, "events.ndjson")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for before, after := range map[string]string{`\"degrees\":7`: `\"degrees\":8`, `[\"x-count\",\"`: `[\"x-count\",\"1`} {
		changed := strings.Replace(string(raw), before, after, 1)
		if changed == string(raw) {
			t.Fatalf("no event has the answer %s", before)
		}
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := replayAll(); err == nil || !strings.Contains(err.Error(), "NOT INTACT") {
			t.Errorf("with a changed answer: %v", err)
		}
	}
}

// openWeather starts an MCP server that requires no key, and returns its URL.
func openWeather(t *testing.T) string {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "weather", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "today"}, func(_ context.Context, _ *sdk.CallToolRequest, in struct {
		City string `json:"city"`
	}) (*sdk.CallToolResult, any, error) {
		if in.City == "" {
			return nil, nil, errors.New("no city")
		}
		return nil, map[string]any{"city": in.City, "degrees": 7}, nil
	})
	srv := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}

// An export of a session has the migrations of its heaps, which its later turns started from, and
// of the heap of another session that one of its runs started from.
func TestReplayOfAnExportedSessionWithMigratedHeaps(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: filepath.Join(t.TempDir(), "data")}
	book := startEngine(t, opts, earlier)
	first := run(t, book, embed.Script{Code: stateScript, Session: "trip"})
	elsewhere := run(t, book, embed.Script{Code: "let other = 2; other", Session: "elsewhere"})
	second := run(t, book, embed.Script{Code: "account.deposit(1).balance", Heap: deref(first.Heap), Session: "trip"})
	closeBook(t, book)

	book = start(t, opts)
	if m := migrateIn(t, book, deref(second.Heap)); m.Verdict != events.MigrationDone {
		t.Fatalf("%+v", m) // a client asks for it, not a run of the session
	}
	var ids []string
	for _, s := range []embed.Script{
		{Code: "account.deposit(10).balance + counter.next()", Heap: deref(second.Heap)},
		{Code: "other + 1", Heap: deref(elsewhere.Heap)},
	} {
		s.Session = "trip"
		e := run(t, book, s)
		if e.Status != events.StatusCompleted || deref(e.MigratedFrom) != s.Heap {
			t.Fatalf("%s, from %s: %+v", e.Status, deref(e.MigratedFrom), e)
		}
		ids = append(ids, e.ExecutionID)
	}
	if third := run(t, book, embed.Script{Code: "let unrelated = 1", Session: "elsewhere"}); third.Status != events.StatusCompleted {
		t.Fatalf("%+v", third)
	}
	key := book.AuditKey()
	closeBook(t, book)

	for _, execution := range []string{"", ids[1]} {
		dir := filepath.Join(t.TempDir(), "export")
		if _, err := embed.Export(within(t), embed.ExportOptions{DataDir: opts.DataDir, Dir: dir, Blobs: true, Session: "trip", Execution: execution}); err != nil {
			t.Fatal(err)
		}
		want := ids
		if execution != "" {
			want = ids[1:]
		}
		verdicts := map[string]embed.Replayed{}
		err := embed.ReplayExport(within(t), embed.ReplayExportOptions{Dir: dir, Keys: []string{key}, Executions: want}, func(r embed.Replayed) error {
			verdicts[r.ExecutionID] = r
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range want {
			if verdicts[id].Verdict != events.ReplayIdentical {
				t.Errorf("execution %q: %+v", execution, verdicts[id])
			}
		}
	}
}
