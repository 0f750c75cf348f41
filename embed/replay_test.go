package embed_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"daybook/embed"
	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/web/access"
	"daybook/projections"
)

// replayIn replays an execution and returns the verdict.
func replayIn(t *testing.T, book *embed.Daybook, id string) (r httpapi.Replayed) {
	t.Helper()
	status, body := postTo(t, book, "/api/executions/"+id+"/replay", "")
	if err := json.Unmarshal([]byte(body), &r); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return r
}

// Close ends replays at once. Their clients are asked to try again.
func TestCloseEndsReplays(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: true}})
	e := run(t, book, embed.Script{Code: "let n = 0; for (let i = 0; i < 3e8; i++) n = (n * 31 + i) | 0; n"})
	answered := make(chan string)
	reached := make(chan struct{})
	go func() {
		close(reached)
		_, body := postTo(t, book, "/api/executions/"+e.ExecutionID+"/replay", "")
		answered <- body
	}()
	<-reached
	if err := book.Close(); err != nil {
		t.Error(err)
	}
	if body := <-answered; !strings.Contains(body, "the server is shutting down; try again when it is back") {
		t.Errorf("the answer is %s", body)
	}
}

// A replay answers with its timeline if the request asks for it.
func TestReplayWithATimeline(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{})
	e := run(t, book, embed.Script{Code: "setTimeout(function tick() { console.log('<tick>') }, 20); 7"})
	path := "/api/executions/" + e.ExecutionID + "/replay"
	status, body := postTo(t, book, path, `{"timeline":true}`)
	var r httpapi.Replayed
	if err := json.Unmarshal([]byte(body), &r); status != http.StatusOK || err != nil || r.Timeline == nil || r.Verdict != events.ReplayIdentical {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	var steps []string
	for _, s := range r.Timeline.Steps {
		steps = append(steps, fmt.Sprint(s.OffsetMS, s.Kind, s.Name, s.Text, s.DelayMillis, s.Line))
	}
	want := []string{"20timersetTimeouttick20 0", "20outputlog<tick>0 1", "20endcompleted70 0"}
	if !slices.Equal(steps, want) || r.Timeline.Timers != 1 || r.Timeline.Lines != 1 || r.Timeline.Cut {
		t.Errorf("%q, %+v", steps, r.Timeline)
	}
	for _, none := range []string{"", "{}", `{"timeline":false}`} {
		if status, body := postTo(t, book, path, none); status != http.StatusOK || strings.Contains(body, "timeline") {
			t.Errorf("%s: %d %s", none, status, body)
		}
	}
	for _, bad := range []string{`{"timeline":1}`, `{"timelines":true}`, `[]`} {
		if status, body := postTo(t, book, path, bad); status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
}

// Other code is executed with the inputs of a run. It leaves a line in the log, and neither an
// event nor a heap.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	var log journal
	book := start(t, embed.Options{Content: embed.ContentOptions{Erasable: true}, Logger: log.logger()})
	e := run(t, book, embed.Script{Code: "const kept = 1; console.log('a'); kept", Session: "private"})
	// The ledger records its signers and checkpoints meanwhile.
	recorded := func() string {
		_, all := answerOf(t, book, http.MethodGet, "/api/events")
		var own []string
		for line := range strings.Lines(all) {
			if !strings.Contains(line, `"tenant":"`+events.LedgerTenant+`"`) {
				own = append(own, line)
			}
		}
		return strings.Join(own, "")
	}
	events0 := recorded()
	for !strings.Contains(events0, string(events.TypeSessionEntryRecorded)) { // follows the end of the run
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
		events0 = recorded()
	}
	path := "/api/executions/" + e.ExecutionID + "/what-if"
	status, body := postTo(t, book, path, `{"code":"const kept: number = 2; console.log('b'); kept","file_name":"other.ts"}`)
	var w httpapi.WhatIf
	if err := json.Unmarshal([]byte(body), &w); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if !w.Executed || w.IsEqual || *w.Recorded.Text != "1" || *w.New.Text != "2" || len(w.Output.Changes) != 2 || w.Globals == nil || len(w.Globals.Changed) != 1 || w.Globals.Changed[0].New.Preview != "2" {
		t.Errorf("%s", body)
	}
	if events1 := recorded(); events1 != events0 {
		t.Errorf("events were recorded: %s", events1)
	}
	if text := log.String(); strings.Count(text, "executes other code with the inputs of a recorded run") != 1 || !strings.Contains(text, e.ExecutionID) || strings.Contains(text, "kept") {
		t.Errorf("the log: %s", text)
	}
	for _, bad := range []string{"", "{}", `{"code":1}`, `{"code":"1","more":2}`, `{"code":"a\u0000b"}`, `{"code":"1","file_name":"a\nb"}`} {
		if status, body := postTo(t, book, path, bad); status < 400 || status >= 500 {
			t.Errorf("%s: %d %s", bad, status, body)
		}
	}
	if status, body := postTo(t, book, "/api/executions/019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3/what-if", `{"code":"1"}`); status != http.StatusNotFound {
		t.Errorf("an unknown execution: %d %s", status, body)
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/private/content"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := postTo(t, book, path, `{"code":"kept"}`); status != http.StatusOK || !strings.Contains(body, `"executed":false,"reason":"content_shredded"`) {
		t.Errorf("%d %s", status, body)
	}
}

