package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"daybook/events"
	"daybook/internal/exec/replay"
	"daybook/internal/exec/worker"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/storetest"
	"daybook/internal/store/stream"
	"daybook/ledger"
	"daybook/runner"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// nats.go v1.55.0 starts this goroutine for each stored object and may leave it
		// waiting on a channel that it removed. This module cannot stop it.
		goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// patience limits how long a test waits for a condition.
const patience = 2 * time.Minute

// testServer is a ledger with a runner and real workers.
type testServer struct {
	t      *testing.T
	store  *jetstream.Store
	ledger *ledger.Ledger
	pool   *worker.Pool
	tools  *tools
}

// tools is a tool server. Its answers differ each time, so that a second call cannot be
// mistaken for a replay.
type tools struct {
	made atomic.Int64
	site string // the answer to fetches
}

func (s *tools) Servers(context.Context, ledger.Request) map[string][]string {
	servers := map[string][]string{"shop": {"price", "buy", "hang"}}
	if s.site != "" {
		servers[events.FetchServer] = []string{events.FetchTool}
	}
	return servers
}

func (s *tools) Call(ctx context.Context, _ ledger.Request, c ledger.HostCall) runner.ServerResult {
	n := s.made.Add(1)
	switch c.Tool {
	case events.FetchTool:
		return runner.ServerResult{Outcome: events.HostOK, Text: []byte(s.site)}
	case "buy":
		return runner.ServerResult{Outcome: events.HostError, Text: fmt.Appendf(nil, "sold out, try %d", n)}
	case "hang":
		<-ctx.Done()
	}
	return runner.ServerResult{Outcome: events.HostOK, Text: fmt.Appendf(nil, `{"price":%d,"given":%s}`, n, c.Arguments)}
}

func newTestServer(t *testing.T) *testServer {
	t.Helper()
	pool := newPool(t)
	return newTestServerOn(t, pool, pool)
}

// newTestServerOn returns a server that runs scripts with workers, which use pool.
func newTestServerOn(t *testing.T, pool *worker.Pool, workers runner.Workers, change ...func(*runner.Options)) *testServer {
	t.Helper()
	store := storetest.Open(t, storetest.StartServer(t, t.TempDir()), jetstream.Options{})
	s := &testServer{t: t, store: store, ledger: ledger.New(store, ledger.Options{Logger: storetest.Logger(t)}), pool: pool, tools: &tools{}}
	opts := runner.Options{
		Slots: 2, Ledger: s.ledger, Work: store, Heaps: store, Texts: store, Workers: workers, Servers: s.tools,
		DrainTimeout: patience, RetryDelay: time.Millisecond, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, c := range change {
		c(&opts)
	}
	r := runner.New(opts)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Errorf("runner: %v", err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return s
}

func newPool(t *testing.T) *worker.Pool {
	t.Helper()
	pool := worker.New(worker.Options{Logger: storetest.Logger(t)})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close the workers: %v", err)
		}
	})
	return pool
}

// run submits a script and waits for its end.
func (s *testServer) run(code string, change ...func(*ledger.Submission)) *ledger.Recording {
	s.t.Helper()
	submission := ledger.Submission{Tenant: events.DefaultTenant, Code: code, Actor: events.Actor{Principal: "tester", Transport: "embed"}}
	for _, c := range change {
		c(&submission)
	}
	receipt, err := s.ledger.Submit(s.t.Context(), submission)
	if err != nil {
		s.t.Fatalf("submit %.60q: %v", code, err)
	}
	return s.await(receipt.ExecutionID)
}

// await waits for the end of an execution.
func (s *testServer) await(id string) *ledger.Recording {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		rec, err := s.ledger.Recording(s.t.Context(), events.DefaultTenant, id)
		switch {
		case err == nil:
			return rec
		case ledger.CodeOf(err) != ledger.CodeConflict || time.Now().After(deadline):
			s.t.Fatalf("execution %s: %v", id, err)
		}
		time.Sleep(2 * time.Millisecond) // a poll of the condition
	}
}

// replay replays a recording in a fresh pool of workers, or in pool.
func (s *testServer) replay(rec *ledger.Recording, pool runner.Workers) replay.Report {
	s.t.Helper()
	report, err := replay.New(replay.Options{Workers: pool, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval}).Replay(s.t.Context(), rec)
	if err != nil {
		s.t.Fatalf("replay: %v", err)
	}
	return report
}

