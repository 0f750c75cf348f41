package embed_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/exec/worker"
	"daybook/internal/web/access"
	"daybook/projections"
)

// earlier is the addition to the prelude of the engine of an earlier version.
const earlier = "/* an earlier version */"

// startEngine is start for a server of another engine.
func startEngine(t testing.TB, opts embed.Options, prelude string) *embed.Daybook {
	t.Helper()
	opts.NATS.NoSync, opts.Runs.DrainWait = true, -1
	book, err := embed.Start(worker.WithPrelude(within(t), prelude), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeBook(t, book) })
	return book
}

// migrateIn migrates a heap and returns the verdict.
func migrateIn(t *testing.T, book *embed.Daybook, heap string) (m httpapi.MigratedHeap) {
	t.Helper()
	status, body := postTo(t, book, "/api/heaps/"+heap+"/migrate", "")
	if err := json.Unmarshal([]byte(body), &m); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return m
}

// migrations returns the recorded migrations.
func migrations(t *testing.T, book *embed.Daybook) (list []events.HeapMigrated) {
	t.Helper()
	_ = book.Follow(within(t), 0, func(batch []events.Event, last uint64) error {
		for _, e := range batch {
			if d, ok := e.Data.(*events.HeapMigrated); ok {
				list = append(list, *d)
			}
		}
		if batch[len(batch)-1].Seq >= last {
			return os.ErrClosed
		}
		return nil
	})
	return list
}

// started returns the started event of an execution.
func started(t *testing.T, book *embed.Daybook, id string) *events.ExecutionStarted {
	t.Helper()
	for _, e := range history(t, book, id) {
		if d, ok := e.Data.(*events.ExecutionStarted); ok {
			return d
		}
	}
	t.Fatalf("execution %s has no start", id)
	return nil
}

// stateScript leaves closures, classes, a timer, and a counter.
const stateScript = `
	const counter = (() => { let n = 40; return { next: () => ++n } })();
	class Account { #balance = 0; deposit(x) { this.#balance += x; return this } get balance() { return this.#balance } }
	let account = new Account().deposit(5);
	let ticks = 0;
	setInterval(() => ticks++, 1000).unref();
	console.log("made", account.balance, Math.random() > 2, new Date().getTime() > 0);
	counter.next()`