// An execution has the newest verdict of its replays, without texts of a difference, also after a
// restart and a rebuild.
func TestLastReplay(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir(), Content: embed.ContentOptions{Erasable: true}}
	book := startEngine(t, opts, "Math.cbrt = () => 3;")
	e := run(t, book, embed.Script{Code: "console.log('a'); console.log('secret', Math.cbrt(8))", Session: "private"})
	if e.Replay != nil {
		t.Errorf("before a replay: %+v", e.Replay)
	}
	detail := func(book *embed.Daybook) (d projections.ExecutionDetail) {
		t.Helper()
		status, body := answerOf(t, book, http.MethodGet, "/api/executions/"+e.ExecutionID)
		if err := json.Unmarshal([]byte(body), &d); status != http.StatusOK || err != nil {
			t.Fatalf("%d %s: %v", status, body, err)
		}
		if d.Replay == nil {
			t.Fatalf("no replay: %s", body)
		}
		return d
	}
	replayIn(t, book, e.ExecutionID)
	if r := detail(book).Replay; r.Verdict != events.ReplayIdentical || r.Part != "" || r.EngineID != deref(e.EngineID) || r.Seq == 0 || r.At == "" {
		t.Errorf("%+v", r)
	}
	closeBook(t, book)
	book = start(t, opts)
	replayIn(t, book, e.ExecutionID)
	want := detail(book)
	if r := want.Replay; r.Verdict != events.ReplayDifferent || r.Part != events.ReplayOutput || r.Line != 2 || r.EngineID == deref(e.EngineID) || want.Seq != detail(book).Seq {
		t.Errorf("%+v", r)
	}
	closeBook(t, book)
	if err := os.Remove(filepath.Join(opts.DataDir, "projections.db")); err != nil {
		t.Fatal(err)
	}
	book = start(t, opts)
	if r := detail(book).Replay; *r != *want.Replay {
		t.Errorf("rebuilt: %+v, want %+v", r, want.Replay)
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/private/content"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if r := detail(book).Replay; *r != *want.Replay {
		t.Errorf("shredded: %+v", r)
	}
}

