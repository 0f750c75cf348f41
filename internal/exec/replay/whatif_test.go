package replay_test

import (
	"encoding/json"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/internal/store/storetest"
	"daybook/ledger"
)

// whatIf executes other code with the inputs of a recording.
func (s *testServer) whatIf(rec *ledger.Recording, code string) replay.WhatIf {
	s.t.Helper()
	w, err := replay.New(replay.Options{Workers: s.pool, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval}).WhatIf(s.t.Context(), rec, replay.Script{Code: []byte(code)})
	if err != nil {
		s.t.Fatalf("what if %.60q: %v", code, err)
	}
	return w
}

// Other code gets the recorded heap, values, seed, clock and answers. The difference names lines,
// the result and globals. No tool is called and no heap is stored.
func TestWhatIf(t *testing.T) {
	s := newTestServer(t)
	before := s.run(`let total = 40; const names = ["a"]; total`)
	code := `total += data.n; console.log("rolled", Math.random(), Date.now()); console.log("old"); const tea = await mcp.shop.price({ of: "tea" }); names.push(tea.given.of); total`
	rec := s.run(code, func(s *ledger.Submission) {
		s.Heap, s.Globals = before.Ending.Heap.SHA256, map[string]json.RawMessage{"data": json.RawMessage(`{"n":2}`)}
	})
	made, events0 := s.tools.made.Load(), s.last()
	if w := s.whatIf(rec, code); !w.IsEqual() || w.Globals == nil || w.Calls != 1 || w.RecordedCalls != 1 || w.Recorded.Text != "42" || w.Output.Recorded != 2 {
		t.Errorf("the same code: %+v", w)
	}
	w := s.whatIf(rec, strings.Replace(strings.Replace(code, `"old"`, `"new"`, 1), "data.n", "data.n * 10 as number", 1))
	if w.IsEqual() || w.New.Status != events.StatusCompleted || w.New.Text != "60" || w.Recorded.Text != "42" || w.Missing != nil {
		t.Errorf("other code: %+v", w)
	}
	changes := w.Output.Changes
	if len(changes) != 3 || changes[0].Op != replay.LineEqual || !strings.HasPrefix(changes[0].Text, "rolled 0.") || changes[1].Op != replay.LineRemoved || changes[1].Text != "old" || changes[2].Op != replay.LineAdded || changes[2].Text != "new" {
		t.Errorf("output: %+v", w.Output)
	}
	if w.Globals == nil || len(w.Globals.Changes) != 1 || w.Globals.Changes[0].Name() != "total" || w.Globals.Changes[0].A.Preview != "42" || w.Globals.Changes[0].B.Preview != "60" {
		t.Errorf("globals: %+v, %s", w.Globals, w.GlobalsMessage)
	}
	w = s.whatIf(rec, `throw new RangeError("no")`)
	if w.New.Status != events.StatusFailed || w.New.Reason != "exception" || !strings.HasPrefix(w.New.Text, "RangeError: no") || w.Output.New != 0 || len(w.Output.Changes) != 2 || w.Globals == nil {
		t.Errorf("an exception: %+v", w)
	}
	w = s.whatIf(rec, `let x = ;`)
	if w.New.Reason != "syntax_error" || w.Globals != nil || w.GlobalsMessage != "the script left no heap" {
		t.Errorf("a syntax error: %+v", w)
	}
	if got := s.tools.made.Load(); got != made || s.last() != events0 {
		t.Errorf("%d calls of tools, %d events", got-made, s.last()-events0)
	}
}

// last returns the position of the newest event.
func (s *testServer) last() uint64 {
	s.t.Helper()
	last, err := s.store.LastSeq(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return last
}

// A call is answered from the record by tool and arguments, in any order. One that the record
// does not hold ends the script.
func TestCallsOfWhatIf(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`const tea = await mcp.shop.price({ of: "tea" }); const milk = await mcp.shop.price({ of: "milk" }); const again = await mcp.shop.price({ of: "tea" }); [tea.price, milk.price, again.price].join()`)
	for _, test := range []struct{ name, code, want string }{
		{"another order", `const again = await mcp.shop.price({ of: "milk" }); const tea = await mcp.shop.price({ of: "tea" }); const last = await mcp.shop.price({ of: "tea" }); [again.price, tea.price, last.price].join()`, "2,1,3"},
		{"fewer calls", `(await mcp.shop.price({ of: "tea" })).price`, "1"},
		{"at a time", `(await Promise.all([3, 1].map(n => mcp.shop.price({ of: "tea" })))).map(a => a.price).join()`, "1,3"},
		{"the clock does not go back", `const t = []; for (const of of ["milk", "tea", "tea"]) { await mcp.shop.price({ of }); t.push(Date.now()) } t[0] <= t[1] && t[1] <= t[2]`, "true"},
		{"timers before answers", `let order = []; setTimeout(() => order.push("timer"), 1); setTimeout(() => order.push("late"), 1e6).unref(); await new Promise(done => setTimeout(done, 2)); await mcp.shop.price({ of: "tea" }); order.push("answer"); order.join()`, "timer,answer"},
		{"unknown tools", `mcp.shop.steal({}).catch(e => e.message.slice(0, 41))`, `shop.steal: MCP server "shop" has no tool`},
	} {
		if w := s.whatIf(rec, test.code); w.New.Status != events.StatusCompleted || w.New.Text != test.want || w.Missing != nil {
			t.Errorf("%s: %+v", test.name, w)
		}
	}
	for _, test := range []struct {
		name, code string
		number     int
		arguments  string
	}{
		{"other arguments", `console.log("asks"); await mcp.shop.price({ of: "tea" }); await mcp.shop.price({ of: "beer" })`, 2, `{"of":"beer"}`},
		{"once too often", `console.log("asks"); for (;;) await mcp.shop.price({ of: "tea" })`, 3, `{"of":"tea"}`},
		{"another tool", `console.log("asks"); await mcp.shop.buy({})`, 1, `{}`},
	} {
		w := s.whatIf(rec, test.code)
		if w.Missing == nil || w.Missing.Number != test.number || w.Missing.Arguments != test.arguments || w.Missing.Server != "shop" || w.New.Status != "" || w.New.Reason != replay.ReasonMissingCall || w.IsEqual() || w.Output.New != 1 {
			t.Errorf("%s: %+v", test.name, w)
		}
	}
	if made := s.tools.made.Load(); made != 3 {
		t.Errorf("%d calls of tools", made)
	}
	stopped := s.run(`await mcp.shop.hang({})`, func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) })
	if w := s.whatIf(stopped, `await mcp.shop.hang({})`); w.New.Reason != replay.ReasonUnanswered || !w.Stopped {
		t.Errorf("unanswered: %+v", w)
	}
	// Code that does not end is stopped at the time limit of the recorded run.
	if w := s.whatIf(stopped, `console.log("loops"); for (;;);`); w.New.Status != events.StatusTimedOut || w.Output.New != 1 {
		t.Errorf("a loop: %+v", w)
	}
	stopped.Started = nil
	if w := s.whatIf(stopped, `1`); w.Reason != replay.ReasonNotExecuted || w.IsEqual() {
		t.Errorf("not executed: %+v", w)
	}
}