// A run, a chain of runs, and runs of two branches continue from heaps of an earlier engine.
func TestRunsMigrateHeaps(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := startEngine(t, opts, earlier)
	_, first := completes(t, book, embed.Script{Code: stateScript})
	_, second := completes(t, book, embed.Script{Code: "account.deposit(counter.next()); await new Promise(r => setTimeout(r, 3000)); console.log(ticks); ticks", Heap: first})
	thrown := run(t, book, embed.Script{Code: "account.deposit(100); throw new Error('on purpose')", Heap: second})
	_, other := completes(t, book, embed.Script{Code: "account.deposit(1000).balance", Heap: first})
	third := deref(thrown.Heap)
	closeBook(t, book)

	book = start(t, opts)
	e := run(t, book, embed.Script{Code: "[account.balance, ticks >= 2, counter.next(), account instanceof Account].join()", Heap: third})
	if deref(e.Result) != "147,true,43,true" {
		t.Fatalf("%v %v", deref(e.Result), deref(e.Error))
	}
	made := migrations(t, book)
	if len(made) != 1 {
		t.Fatalf("%d migrations: %+v", len(made), made)
	}
	m := made[0]
	if m.Heap != third || m.Verdict != events.MigrationDone || m.Executions != 3 || m.From != "" || m.LastExecutionID != thrown.ExecutionID || m.Parent != second || m.RunID != e.ExecutionID || m.Engine.ID == m.EngineID || m.EngineID == "" {
		t.Errorf("the migration is %+v", m)
	}
	if s := started(t, book, e.ExecutionID); s.InputHeap != m.NewHeap || s.MigratedFrom != third {
		t.Errorf("the run started from %s, a migration of %s", s.InputHeap, s.MigratedFrom)
	}
	if deref(e.InputHeap) != m.NewHeap || deref(e.MigratedFrom) != third || deref(e.RequestedHeap) != third {
		t.Errorf("the run is %+v", e)
	}
	// The migration is used again, and the run and its heap replay.
	if result, _ := completes(t, book, embed.Script{Code: "account.balance", Heap: third}); result != "147" {
		t.Errorf("the second run answers %s", result)
	}
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical || len(r.Compared) != 6 {
		t.Errorf("the replay: %+v", r)
	}
	if result, _ := completes(t, book, embed.Script{Code: "account.balance", Heap: other}); result != "1005" {
		t.Errorf("the other branch answers %s", result)
	}
	if made = migrations(t, book); len(made) != 2 || made[1].Executions != 2 {
		t.Errorf("the migrations: %+v", made)
	}
	var h projections.Heap
	if status, body := answerOf(t, book, http.MethodGet, "/api/heaps/"+m.NewHeap); status != http.StatusOK || json.Unmarshal([]byte(body), &h) != nil || deref(h.MigratedFrom) != third || deref(h.Parent) != second {
		t.Errorf("the new heap: %d %s", status, body)
	}
	if status, body := answerOf(t, book, http.MethodGet, "/api/heaps/"+m.NewHeap+"/lineage"); status != http.StatusOK || !strings.Contains(body, thrown.ExecutionID) || !strings.Contains(body, first) {
		t.Errorf("the lineage: %d %s", status, body)
	}

	// A run of the earlier engine replays from the migration of its input heap, where there is one.
	if r := replayIn(t, book, thrown.ExecutionID); r.Verdict != events.NotReplayed || r.Reason != "engine" || !strings.Contains(r.Message, "daybook heap migrate "+second) {
		t.Errorf("a run without a migration of its heap: %+v", r)
	}
	if m := migrateIn(t, book, second); m.Verdict != events.MigrationDone {
		t.Fatalf("%+v", m)
	} else if r := replayIn(t, book, thrown.ExecutionID); r.Verdict != events.ReplayIdentical || r.MigratedHeap != m.NewHeap || r.EngineID == r.RecordedEngineID {
		t.Errorf("a run with a migration of its heap: %+v", r)
	}

	// A third engine migrates what both left, from the recorded events.
	after := deref(e.Heap)
	closeBook(t, book)
	book = startEngine(t, opts, "/* a later version */")
	if r := migrateIn(t, book, after); r.Verdict != events.MigrationDone || r.Replayed != 4 {
		t.Errorf("%+v", r)
	}
	if r := migrateIn(t, book, after); r.Verdict != events.MigrationDone || !r.Recorded || r.Replayed != 0 {
		t.Errorf("again: %+v", r)
	}
	// An ancestor that is migrated already is used, in a lineage with a migrated heap.
	if r := migrateIn(t, book, m.NewHeap); r.Verdict != events.MigrationDone || r.Replayed != 3 {
		t.Errorf("a migrated heap: %+v", r)
	}
	if result, _ := completes(t, book, embed.Script{Code: "account.balance + counter.next()", Heap: after}); result != "191" {
		t.Errorf("the third engine answers %s", result)
	}

	// After a return to the first engine, its own heap takes the place of its migration.
	closeBook(t, book)
	book = startEngine(t, opts, earlier)
	if r := migrateIn(t, book, m.NewHeap); r.Verdict != events.MigrationDone || r.NewHeap != third || r.Replayed != 0 {
		t.Errorf("back: %+v", r)
	}
	if result, _ := completes(t, book, embed.Script{Code: "account.balance + counter.next()", Heap: m.NewHeap}); result != "190" {
		t.Errorf("the first engine answers %s", result)
	}
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical || r.MigratedHeap != third {
		t.Errorf("a run of a later engine: %+v", r)
	}
}