// describe returns a report in one line.
func describe(r replay.Report) string {
	text := string(r.Verdict)
	if r.Stopped {
		text += ", stopped"
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	if d := r.Difference; d != nil {
		text += fmt.Sprintf(": %s", d.Part)
		if d.Line > 0 {
			text += fmt.Sprintf(" line %d", d.Line)
		}
		if d.Call > 0 {
			text += fmt.Sprintf(" call %d", d.Call)
		}
		if d.Artifact > 0 {
			text += fmt.Sprintf(" artifact %d", d.Artifact)
		}
		text += fmt.Sprintf(": %q, %q", d.Recorded, d.Replayed)
	}
	return text
}

// Runs of many kinds are replayed identically in other processes. No tool is called.
func TestReplayIsIdentical(t *testing.T) {
	s := newTestServer(t)
	other := newPool(t)
	everything := []events.ReplayPart{events.ReplayOutput, events.ReplayCalls, events.ReplayStatus, events.ReplayJavaScript, events.ReplayResult, events.ReplayHeap}
	withError := slices.Clone(everything)
	withError[4] = events.ReplayError
	var parent string
	for _, test := range []struct {
		name, code string
		compared   []events.ReplayPart
		change     func(*ledger.Submission)
	}{
		{"values and randomness", `console.log(Math.random(), crypto.randomUUID(), Date.now(), new Date().toISOString()); ({ a: Math.random() })`, everything, nil},
		{"undefined", `undefined`, everything, nil},
		{"an empty string", `""`, everything, nil},
		{"timers", `const h = setInterval(() => console.log("tick", Date.now()), 7); setTimeout(() => clearInterval(h), 40); setTimeout(() => console.warn("late"), 20); await new Promise(r => setTimeout(r, 30)); 1`, everything, nil},
		{"TypeScript", `enum Color { Red = 3 } class P<T> { constructor(public x: T) {} } new P<Color>(Color.Red).x as number`, everything, nil},
		{"generators and closures", `function* g() { let n = 0; while (true) yield n++ } const it = g(); it.next(); it.next(); const add = (a => b => a + b)(it.next().value); add(40)`, everything, nil},
		{"exceptions", `console.log("before"); throw new TypeError("bad", { cause: new Error("why") })`, withError, nil},
		{"syntax errors", `let x = ;`, withError, nil},
		{"never settled", `console.log("waits"); await new Promise(() => {})`, withError, nil},
		{"calls", `const seen = []; setTimeout(() => seen.push("timer"), 3); seen.push((await mcp.shop.price({ of: "tea" })).price); seen.push(await mcp.shop.buy({ of: "tea" }).catch(e => e.message)); console.log(JSON.stringify(seen), Date.now()); seen.length`, everything, nil},
		{"calls at a time", `const all = await Promise.all([1, 2, 3, 4, 5].map(of => mcp.shop.price({ of }))); console.log(JSON.stringify(all)); all.length`, everything, nil},
		{"values of the run", `data.n + 1`, everything, func(s *ledger.Submission) {
			s.Globals = map[string]json.RawMessage{"data": json.RawMessage(`{"n":41}`)}
		}},
		{"long lines", `console.log("x".repeat(700000)); console.log("y".repeat(70000) + "\n" + "z".repeat(70000)); 1`, everything, nil},
		{"long results", `"r".repeat(200000)`, everything, nil},
		{"many lines", `for (let i = 0; i < 5000; i++) console.log("line", i); 5000`, everything, nil},
		{"output beyond the cap", `for (let i = 0; i < 200; i++) console.log("line of output", i); 200`, everything, func(s *ledger.Submission) { s.FileName = "cap.ts" }},
		{"levels", `console.error("e"); console.warn("w"); console.info("i"); console.debug("d"); console.trace("t"); console.group("g"); console.log("in")`, everything, nil},
		{"a heap", `class Counter { n = 0; add() { return ++this.n } } const counter = new Counter(); counter.add()`, everything, nil},
		{"the next run of the heap", `counter.add(); counter.n`, everything, func(s *ledger.Submission) { s.Heap = parent }},
	} {
		var changes []func(*ledger.Submission)
		if test.change != nil {
			changes = append(changes, test.change)
		}
		rec := s.run(test.code, changes...)
		if rec.Ending.Heap != nil {
			parent = rec.Ending.Heap.SHA256
		}
		made := s.tools.made.Load()
		for _, pool := range []runner.Workers{other, s.pool} {
			report := s.replay(rec, pool)
			if report.Verdict != events.ReplayIdentical || report.Stopped {
				t.Errorf("%s: %s", test.name, describe(report))
				continue
			}
			if diff := cmp.Diff(test.compared, report.Compared); diff != "" {
				t.Errorf("%s: compared (-want +got):\n%s", test.name, diff)
			}
		}
		if now := s.tools.made.Load(); now != made {
			t.Errorf("%s: the replays called tools %d times", test.name, now-made)
		}
	}
}

// A run that was stopped is compared up to its last line and call.
func TestReplayOfStoppedRuns(t *testing.T) {
	s := newTestServer(t)
	second := func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) }
	for _, test := range []struct{ name, code string }{
		{"a loop after output", `console.log("one"); console.log("two"); for (;;);`},
		{"an interval", `let n = 0; setInterval(() => console.log("tick", ++n, Date.now()), 90)`},
		{"a call without an answer", `console.log("asks"); await mcp.shop.price({}); await mcp.shop.hang({}); console.log("never")`},
		{"a call, then a loop", `await mcp.shop.price({}); for (;;);`},
		{"a call, then endless timers", `await mcp.shop.price({}); setInterval(() => {}, 5)`},
		{"nothing", `for (;;);`},
	} {
		rec := s.run(test.code, second)
		if rec.Status != events.StatusTimedOut {
			t.Fatalf("%s: the run is %s", test.name, rec.Status)
		}
		if report := s.replay(rec, s.pool); report.Verdict != events.ReplayIdentical || !report.Stopped {
			t.Errorf("%s: %s", test.name, describe(report))
		}
	}
	id := s.submit(`console.log("started"); await new Promise(r => setTimeout(r, 60000)); console.log("end")`)
	for s.lines(id) == 0 {
		time.Sleep(2 * time.Millisecond) // a poll of the condition
	}
	if _, err := s.ledger.Cancel(t.Context(), events.DefaultTenant, id, events.Actor{Principal: "tester", Transport: "embed"}); err != nil {
		t.Fatal(err)
	}
	if report := s.replay(s.await(id), s.pool); report.Verdict != events.ReplayIdentical || !report.Stopped {
		t.Errorf("cancelled: %s", describe(report))
	}
	rec := s.run(`console.log("grows"); const all = []; for (;;) all.push(new Array(1000).fill(all.length))`, func(s *ledger.Submission) { s.HeapMemoryMaxMB = new(8) })
	if rec.Ending.Reason != runner.ReasonOutOfMemory {
		t.Fatalf("the run is %s, %s", rec.Status, rec.Ending.Reason)
	}
	if report := s.replay(rec, s.pool); report.Verdict != events.ReplayIdentical || !report.Stopped {
		t.Errorf("out of memory: %s", describe(report))
	}
}