// Artifacts of other code are compared with the recorded ones by name, media type and bytes, and
// dropped.
func TestArtifactsOfWhatIf(t *testing.T) {
	s := newTestServer(t)
	code := `artifact("a.txt", "text/plain", new TextEncoder().encode("one")); console.log(1); artifact("b.bin", "application/octet-stream", new Uint8Array(70000)); 1`
	rec := s.run(code)
	before := s.last()
	if w := s.whatIf(rec, code); !w.IsEqual() || w.Artifacts.Recorded != 2 || w.Artifacts.New != 2 {
		t.Errorf("the same code: %+v", w)
	}
	w := s.whatIf(rec, strings.Replace(code, "70000", "70001", 1))
	if c := w.Artifacts.Changes; w.IsEqual() || len(c) != 2 || c[0].Op != replay.LineRemoved || c[0].Number != 2 || c[0].Size != 70000 || c[1].Op != replay.LineAdded || c[1].Size != 70001 || c[1].Name != "b.bin" || c[0].SHA256 == c[1].SHA256 {
		t.Errorf("other bytes: %+v", w.Artifacts)
	}
	w = s.whatIf(rec, `console.log(1); artifact("b.bin", "application/octet-stream", new Uint8Array(70000)); 1`)
	if c := w.Artifacts.Changes; w.IsEqual() || len(c) != 1 || c[0].Op != replay.LineRemoved || c[0].Name != "a.txt" || c[0].MIME != "text/plain" {
		t.Errorf("an artifact less: %+v", w.Artifacts)
	}
	if s.last() != before {
		t.Errorf("%d events", s.last()-before)
	}
}

// Output beyond the limit of recorded output is compared by its hash.
func TestTruncatedOutputOfWhatIf(t *testing.T) {
	s := newTestServer(t)
	s.ledger = ledger.New(s.store, ledger.Options{Logger: storetest.Logger(t), OutputMaxBytes: 100})
	code := `for (let i = 0; i < 50; i++) console.log("line é", i); 1`
	rec := s.run(code)
	if !rec.Ending.Output.Truncated {
		t.Fatalf("%+v", rec.Ending.Output)
	}
	if w := s.whatIf(rec, code); !w.IsEqual() || !w.Output.Cut {
		t.Errorf("the same code: %+v", w.Output)
	}
	for name, other := range map[string]string{"more": strings.Replace(code, "50", "51", 1), "less": strings.Replace(code, "50", "5", 1), "another line": strings.Replace(code, "i);", "i < 40 ? i : 0);", 1)} {
		if w := s.whatIf(rec, other); w.IsEqual() || w.Output.Equal || !w.Output.Cut {
			t.Errorf("%s: %+v", name, w.Output)
		}
	}
}

// Fetches of other code are answered from the record, and one that is not recorded ends it.
func TestFetchesOfWhatIf(t *testing.T) {
	s := newTestServer(t)
	s.tools.site = `{"status":200,"statusText":"OK","url":"https://example.com/a","redirected":false,"headers":[["x-count","1"]],"body":{"text":"hello"}}`
	code := `const r = await fetch("https://example.com/a", { headers: { "X-Key": "1" } }); console.log(r.status, r.headers.get("x-count")); await r.text()`
	rec := s.run(code)
	if rec.Status != events.StatusCompleted || len(rec.Calls) != 1 || rec.Calls[0].Server != events.FetchServer {
		t.Fatalf("%s %+v", rec.Status, rec.Calls)
	}
	made := s.tools.made.Load()
	if w := s.whatIf(rec, code); !w.IsEqual() || w.New.Text != "hello" {
		t.Errorf("the same code: %+v", w)
	}
	if w := s.whatIf(rec, strings.Replace(code, "await r.text()", "(await r.text()).length", 1)); w.New.Text != "5" || !w.Output.Equal || w.Missing != nil {
		t.Errorf("other code: %+v", w)
	}
	w := s.whatIf(rec, strings.Replace(code, "/a", "/b", 1))
	if w.Missing == nil || w.Missing.Server != events.FetchServer || w.Missing.Tool != events.FetchTool || !strings.Contains(w.Missing.Arguments, "https://example.com/b") {
		t.Errorf("another address: %+v", w)
	}
	if s.tools.made.Load() != made {
		t.Error("a request was sent")
	}
}