// Named, logical and ACP sessions continue with another engine.
func TestSessionsMigrateHeaps(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	book := startEngine(t, opts, earlier)
	open := func(book *embed.Daybook) (session string) {
		t.Helper()
		var opened struct {
			SessionID string `json:"session_id"`
			Broken    *string
		}
		if status, raw := call(t, http.MethodPost, book.URL()+"/api/logical-sessions", map[string]any{"intent": "count", "seeds": []string{"builtin"}}, &opened); status != http.StatusOK {
			t.Fatalf("%d %s", status, raw)
		}
		return opened.SessionID
	}
	logical := open(book)
	var heaps []string
	for range 3 {
		_, heap := completes(t, book, embed.Script{Code: "var n = (globalThis.n ?? 0) + 1; n", LogicalSession: logical})
		heaps = append(heaps, heap)
	}
	_, named := completes(t, book, embed.Script{Code: "var m = 7", Session: "daily"})
	agent := openEditor(t, book)
	acp := agent.open()
	agent.prompt(acp, "let agentWas = 'here'; agentWas")
	closeBook(t, book)

	book = start(t, opts)
	if id := open(book); id != logical {
		t.Errorf("the intent opens session %s, not %s", id, logical)
	}
	e := run(t, book, embed.Script{Code: "var n = n + 1; n", LogicalSession: logical})
	if deref(e.Result) != "4" || e.MigratedFrom == nil {
		t.Errorf("the logical session: %v %v", deref(e.Result), deref(e.Error))
	}
	if e := run(t, book, embed.Script{Code: "m + 1", Session: "daily", Heap: named}); deref(e.Result) != "8" || deref(e.MigratedFrom) != named {
		t.Errorf("the named session: %v %v", deref(e.Result), deref(e.Error))
	}
	agent = openEditor(t, book)
	agent.call("session/load", map[string]any{"sessionId": acp, "cwd": "/", "mcpServers": []any{}})
	agent.prompt(acp, "agentWas + 2")
	if made := migrations(t, book); len(made) != 3 || slices.ContainsFunc(made, func(m events.HeapMigrated) bool { return m.Verdict != events.MigrationDone }) {
		t.Errorf("the migrations: %+v", made)
	}
	if e := run(t, book, embed.Script{Code: "n", LogicalSession: logical}); deref(e.Result) != "4" || e.MigratedFrom != nil {
		t.Errorf("the next turn: %v %v %v", deref(e.Result), deref(e.Error), deref(e.MigratedFrom))
	}
	// The session can be set back to a heap of the earlier engine.
	if status, body := postTo(t, book, "/api/sessions/"+logical+"/reset", fmt.Sprintf(`{"heap":%q}`, heaps[0])); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if e := run(t, book, embed.Script{Code: "n", LogicalSession: logical}); deref(e.Result) != "1" || deref(e.MigratedFrom) != heaps[0] {
		t.Errorf("after the reset: %v %v", deref(e.Result), deref(e.Error))
	}
	if status, body := answerOf(t, book, http.MethodGet, "/api/heaps/"+heaps[0]+"/globals"); status != http.StatusConflict || !strings.Contains(body, "migrate it") {
		t.Errorf("the globals of a heap of another engine: %d %s", status, body)
	}
	if m := migrateIn(t, book, heaps[0]); !m.Recorded {
		t.Errorf("%+v", m)
	} else if status, body := answerOf(t, book, http.MethodGet, "/api/heaps/"+m.NewHeap+"/globals"); status != http.StatusOK || !strings.Contains(body, `"n"`) {
		t.Errorf("the globals of its migration: %d %s", status, body)
	}
}