// A what-if counts as a run of its tenant, and shows artifacts.
func TestWhatIfCountsAsRun(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Access: embed.AccessOptions{Limits: access.Limits{Runs: 1}}})
	e := run(t, book, embed.Script{Code: `artifact("a.txt", "text/plain", new Uint8Array(3)); 1`})
	path := "/api/executions/" + e.ExecutionID + "/what-if"
	status, body := postTo(t, book, path, `{"code":"1"}`)
	var w httpapi.WhatIf
	if err := json.Unmarshal([]byte(body), &w); status != http.StatusOK || err != nil {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if a := w.Artifacts; w.IsEqual || a.IsEqual || a.Recorded != 1 || a.Artifacts != 0 || len(a.Changes) != 1 || a.Changes[0].Op != "removed" || a.Changes[0].Name != "a.txt" || a.Changes[0].Size != 3 {
		t.Errorf("%s", body)
	}
	_, body = postTo(t, book, "/api/exec", `{"code":"await new Promise(done => setTimeout(done, 1e6))"}`)
	var waits struct {
		ExecutionID string `json:"execution_id"`
	}
	if err := json.Unmarshal([]byte(body), &waits); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if status, body := postTo(t, book, path, `{"code":"1"}`); status != http.StatusTooManyRequests || !strings.Contains(body, "limit-runs") {
		t.Errorf("%d %s", status, body)
	}
	if status, body := postTo(t, book, "/api/executions/"+waits.ExecutionID+"/cancel", ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
}

// A verdict is recorded with its texts encrypted, and shredded with the run. A replay of a
// shredded run reveals nothing.
func TestReplayOfShreddedRuns(t *testing.T) {
	t.Parallel()
	const secret = "a-very-private-word"
	book := start(t, embed.Options{Content: embed.ContentOptions{Erasable: true}})
	e := run(t, book, embed.Script{Code: "console.log('" + secret + "'); '" + secret + "'", Session: "private"})
	if r := replayIn(t, book, e.ExecutionID); r.Verdict != events.ReplayIdentical || len(r.Compared) != 6 {
		t.Errorf("%+v", r)
	}
	if status, body := answerOf(t, book, http.MethodDelete, "/api/sessions/private/content"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	status, body := postTo(t, book, "/api/executions/"+e.ExecutionID+"/replay", "")
	if status != http.StatusOK || strings.Contains(body, secret) || !strings.Contains(body, `"content_shredded"`) {
		t.Errorf("%d %s", status, body)
	}
	if status, body := answerOf(t, book, http.MethodGet, "/api/events"); status != http.StatusOK || strings.Contains(body, secret) || strings.Count(body, string(events.TypeExecutionReplayed)) != 2 {
		t.Errorf("the events: %d %s", status, body)
	}
}

// Another tenant cannot replay a run, nor find out that it exists.
func TestReplaysOfOtherTenants(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, embed.Options{})
	mine, other := g.token("acme", "ada", access.AllScopes), g.token("other", "eve", access.AllScopes)
	g.await(mine)
	g.await(other)
	own := g.owns(mine, "acmeword")
	path := "/api/executions/" + own.execution + "/replay"
	if status, body := g.ask(mine, http.MethodPost, path, ""); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	unknown := strings.Replace(path, own.execution, "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3", 1)
	status, body := g.ask(other, http.MethodPost, path, "")
	wantStatus, wantBody := g.ask(other, http.MethodPost, unknown, "")
	if status != http.StatusNotFound || status != wantStatus || strings.ReplaceAll(body, own.execution, "") != strings.ReplaceAll(wantBody, "019ab3c4-6a3e-7c51-8f0e-2b9d54e1a7f3", "") {
		t.Errorf("%d %s, want %d %s", status, body, wantStatus, wantBody)
	}
}

// A replay ends when its client disconnects.
func TestReplayOfDisconnectedClient(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: true}})
	e := run(t, book, embed.Script{Code: "let n = 0; for (let i = 0; i < 3e8; i++) n = (n * 31 + i) | 0; n"})
	ctx, disconnect := context.WithCancel(within(t))
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1/api/executions/"+e.ExecutionID+"/replay", nil)
	go disconnect()
	book.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if _, body := answerOf(t, book, http.MethodGet, "/api/events"); strings.Contains(body, string(events.TypeExecutionReplayed)) {
		t.Errorf("a verdict is recorded: %s", body)
	}
}

// A heap that was lost with accepted damage is not reported as a heap that was deleted.
func TestReplayWithoutInputHeap(t *testing.T) {
	t.Parallel()
	opts := embed.Options{DataDir: t.TempDir()}
	book := start(t, opts)
	_, heap := completes(t, book, embed.Script{Code: "globalThis.n = 1"})
	e := run(t, book, embed.Script{Code: "n + 1", Heap: heap})
	closeBook(t, book)
	damageBlobs(t, opts.DataDir)
	opts.Storage.AcceptDamage = true
	if r := replayIn(t, start(t, opts), e.ExecutionID); r.Verdict != events.NotReplayed || r.Reason != "heap_missing" {
		t.Errorf("%+v", r)
	}
}