func (s *testServer) submit(code string) string {
	s.t.Helper()
	receipt, err := s.ledger.Submit(s.t.Context(), ledger.Submission{Tenant: events.DefaultTenant, Code: code, Actor: events.Actor{Principal: "tester", Transport: "embed"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return receipt.ExecutionID
}

// lines returns the number of recorded chunks of output.
func (s *testServer) lines(id string) (n int) {
	s.t.Helper()
	list, err := s.ledger.History(s.t.Context(), events.DefaultTenant, id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list {
		if e.Type == events.TypeExecutionOutput {
			n++
		}
	}
	return n
}

// A record that was changed gives the first difference, with what a person needs to find
// it.
func TestReplayReportsTheFirstDifference(t *testing.T) {
	s := newTestServer(t)
	const code = `const r = Math.random(); console.log("one"); const tea = await mcp.shop.price({ of: "tea" }); console.log("price " + tea.given.of); setTimeout(() => console.log("three"), 5); await mcp.shop.buy({ of: tea.given.of }).catch(() => 0); await new Promise(r => setTimeout(r, 6)); "done"`
	sound := s.run(code)
	withSource := func(change func(string) string) func(*ledger.Recording) {
		return func(r *ledger.Recording) {
			c := *r.Request.Content.Plain
			c.Source.Text = change(c.Source.Text)
			r.Request.Content.Plain = &c
			r.Request.SourceSHA256 = events.Hash([]byte(c.Source.Text))
		}
	}
	replace := func(old, new string) func(*ledger.Recording) {
		return withSource(func(code string) string { return strings.Replace(code, old, new, 1) })
	}
	withEnding := func(change func(*events.Ending)) func(*ledger.Recording) {
		return func(r *ledger.Recording) {
			end := *r.Ending
			change(&end)
			r.Ending = &end
		}
	}
	for _, test := range []struct {
		name   string
		change func(*ledger.Recording)
		want   string
	}{
		{"nothing", func(*ledger.Recording) {}, `identical`},
		{"a line", replace(`"one"`, `"once"`), `different: output line 1: "one", "once"`},
		{"a later line", replace(`"price "`, `"costs "`), `different: output line 2: "price tea", "costs tea"`},
		{"a missing line", replace(`console.log("one");`, ``), `different: output line 1`},
		{"a further line", replace(`"done"`, `console.log("four"); "done"`), `different: output line 4: "(no further line)", "four"`},
		{"a line that is not written", replace(`setTimeout(() => console.log("three"), 5);`, ``), `different: output line 3: "three", "(no further output)"`},
		{"a level", replace(`console.log("one")`, `console.debug("one")`), `different: output line 1: "log at `},
		{"a time", replace(`"three"), 5`, `"three"), 4`), `different: output line 3: "log at `},
		{"arguments", replace(`{ of: "tea" }`, `{ of: "milk" }`), `different: calls call 1: "shop.price{\"of\":\"tea\"}", "shop.price{\"of\":\"milk\"}"`},
		{"another tool", replace(`mcp.shop.price`, `mcp.shop.buy`), `different: calls call 1: "shop.price{\"of\":\"tea\"}", "shop.buy{\"of\":\"tea\"}"`},
		{"a call that is not made", replace(`await mcp.shop.buy({ of: tea.given.of }).catch(() => 0)`, `await new Promise(r => setTimeout(r, 9))`), `different: calls call 2: "shop.buy", "(not made)"`},
		{"a further call", replace(`"done"`, `await mcp.shop.price({ n: 3 }); "done"`), `different: calls call 3: "(no further call)", "shop.price{\"n\":3}"`},
		{"the result", replace(`"done"`, `"gone"`), `different: javascript`},
		{"an exception", replace(`"done"`, `throw new Error("now")`), `different: status: "completed", "failed (exception) Error: now`},
		{"a global", replace(`"done"`, `globalThis.extra = 1; "done"`), `different: javascript`},
		{"the seed", func(r *ledger.Recording) { r.Seed[0]++ }, `different: heap: `},
		{"the start time", func(r *ledger.Recording) {
			started := *r.Started
			started.StartTime.Time = started.StartTime.Add(time.Second)
			r.Started = &started
		}, `different: output line 1: "log at `},
		{"the recorded heap", func(r *ledger.Recording) {
			end, heap := *r.Ending, *r.Ending.Heap
			heap.SHA256 = strings.Repeat("0", 64)
			end.Heap = &heap
			r.Ending = &end
		}, `different: heap: "0000`},
		{"the recorded result", func(r *ledger.Recording) {
			end, content := *r.Ending, *r.Ending.Content.Plain
			content.Result = &events.Body{Text: "gone"}
			end.Content.Plain = &content
			r.Ending = &end
		}, `different: result: "gone", "done"`},
		{"the recorded size of the heap", withEnding(func(end *events.Ending) {
			heap := *end.Heap
			heap.Size++
			end.Heap = &heap
		}), `different: heap: `},
		{"the recorded parent of the heap", withEnding(func(end *events.Ending) {
			heap := *end.Heap
			heap.Parent = strings.Repeat("0", 64)
			end.Heap = &heap
		}), `different: heap: `},
		{"the recorded number of lines", withEnding(func(end *events.Ending) {
			out := *end.Output
			out.Lines++
			end.Output = &out
		}), `different: output line 4: "4 lines, `},
		{"the recorded number of bytes", withEnding(func(end *events.Ending) {
			out := *end.Output
			out.Bytes--
			end.Output = &out
		}), `different: output line 4: "3 lines, `},
		{"the recorded truncation", withEnding(func(end *events.Ending) {
			out := *end.Output
			out.Truncated = true
			end.Output = &out
		}), `different: output line 4: "`},
		{"a heap of a run that was stopped", func(r *ledger.Recording) {
			r.Status = events.StatusCancelled
			withEnding(func(end *events.Ending) { end.Reason = "" })(r)
		}, `different, stopped: heap: `},
		{"a refusal", func(r *ledger.Recording) {
			r.Status = events.StatusFailed
			withEnding(func(end *events.Ending) { end.Reason = runner.ReasonSourceMissing })(r)
		}, `different: status: "failed (source_missing)", "completed"`},
		{"the recorded text of arguments", func(r *ledger.Recording) {
			r.Calls = slices.Clone(r.Calls)
			r.Calls[0].Arguments = &events.Body{Text: `{"of":"milk"}`}
		}, `different: calls call 1: "shop.price{\"of\":\"milk\"}", "shop.price{\"of\":\"tea\"}"`},
		{"a shredded source", func(r *ledger.Recording) {
			r.Request.Content = events.Content[events.RequestedContent]{Sealed: &events.EncryptedContent{KeyID: "k"}}
		}, `not_replayed`},
		{"a damaged source", func(r *ledger.Recording) { r.Request.SourceSHA256 = events.Hash(nil) }, `not_replayed: damaged`},
		{"a missing heap", func(r *ledger.Recording) {
			started := *r.Started
			started.InputHeap = strings.Repeat("a", 64)
			r.Started = &started
		}, `not_replayed: heap_missing`},
		{"a heap of another engine", func(r *ledger.Recording) {
			started := *r.Started
			started.InputHeap, started.Engine.ID = strings.Repeat("a", 64), "v8-older"
			r.Started = &started
		}, `not_replayed: engine`},
		{"another engine without a heap", func(r *ledger.Recording) {
			started := *r.Started
			started.Engine.ID = "v8-older"
			r.Started = &started
		}, `identical`},
		{"a heap limit above that of the workers", func(r *ledger.Recording) {
			started := *r.Started
			started.Limits.HeapMemoryMaxMB = 4096
			r.Started = &started
		}, `not_replayed: limits`},
		{"no heap limit", func(r *ledger.Recording) {
			started := *r.Started
			started.Limits.HeapMemoryMaxMB = 0
			r.Started = &started
		}, `not_replayed: limits`},
		{"a heap limit that overflows", func(r *ledger.Recording) {
			started := *r.Started
			started.Limits.HeapMemoryMaxMB = 1 << 44
			r.Started = &started
		}, `not_replayed: limits`},
		{"a time limit that no run has", func(r *ledger.Recording) {
			started := *r.Started
			started.Limits.ExecutionTimeoutSecs = math.MaxInt
			r.Started = &started
		}, `identical`},
		{"no start", func(r *ledger.Recording) { r.Started = nil }, `not_replayed: not_executed`},
	} {
		rec, err := s.ledger.Recording(t.Context(), events.DefaultTenant, sound.Request.ExecutionID)
		if err != nil {
			t.Fatal(err)
		}
		test.change(rec)
		report, err := replay.New(replay.Options{Workers: s.pool, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval, MaxHeapLimitBytes: 256 << 20}).Replay(t.Context(), rec)
		if err != nil {
			if test.name != "a shredded source" || ledger.CodeOf(err) != ledger.CodeUnavailable {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if got := describe(report); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// The replay of a run whose WebAssembly module is missing names the module.
func TestReplayWithoutTheWASMModule(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	rec := s.run("1")
	started, hash := *rec.Started, strings.Repeat("a", 64)
	started.WASMModules = []events.WASMModule{{Name: "math", Module: events.BlobRef{SHA256: hash, Size: 8}}}
	rec.Started, rec.Request.Stateful = &started, false
	r := s.replay(rec, s.pool)
	if want := "the WebAssembly module math of the run, with SHA-256 " + hash + ", is not in the blob store"; r.Reason != replay.ReasonSourceMissing || !strings.HasPrefix(r.Message, want) {
		t.Errorf("%s: %s", r.Reason, r.Message)
	}
}

// changedAnswers changes the answers to host calls as they are read from the ledger.
type changedAnswers struct {
	*jetstream.Store
	change func(*events.HostReturned)
}

func (c changedAnswers) Execution(ctx context.Context, tenant, execution string) ([]events.Event, error) {
	list, err := c.Store.Execution(ctx, tenant, execution)
	for i := range list {
		if d, ok := list[i].Data.(*events.HostReturned); ok {
			c.change(d)
		}
	}
	return list, err
}

// One changed byte in a recorded answer, with its hash, is the first difference. Without its
// hash it is damage.
func TestReplayFindsAChangedAnswer(t *testing.T) {
	s := newTestServer(t)
	s.tools.site = `{"status":200,"statusText":"OK","url":"https://example.com/a","redirected":false,"headers":[],"body":{"text":"seven"}}`
	for code, test := range map[string]struct{ old, new, want string }{
		`console.log("asks"); console.log(await (await fetch("https://example.com/a")).text()); 1`: {"seven", "sever", `different: output line 2: "seven", "sever"`},
		`console.log((await mcp.shop.price({ of: "tea" })).given.of); 1`:                           {"tea", "teb", `different: output line 1: "tea", "teb"`},
	} {
		rec := s.run(code)
		for _, hashed := range []bool{true, false} {
			book := ledger.New(changedAnswers{s.store, func(d *events.HostReturned) {
				text := strings.Replace(d.Content.Plain.Result.Text, test.old, test.new, 1)
				d.Content = events.Plain(events.HostReturnedContent{Result: &events.Body{Text: text}, Requests: d.Content.Plain.Requests})
				if hashed {
					d.ResultSHA256 = events.Hash([]byte(text))
				}
			}}, ledger.Options{Logger: storetest.Logger(t)})
			changed, err := book.Recording(t.Context(), events.DefaultTenant, rec.Request.ExecutionID)
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			if !hashed {
				want = "not_replayed: damaged"
			}
			if got := describe(s.replay(changed, s.pool)); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s, want %s", code, got, want)
			}
		}
	}
}

// withoutCalls returns a recording without its calls from a number on.
func withoutCalls(rec *ledger.Recording, from int) *ledger.Recording {
	c := *rec
	c.Calls = rec.Calls[:from-1]
	return &c
}

// The last calls of a script that threw, or of a run that was stopped, may not be recorded:
// the runner had not sent them.
func TestCallsThatWereNotSent(t *testing.T) {
	s := newTestServer(t)
	second := func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) }
	for _, test := range []struct {
		name, code string
		from       int
		want       string
		change     func(*ledger.Submission)
	}{
		{"a script that throws", `mcp.shop.price({ n: 1 }); mcp.shop.price({ n: 2 }); throw new Error("now")`, 1, `identical`, func(*ledger.Submission) {}},
		{"the last of two", `mcp.shop.price({ n: 1 }); mcp.shop.price({ n: 2 }); throw new Error("now")`, 2, `identical`, func(*ledger.Submission) {}},
		{"an answered call", `const { price } = await mcp.shop.price({ n: 1 }); throw new Error("now")`, 1, `different: calls: "(no further answer)"`, func(*ledger.Submission) {}},
		{"a script that ends", `mcp.shop.price({ n: 1 }); "done"`, 1, `different: calls call 1: "(no further call)", "shop.price{\"n\":1}"`, func(*ledger.Submission) {}},
		{"output after the call", `mcp.shop.price({ n: 1 }); console.log("one"); for (;;);`, 1, `identical, stopped`, second},
		{"a call after the output", `console.log("one"); mcp.shop.price({ n: 1 }); for (;;);`, 1, `identical, stopped`, second},
		{"output after the answer", `await mcp.shop.price({ n: 1 }); console.log("one"); for (;;);`, 1, `different, stopped: output line 1: "one", "(no further output)"`, second},
	} {
		rec := s.run(test.code, test.change)
		for _, rec := range []*ledger.Recording{rec, withoutCalls(rec, min(test.from, len(rec.Calls)+1))} {
			want := test.want
			if len(rec.Calls) >= test.from {
				want = "identical"
			}
			if got := describe(s.replay(rec, s.pool)); !strings.HasPrefix(got, want) {
				t.Errorf("%s, with %d calls: %s, want %s", test.name, len(rec.Calls), got, want)
			}
		}
	}
}

// A difference of any part of an artifact is found, and so is an artifact that is missing or
// that the record lacks.
func TestReplayOfArtifacts(t *testing.T) {
	s := newTestServer(t)
	const code = `console.log("one"); artifact("a", "text/plain", "tea"); await new Promise(r => setTimeout(r, 2)); artifact("b", "image/png", new Uint8Array([1, 2])); "done"`
	for _, test := range []struct {
		name, from, to, want string
	}{
		{"nothing", "", "", "identical"},
		{"a byte", `"tea"`, `"ten"`, `different: artifacts artifact 1: "\"a\" (text/plain) of 3 bytes, SHA-256 `},
		{"a name", `"b"`, `"c"`, `different: artifacts artifact 2: "\"b\" (image/png)`},
		{"a type", `image/png`, `image/gif`, `different: artifacts artifact 2`},
		{"a time", `setTimeout(r, 2)`, `setTimeout(r, 3)`, `different: artifacts artifact 2`},
		{"its place in the output", `"text/plain", "tea");`, `"text/plain", "tea"); console.log();`, `different: output line 2`},
		{"a missing one", `artifact("b", "image/png", new Uint8Array([1, 2]));`, ``, `different: artifacts artifact 2`},
		{"a further one", `"done"`, `artifact("x", "a/b", ""); "done"`, `different: artifacts artifact 3: "(no further artifact)"`},
	} {
		rec := s.run(code)
		content := *rec.Request.Content.Plain
		content.Source.Text = strings.Replace(content.Source.Text, test.from, test.to, 1)
		rec.Request.Content.Plain, rec.Request.SourceSHA256 = &content, events.Hash([]byte(content.Source.Text))
		if got := describe(s.replay(rec, s.pool)); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}

	second := func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) }
	stopped := s.run(`artifact("a", "a/b", "1"); artifact("b", "a/b", "2"); for (;;);`, second)
	if len(stopped.Artifacts) != 2 {
		t.Fatalf("%d artifacts", len(stopped.Artifacts))
	}
	if got := describe(s.replay(stopped, s.pool)); got != "identical, stopped" {
		t.Errorf("a stopped run: %s", got)
	}
	stopped.Artifacts = stopped.Artifacts[:1] // the last may not be recorded
	if got := describe(s.replay(stopped, s.pool)); got != "identical, stopped" {
		t.Errorf("a stopped run without its last artifact: %s", got)
	}
	stopped.Artifacts[0].SHA256 = events.Hash([]byte("3"))
	if got := describe(s.replay(stopped, s.pool)); !strings.HasPrefix(got, "different, stopped: artifacts artifact 1") {
		t.Errorf("a stopped run with another artifact: %s", got)
	}
}

// Calls are recorded in the order of their numbers, so only the last ones can be missing.
func TestMissingCallBeforeRecordedCalls(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`mcp.shop.price({ n: 1 }); await mcp.shop.price({ n: 2 }); throw new Error("now")`)
	if len(rec.Calls) != 2 {
		t.Fatalf("%d calls are recorded", len(rec.Calls))
	}
	rec.Calls = rec.Calls[1:]
	const want = `different: calls call 1: "(no further call)", "shop.price{\"n\":1}"`
	if got := describe(s.replay(rec, s.pool)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A run that was stopped has made all recorded calls, also those after its last recorded
// line, and its totals are those of the recorded lines.
func TestRecordOfStoppedRuns(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`console.log("one"); await new Promise(r => setTimeout(r, 60000)); console.log("two"); await mcp.shop.price({}); "end"`,
		func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) })
	other := s.run(`await mcp.shop.buy({}).catch(() => 0)`)
	if rec.Status != events.StatusTimedOut || len(rec.Calls) != 0 || len(other.Calls) != 1 {
		t.Fatalf("the run is %s with %d calls", rec.Status, len(rec.Calls))
	}
	totals := *rec.Ending.Output
	rec.Ending.Output.Bytes++ // as if a line had been removed
	if report := s.replay(rec, s.pool); report.Verdict != events.ReplayDifferent || report.Difference.Part != events.ReplayOutput {
		t.Errorf("other totals: %s", describe(report))
	}
	rec.Ending.Output = &totals
	if report := s.replay(rec, s.pool); report.Verdict != events.ReplayIdentical {
		t.Errorf("%s", describe(report))
	}
	rec.Calls = other.Calls
	const want = `different, stopped: calls call 1: "shop.buy{}", "shop.price{}"`
	if got := describe(s.replay(rec, s.pool)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// dying is a pool whose workers die, or lack memory, before the script ends.
type dying struct {
	runner.Workers
	reason string
}

func (d dying) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	_, err := d.Workers.Run(ctx, t, func(context.Context, []events.Line) error { return nil })
	return runner.Outcome{Status: events.StatusFailed, Reason: d.reason, Error: "The worker process died: killed by SIGKILL"}, err
}

// The death of the worker of a replay says nothing about the run.
func TestWorkersOfReplaysDie(t *testing.T) {
	s := newTestServer(t)
	ended := s.run(`console.log("one"); 1`)
	stopped := s.run(`console.log("one"); console.log("two"); setTimeout(() => console.log("three"), 1e6)`, func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) })
	for _, reason := range []string{runner.ReasonWorkerDied, runner.ReasonOutOfMemory} {
		for _, rec := range []*ledger.Recording{ended, stopped} {
			report := s.replay(rec, dying{s.pool, reason})
			if report.Verdict != events.NotReplayed || report.Reason != reason || !strings.Contains(report.Message, "killed by SIGKILL") {
				t.Errorf("%s, %s: %s", rec.Status, reason, describe(report))
			}
		}
	}
}