// A difference refuses the migration: in the answer, in the ledger, and for the runs that need
// the heap.
func TestMigrationDiffers(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	book := startEngine(t, opts, "Math.cbrt = () => 3;")
	var opened struct {
		SessionID string `json:"session_id"`
	}
	if status, raw := call(t, http.MethodPost, book.URL()+"/api/logical-sessions", map[string]any{"intent": "roots", "seeds": []string{"builtin"}}, &opened); status != http.StatusOK {
		t.Fatalf("%d %s", status, raw)
	}
	_, first := completes(t, book, embed.Script{Code: "var root = 1; console.log('one')"})
	differs := run(t, book, embed.Script{Code: "console.log('a root'); console.log(root = Math.cbrt(8))", Heap: first})
	_, last := completes(t, book, embed.Script{Code: "root", Heap: deref(differs.Heap)})
	completes(t, book, embed.Script{Code: "console.log(Math.cbrt(8))", LogicalSession: opened.SessionID})
	closeBook(t, book)

	book = start(t, opts)
	e := run(t, book, embed.Script{Code: "root", Heap: last})
	for _, want := range []string{"was made by engine v8-", "cannot be restored by engine", "It cannot be migrated", differs.ExecutionID, "output, line 2", `recorded "3"`, `replayed "2"`} {
		if e.Status != events.StatusFailed || deref(e.Reason) != "heap_engine_mismatch" || !strings.Contains(deref(e.Error), want) {
			t.Errorf("the run is %s: %s; %q is missing", e.Status, deref(e.Error), want)
		}
	}
	made := migrations(t, book)
	if len(made) != 1 || made[0].Verdict != events.MigrationDifferent || made[0].ExecutionID != differs.ExecutionID || made[0].Line != 2 || made[0].NewHeap != "" || made[0].Content.Value().Recorded != "3" {
		t.Fatalf("the migrations: %+v", made)
	}
	// The next run is refused at once, and a client makes the migration try again.
	if status, body := postTo(t, book, "/api/exec", fmt.Sprintf(`{"code":"root","heap":%q}`, last)); status != http.StatusConflict || !strings.Contains(body, "cannot be migrated") || !strings.Contains(body, differs.ExecutionID) {
		t.Errorf("%d %s", status, body)
	}
	if m := migrateIn(t, book, last); m.Verdict != events.MigrationDifferent || m.Difference == nil || m.Difference.Recorded != "3" || m.Difference.Replayed != "2" || m.Difference.Line != 2 || m.ExecutionID != differs.ExecutionID {
		t.Errorf("%+v", m)
	}
	if m := migrateIn(t, book, first); m.Verdict != events.MigrationDone {
		t.Errorf("the heap before the difference: %+v", m)
	}
	if made = migrations(t, book); len(made) != 3 {
		t.Errorf("%d migrations", len(made))
	}
	// A turn of a session fails as before, and the intent starts again.
	turn := run(t, book, embed.Script{Code: "1", LogicalSession: opened.SessionID})
	if deref(turn.Reason) != "session_head_lost" || !strings.Contains(deref(turn.Error), "It cannot be migrated") {
		t.Errorf("the turn: %s", deref(turn.Error))
	}
	if status, raw := call(t, http.MethodPost, book.URL()+"/api/logical-sessions", map[string]any{"intent": "roots", "seeds": []string{"builtin"}}, nil); status != http.StatusOK || !strings.Contains(string(raw), "engine_changed") {
		t.Errorf("%d %s", status, raw)
	}
	if e := run(t, book, embed.Script{Code: "1 + 1", LogicalSession: opened.SessionID}); deref(e.Result) != "2" {
		t.Errorf("after the break: %s", deref(e.Error))
	}
}

// Parallel requests for the same heap replay its lineage once.
func TestMigrationsOfOneHeap(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := startEngine(t, opts, earlier)
	_, heap := completes(t, book, embed.Script{Code: "var n = 1"})
	closeBook(t, book)
	book = start(t, opts)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if i%2 == 0 {
				if m := migrateIn(t, book, heap); m.Verdict != events.MigrationDone {
					t.Errorf("%+v", m)
				}
			} else if e, err := book.Run(within(t), embed.Script{Code: "n", Heap: heap}); err != nil || deref(e.Result) != "1" {
				t.Errorf("%v %v", deref(e.Error), err)
			}
		})
	}
	all.Wait()
	if made := migrations(t, book); len(made) != 1 {
		t.Errorf("%d migrations", len(made))
	}
}

// Host calls of the lineage are answered from the ledger, without the tools.
func TestMigrationAnswersCalls(t *testing.T) {
	const key = "very-secret-key-4712"
	t.Setenv("WEATHER_KEY", key)
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := fmt.Sprintf(`{"mcpServers": {"weather": {"url": %q, "headers": {"Authorization": "Bearer ${WEATHER_KEY}"}}}}`, weather(t, key))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	servers, err := embed.ReadMCPServers(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, bodies := range []string{"", "hash"} {
		opts := embed.Options{DataDir: t.TempDir(), Tools: embed.ToolOptions{Servers: servers, Bodies: bodies}}
		book := startEngine(t, opts, earlier)
		e := run(t, book, embed.Script{Code: `var day = await mcp.weather.today({ city: "Oslo" }); console.log(day.degrees); day.city`})
		if deref(e.Result) != "Oslo" {
			t.Fatalf("%s", deref(e.Error))
		}
		closeBook(t, book)
		opts.Tools = embed.ToolOptions{}
		book = start(t, opts)
		later := run(t, book, embed.Script{Code: "day.degrees", Heap: deref(e.Heap)})
		if bodies == "" && deref(later.Result) != "7" {
			t.Errorf("%s", deref(later.Error))
		}
		if bodies != "" {
			if !strings.Contains(deref(later.Error), "only the hash of the answer to call 1 is recorded") || !strings.Contains(deref(later.Error), e.ExecutionID) {
				t.Errorf("%s", deref(later.Error))
			}
			if m := migrateIn(t, book, deref(e.Heap)); m.Verdict != events.NotMigrated || m.Reason != "answer_not_kept" || m.ExecutionID != e.ExecutionID {
				t.Errorf("%+v", m)
			}
		}
		closeBook(t, book)
	}
}

// A shred of a session reaches its migrated heaps. A shredded lineage cannot be migrated.
func TestMigrationOfShreddedRuns(t *testing.T) {
	t.Parallel()
	const secret = "a-very-private-word"
	opts := embed.Options{DataDir: t.TempDir(), Content: embed.ContentOptions{Erasable: true}}
	book := startEngine(t, opts, earlier)
	_, private := completes(t, book, embed.Script{Code: "var kept = '" + secret + "'", Session: "private"})
	_, fork := completes(t, book, embed.Script{Code: "kept.length", Session: "other", Heap: private})
	closeBook(t, book)
	book = start(t, opts)
	m := migrateIn(t, book, private)
	if m.Verdict != events.MigrationDone {
		t.Fatalf("%+v", m)
	}
	if result, _ := completes(t, book, embed.Script{Code: "kept", Session: "private", Heap: private}); result != secret {
		t.Errorf("the result is %q", result)
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/private/content?force=true"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for _, heap := range []string{private, m.NewHeap} {
		if status, body := answerOf(t, book, http.MethodGet, "/api/heaps/"+heap); status != http.StatusGone {
			t.Errorf("%d %s", status, body)
		}
	}
	if m := migrateIn(t, book, fork); m.Verdict != events.NotMigrated || m.Reason != "content_shredded" || strings.Contains(m.Message, secret) {
		t.Errorf("%+v", m)
	}
	if e := run(t, book, embed.Script{Code: "kept", Heap: fork}); !strings.Contains(deref(e.Error), "It cannot be migrated") || !strings.Contains(deref(e.Error), "shredded") {
		t.Errorf("%s", deref(e.Error))
	}
}

// Another tenant can neither migrate a heap nor find out that it exists.
func TestMigrationsOfOtherTenants(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	opts := embed.Options{DataDir: t.TempDir(), Access: embed.AccessOptions{TokenFile: file}, HTTP: embed.HTTPOptions{Addr: "127.0.0.1:0"}}
	g := &guarded{t: t, file: file}
	g.admin = g.token("ops", "operator", access.AllScopes)
	mine, other := g.token("acme", "ada", access.AllScopes), g.token("other", "eve", access.AllScopes)
	readOnly, err := access.NewScopes(access.Read)
	if err != nil {
		t.Fatal(err)
	}
	reader := g.token("acme", "rex", readOnly)
	g.book = startEngine(t, opts, earlier)
	heapOf := func(token string) (e projections.ExecutionDetail) {
		t.Helper()
		status, body := g.ask(token, http.MethodPost, "/api/exec?wait=60", `{"code":"var n = 1"}`)
		if err := json.Unmarshal([]byte(body), &e); status != http.StatusOK || err != nil || e.Heap == nil {
			t.Fatalf("%d %s %v", status, body, err)
		}
		return e
	}
	own := heapOf(mine)
	closeBook(t, g.book)
	g.book = start(t, opts)
	path := "/api/heaps/" + deref(own.Heap) + "/migrate"
	if status, body := g.ask(reader, http.MethodPost, path, ""); status != http.StatusForbidden {
		t.Errorf("a reader: %d %s", status, body)
	}
	unknown := strings.Repeat("0", 64)
	status, body := g.ask(other, http.MethodPost, path, "")
	wantStatus, wantBody := g.ask(other, http.MethodPost, "/api/heaps/"+unknown+"/migrate", "")
	if status != http.StatusNotFound || status != wantStatus || strings.ReplaceAll(body, deref(own.Heap), "") != strings.ReplaceAll(wantBody, unknown, "") {
		t.Errorf("%d %s, want %d %s", status, body, wantStatus, wantBody)
	}
	if status, body = g.ask(other, http.MethodPost, "/api/exec?wait=60", fmt.Sprintf(`{"code":"typeof n","heap":%q}`, deref(own.Heap))); status != http.StatusOK || !strings.Contains(body, `"undefined"`) {
		t.Errorf("%d %s", status, body)
	}
	if made := migrations(t, g.book); len(made) != 0 {
		t.Errorf("the migrations: %+v", made)
	}
	if status, body = g.ask(mine, http.MethodPost, path, ""); status != http.StatusOK || !strings.Contains(body, `"migrated"`) {
		t.Errorf("%d %s", status, body)
	}
}

// A server that is killed during a migration leaves nothing half done: the next one migrates the
// heap, and the ledger is intact.
func TestKilledDuringMigration(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := startEngine(t, opts, earlier)
	var heap string
	for range 15 {
		_, heap = completes(t, book, embed.Script{Code: "var n = (globalThis.n ?? 0) + 1; for (let i = 0; i < 1e7; i++); n", Heap: heap})
	}
	closeBook(t, book)
	for range 2 {
		kill := startKillable(t, opts.DataDir)
		url, err := os.ReadFile(filepath.Join(opts.DataDir, "url"))
		if err != nil {
			t.Fatal(err)
		}
		requested := make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() {
			req, err := http.NewRequestWithContext(within(t), http.MethodPost, string(url)+"/api/heaps/"+heap+"/migrate", nil)
			if err != nil {
				t.Error(err)
			}
			close(requested)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		})
		<-requested
		for range 20 { // requests that are answered while the migration is under way
			res, err := http.Get(string(url) + "/api/heaps/" + heap)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
		}
		kill()
		asking.Wait()
	}
	book = start(t, opts)
	if result, _ := completes(t, book, embed.Script{Code: "n", Heap: heap}); result != "15" {
		t.Errorf("the run answers %s", result)
	}
	made := migrations(t, book)
	if last := made[len(made)-1]; last.Heap != heap || last.Verdict != events.MigrationDone {
		t.Errorf("the migrations: %+v", made)
	}
	closeBook(t, book)
	if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir}); err != nil || r.Verdict != embed.Unauthenticated {
		t.Errorf("verify: %v\n%s", err, r)
	}
}

// startKillable starts a server in another process, and returns a function that kills it.
func startKillable(t *testing.T, dir string) (kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), "DAYBOOK_TEST_HOLD="+dir), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = in.Close()
	})
	t.Cleanup(kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the other process prints %q, %v", line, err)
	}
	return kill
}