// removeVolume seals the active volume and removes it. keep are the positions of the events that
// are kept.
func (s *testServer) removeVolume(keep ...uint64) {
	s.t.Helper()
	actor := events.Actor{Principal: "tester", Transport: "embed"}
	v, err := s.store.Rotate(s.t.Context(), stream.RotateOptions{Reason: events.VolumeAsked, Actor: actor, Close: func(_ context.Context, last uint64) (*events.ClosingCheckpoint, error) {
		return &events.ClosingCheckpoint{Origin: "daybook/test", Size: last, RootHash: "r", Note: "n"}, nil
	}})
	if err == nil {
		_, err = s.store.Remove(s.t.Context(), stream.RemoveOptions{Volume: v.Number, Keep: keep, RootHash: "root", Export: events.VolumeExport{SHA256: events.Hash([]byte("x")), Events: 1}, Actor: actor})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// removing removes a volume of the ledger when a replay has read the record of its run.
type removing struct {
	runner.Workers
	remove func()
}

func (r removing) Engine(ctx context.Context, stateful bool) (events.Engine, error) {
	r.remove()
	return r.Workers.Engine(ctx, stateful)
}

// The removal of a volume during the replay of one of its runs is no difference.
func TestReplayDuringRemoval(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`console.log("a"); console.log("b"); 42`)
	stopped := s.run(`console.log("a"); while (true) {}`, func(s *ledger.Submission) { s.ExecutionTimeoutSecs = new(1) })
	opts := replay.Options{Workers: removing{s.pool, func() { s.removeVolume() }}, Heaps: s.store, ExplainRemoval: s.ledger.ExplainRemoval}
	for name, rec := range map[string]*ledger.Recording{"completed": rec, "stopped": stopped} {
		if report, err := replay.New(opts).Replay(t.Context(), rec); ledger.CodeOf(err) != ledger.CodeNotFound {
			t.Errorf("%s: %s, %v", name, describe(report), err)
		}
		if w, err := replay.New(opts).WhatIf(t.Context(), rec, replay.Script{Code: []byte("1")}); ledger.CodeOf(err) != ledger.CodeNotFound {
			t.Errorf("%s, other code: %+v, %v", name, w, err)
		}
	}
}

// emptied is a store whose heaps were removed.
type emptied struct{}

func (emptied) Heap(context.Context, string, string) ([]byte, events.HeapInfo, error) {
	return nil, events.HeapInfo{}, events.ErrRemoved
}

// A run whose input heap was collected is not replayed, even if the volume with the event of
// that is removed. A heap that was removed without an event is damage.
func TestReplayOfCollectedHeap(t *testing.T) {
	s := newTestServer(t)
	parent := s.run(`globalThis.n = 1`).Ending.Heap.SHA256
	rec := s.run(`n + 1`, func(s *ledger.Submission) { s.Heap = parent })
	r := replay.New(replay.Options{Workers: s.pool, Heaps: emptied{}, ExplainRemoval: s.ledger.ExplainRemoval})
	if report, err := r.Replay(t.Context(), rec); err != nil || report.Reason != replay.ReasonDamaged {
		t.Errorf("removed without an event: %s, %v", describe(report), err)
	}
	if err := s.ledger.CollectHeaps(t.Context(), events.DefaultTenant, []events.HeapCollected{{Heap: parent, Decided: rec.EndedAt}}, func(string, uint64) {}); err != nil {
		t.Fatal(err)
	}
	if report, err := r.Replay(t.Context(), rec); err != nil || report.Reason != replay.ReasonHeapCollected {
		t.Errorf("collected: %s, %v", describe(report), err)
	}
	list, err := s.store.Execution(t.Context(), events.DefaultTenant, rec.Request.ExecutionID)
	if err != nil {
		t.Fatal(err)
	}
	var keep []uint64
	for _, e := range list {
		keep = append(keep, e.Seq)
	}
	s.removeVolume(keep...)
	if report, err := r.Replay(t.Context(), rec); err != nil || report.Reason != replay.ReasonHeapCollected {
		t.Errorf("collected in a removed volume: %s, %v", describe(report), err)
	}
	if err := s.ledger.ExplainRemoval(t.Context(), events.DefaultTenant, parent); ledger.CodeOf(err) != ledger.CodeGone || !strings.Contains(err.Error(), "removed with volume 1 of the ledger") {
		t.Errorf("the heap of a removed volume: %v", err)
	}
}

// failing is a pool whose first runs have no outcome, after their output and calls.
type failing struct {
	*worker.Pool
	left atomic.Int64
}

func (f *failing) Run(ctx context.Context, t runner.Task, lines func(context.Context, []events.Line) error) (runner.Outcome, error) {
	o, err := f.Pool.Run(ctx, t, lines)
	if f.left.Add(-1) >= 0 {
		return o, errors.New("the outcome is lost")
	}
	return o, err
}

// A run that ended in a later attempt is compared with the output of that attempt and with
// the calls of all attempts.
func TestReplayOfLaterAttempts(t *testing.T) {
	workers := &failing{Pool: newPool(t)}
	s := newTestServerOn(t, workers.Pool, workers)
	for _, code := range []string{
		`console.log("a", Date.now()); setTimeout(() => console.log("b"), 5); await new Promise(r => setTimeout(r, 10)); 1`,
		`console.log((await mcp.shop.price({})).price); setTimeout(() => console.log(Date.now()), 5); console.log((await mcp.shop.price({ n: 2 })).price); 1`,
		`mcp.shop.price({}); console.log("x".repeat(300000)); throw new Error("now " + Math.random())`,
	} {
		for failures := range int64(ledger.MaxAttempts + 1) {
			workers.left.Store(failures)
			rec := s.run(code)
			// A call that was recorded and not answered before the attempt failed is not made again.
			interrupted := rec.Ending.Reason == ledger.ReasonInterrupted
			if want := min(int(failures)+1, ledger.MaxAttempts); rec.Ending.Attempt != want && !interrupted {
				t.Fatalf("%s: the run ended in attempt %d, want %d", code, rec.Ending.Attempt, want)
			}
			if report := s.replay(rec, s.pool); report.Verdict != events.ReplayIdentical || report.Stopped != (failures == ledger.MaxAttempts || interrupted) {
				t.Errorf("%s, after %d failures: %s", code, failures, describe(report))
			}
		}
	}
}

// The number of timers that a failure cancelled is compared. A start time that no script can
// have is no error: a record of an export can have any.
func TestReplayOfTimersAndStartTimes(t *testing.T) {
	s := newTestServer(t)
	rec := s.run(`setInterval(() => {}, 1000); setTimeout(() => {}, 2000); throw new Error("no")`)
	if rec.Ending.TimersCancelled != 2 {
		t.Fatalf("%d timers were cancelled", rec.Ending.TimersCancelled)
	}
	if report := s.replay(rec, s.pool); report.Verdict != events.ReplayIdentical {
		t.Errorf("%s", describe(report))
	}
	rec.Ending.TimersCancelled = 3
	if got, want := describe(s.replay(rec, s.pool)), `different: status: "3 timers cancelled", "2 timers cancelled"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, at := range []time.Time{time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
		rec.Started.StartTime = events.Instant{Time: at}
		if report := s.replay(rec, s.pool); report.Reason != replay.ReasonLimits {
			t.Errorf("started at %s: %s", at, describe(report))
		}
	}
}

// A replay has the globals of Node if the run had them, whatever the options of the server are.
func TestReplayHasTheRecordedNodeGlobals(t *testing.T) {
	pool := newPool(t)
	for _, has := range []bool{false, true} {
		s := newTestServerOn(t, pool, pool, func(o *runner.Options) { o.NodeGlobals = has })
		rec := s.run(`console.log(typeof Buffer, typeof process); var kept = typeof Buffer === "function" && Buffer.from("a"); typeof global`)
		if rec.Started.NodeGlobals != has {
			t.Errorf("with globals %t: recorded %t", has, rec.Started.NodeGlobals)
		}
		if report := s.replay(rec, pool); report.Verdict != events.ReplayIdentical {
			t.Errorf("with globals %t: %s", has, describe(report))
		}
		next := s.run(`String(kept) + typeof process`, func(sub *ledger.Submission) { sub.Heap = rec.Ending.Heap.SHA256 })
		if report := s.replay(next, pool); report.Verdict != events.ReplayIdentical {
			t.Errorf("the next run, with globals %t: %s", has, describe(report))
		}
		rec.Started.NodeGlobals = !has
		if report := s.replay(rec, pool); report.Verdict != events.ReplayDifferent {
			t.Errorf("with other globals than the recorded ones: %s", describe(report))
		}
	}
}

// A replay that differs says what the recorded run or the replay learned from the garbage
// collector, and one that is identical does not.
func TestDifferencesOfMarkedRuns(t *testing.T) {
	s := newTestServer(t)
	first := s.run("var w = new WeakRef({}), o = {}, r = new FinalizationRegistry(() => {}); r.register(o, 1)")
	heap := func(s *ledger.Submission) { s.Heap = first.Ending.Heap.SHA256 }
	reads, plain := s.run("w.deref(); 'same'", heap), s.run("'same'", heap)
	for _, test := range []struct {
		name     string
		sound    *ledger.Recording
		recorded []events.Nondeterminism
		result   string
		want     []events.Nondeterminism
	}{
		{"neither", plain, nil, "other", nil},
		{"the recorded run", plain, events.AllNondeterminism(), "other", events.AllNondeterminism()},
		{"the replay", reads, nil, "other", []events.Nondeterminism{events.ReadCollectedWeakRef}},
		{"both", reads, []events.Nondeterminism{events.ReadCollectedWeakRef}, "other", []events.Nondeterminism{events.ReadCollectedWeakRef}},
		{"each another", reads, []events.Nondeterminism{events.RanFinalizer}, "other", events.AllNondeterminism()},
		{"identical", reads, events.AllNondeterminism(), "same", nil},
	} {
		rec, err := s.ledger.Recording(t.Context(), events.DefaultTenant, test.sound.Request.ExecutionID)
		if err != nil {
			t.Fatal(err)
		}
		content := *rec.Ending.Content.Plain
		content.Result = &events.Body{Text: test.result}
		rec.Ending.Content.Plain, rec.Ending.Nondeterministic = &content, test.recorded
		report := s.replay(rec, s.pool)
		if (report.Difference == nil) != (test.result == "same") || !slices.Equal(report.Nondeterministic, test.want) {
			t.Errorf("%s: %s, marks %q, want %q", test.name, describe(report), report.Nondeterministic, test.want)
		}
	}
}
