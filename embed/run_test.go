package embed_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/embed"
	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// TestRun shares one Daybook among tests that do not affect each other.
func TestRun(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Slots: embed.SlotOptions{Total: 2}})
	for name, test := range map[string]func(*testing.T, *embed.Daybook){
		"endings":              endings,
		"heap":                 heapContinues,
		"failure":              failureCancelsTimers,
		"unknown heap":         unknownHeap,
		"idempotency":          idempotency,
		"output":               output,
		"file name":            fileName,
		"session and tags":     sessionAndTags,
		"cancel":               cancelLoop,
		"timeout":              timeoutAwaiting,
		"wait":                 waitFor,
		"invalid":              invalid,
		"two runs per session": lineage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, book)
		})
	}
}

func endings(t *testing.T, book *embed.Daybook) {
	for _, test := range []struct {
		code   string
		status events.Status
		result string
		error  string // its beginning
		heap   bool
	}{
		{`1 + 1`, events.StatusCompleted, "2", "<null>", true},
		{`const n: number = 20; await Promise.resolve(n + 1)`, events.StatusCompleted, "21", "<null>", true},
		{`undefined`, events.StatusCompleted, "<null>", "<null>", true},
		{`"as it is"`, events.StatusCompleted, "as it is", "<null>", true},
		{`({a: [1, "x"]})`, events.StatusCompleted, `{"a":[1,"x"]}`, "<null>", true},
		// Only the time limit ends a run as timed_out; the text of an error does not.
		{`throw new Error("upstream timed out")`, events.StatusFailed, "<null>", "Error: upstream timed out", true},
		{`throw new Error("Execution timed out")`, events.StatusFailed, "<null>", "Error: Execution timed out", true},
		{`throw {cancelled: true}`, events.StatusFailed, "<null>", "Uncaught ", true},
		{`let x: = 1`, events.StatusFailed, "<null>", "SyntaxError", false},
		{`const all = []; while (true) all.push(new Array(1e5).fill(all.length))`, events.StatusFailed, "<null>", "Out of memory", false},
	} {
		e := run(t, book, embed.Script{Code: test.code})
		if e.Status != test.status || deref(e.Result) != test.result || !strings.HasPrefix(deref(e.Error), test.error) {
			t.Errorf("%s: %s, result %q, error %q; want %s, %q, %q", test.code, e.Status, deref(e.Result), deref(e.Error), test.status, test.result, test.error)
		}
		if test.heap && e.Heap == nil {
			t.Errorf("%s: no heap", test.code)
		}
	}
}

// A failed run leaves no timers: the next run from its heap ends, and the terminal event has the
// number of cancelled timers.
func failureCancelsTimers(t *testing.T, book *embed.Daybook) {
	failed := run(t, book, embed.Script{Code: `var kept = 1; setInterval(() => {}, 1000); oops()`})
	const want = "the run failed, so 1 timer that it or earlier runs had set was cancelled"
	if failed.Status != events.StatusFailed || failed.Heap == nil || len(failed.Warnings) != 1 || !strings.HasPrefix(failed.Warnings[0], want) {
		t.Fatalf("%s, warnings %q; want %q", failed.Status, failed.Warnings, want)
	}
	for _, e := range history(t, book, failed.ExecutionID) {
		if d := events.EndingOf(e.Data); d != nil && d.TimersCancelled != 1 {
			t.Errorf("the event counts %d timers", d.TimersCancelled)
		}
	}
	then := run(t, book, embed.Script{Code: `kept`, Heap: *failed.Heap})
	if then.Status != events.StatusCompleted || deref(then.Result) != "1" || len(then.Warnings) != 0 {
		t.Errorf("the next run is %s, %s, warnings %q", then.Status, deref(then.Error), then.Warnings)
	}
}

func heapContinues(t *testing.T, book *embed.Daybook) {
	_, heap := completes(t, book, embed.Script{Code: `
		class Account {
			#balance = 100
			spend(n: number) { return (this.#balance -= n) }
		}
		function* ids() { let n = 0; while (true) yield "id-" + n++ }
		const account = new Account(), seen = new Map([["a", new Set([1])]]), next = ids()
		const add = ((by: number) => (n: number) => n + by)(5)
		next.next(); next.next(); account.spend(30)`})
	const look = `seen.get("a").add(2); [account.spend(10), seen.get("a").size, next.next().value, add(1), account instanceof Account]`
	// The saved heap does not change, so the same run has the same result again.
	for range 2 {
		result, out := completes(t, book, embed.Script{Code: look, Heap: heap})
		if want := `[60,2,"id-2",6,true]`; result != want {
			t.Errorf("resumed: %s, want %s", result, want)
		}
		if out == heap {
			t.Error("the changed heap has the key of the old one")
		}
		if result, _ := completes(t, book, embed.Script{Code: look, Heap: out}); result != `[50,2,"id-3",6,true]` {
			t.Errorf("resumed twice: %s", result)
		}
	}
	// Source that V8 refuses does not change the heap.
	for _, code := range []string{`account.spend(`, `let x: = 1`, `import x from "y"`} {
		if e := run(t, book, embed.Script{Code: code, Heap: heap}); e.Status != events.StatusFailed || deref(e.Heap) != heap {
			t.Errorf("%s: %s, heap %s; want it unchanged, %s", code, e.Status, deref(e.Heap), heap)
		}
	}
	if e := run(t, book, embed.Script{Code: `let x: = 1`}); e.Heap != nil {
		t.Errorf("a syntax error in a fresh isolate leaves heap %s", *e.Heap)
	}
	// After a throw the heap has the state at the throw.
	e := run(t, book, embed.Script{Code: `account.spend(50); throw new Error("declined")`, Heap: heap})
	if result, _ := completes(t, book, embed.Script{Code: `account.spend(0)`, Heap: deref(e.Heap)}); result != "20" {
		t.Errorf("after a throw the balance is %s", result)
	}
}

func unknownHeap(t *testing.T, book *embed.Daybook) {
	never := events.Hash([]byte("never made"))
	e := run(t, book, embed.Script{Code: `typeof account`, Heap: never})
	if e.Status != events.StatusCompleted || deref(e.Result) != "undefined" {
		t.Errorf("the run is %s with %s", e.Status, deref(e.Result))
	}
	if e.InputHeap != nil || deref(e.RequestedHeap) != never {
		t.Errorf("input heap %s, requested %s", deref(e.InputHeap), deref(e.RequestedHeap))
	}
	if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], never) || !strings.Contains(e.Warnings[0], "fresh") {
		t.Errorf("warnings are %q", e.Warnings)
	}
}

func idempotency(t *testing.T, book *embed.Daybook) {
	s := embed.Script{Code: `"once"`, IdempotencyKey: "order-17"}
	ids := make([]string, 8)
	var asking sync.WaitGroup
	for i := range ids {
		asking.Go(func() { ids[i], _ = book.Submit(within(t), s) })
	}
	asking.Wait()
	for _, id := range ids {
		if id != ids[0] || id == "" {
			t.Fatalf("one key gave executions %q", ids)
		}
	}
	if _, err := book.Wait(within(t), ids[0]); err != nil {
		t.Fatal(err)
	}
	if again := submit(t, book, s); again != ids[0] {
		t.Errorf("after the end the key gives %s, want %s", again, ids[0])
	}
	if n := len(history(t, book, ids[0])); n != 3 {
		t.Errorf("%d events are recorded, want 3", n)
	}
	s.Code = `"something else"`
	if _, err := book.Submit(within(t), s); ledger.CodeOf(err) != ledger.CodeConflict {
		t.Errorf("other code under the same key: %v", err)
	}
}

func output(t *testing.T, book *embed.Daybook) {
	e := run(t, book, embed.Script{Code: `console.log("one", {a: 1}); console.warn("two"); console.error("drei é")`})
	page, err := book.Output(within(t), e.ExecutionID, projections.OutputQuery{LineOffset: 1, LineLimit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := "one { a: 1 }\n[WARN] two\n[ERROR] drei é\n"
	if page.Data != want || page.TotalLines != 3 || page.HasMore || page.Status != events.StatusCompleted {
		t.Errorf("the page is %+v, want data %q", page, want)
	}
}

func fileName(t *testing.T, book *embed.Daybook) {
	e := run(t, book, embed.Script{Code: "interface A { b: string }\n\nthrow new Error('here')", FileName: "plan.ts"})
	if !strings.Contains(deref(e.Error), "plan.ts:3") {
		t.Errorf("the stack is %q, without plan.ts:3", deref(e.Error))
	}
}

func sessionAndTags(t *testing.T, book *embed.Daybook) {
	e := run(t, book, embed.Script{Code: `let a = 1`, Session: "ledger tests", Tags: map[string]string{"kind": "test"}})
	got := types(history(t, book, e.ExecutionID))
	want := []events.Type{events.TypeExecutionRequested, events.TypeExecutionStarted, events.TypeExecutionCompleted}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	// The tag edit and the session entry follow the end, each on its own subject.
	found := map[events.Type]bool{}
	err := book.Follow(within(t), 0, func(batch []events.Event, _ uint64) error {
		for _, ev := range batch {
			switch d := ev.Data.(type) {
			case *events.HeapTagged:
				found[ev.Type] = found[ev.Type] || d.ExecutionID == e.ExecutionID && ev.About() == deref(e.Heap)
			case *events.SessionEntryRecorded:
				found[ev.Type] = found[ev.Type] || d.ExecutionID == e.ExecutionID && d.Session == "ledger tests"
			}
		}
		if found[events.TypeHeapTagged] && found[events.TypeSessionEntryRecorded] {
			return context.Canceled
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("tag edit and entry: %v, %v", found, err)
	}
}

func cancelLoop(t *testing.T, book *embed.Daybook) {
	id := submit(t, book, embed.Script{Code: `console.log("in"); while (true) {}`})
	awaitEvent(t, book, id, events.TypeExecutionOutput)
	if err := book.Cancel(within(t), id); err != nil {
		t.Fatal(err)
	}
	e, err := book.Wait(within(t), id)
	if err != nil {
		t.Fatal(err)
	}
	if e.Status != events.StatusCancelled || deref(e.Error) != "Cancelled by user" || e.Heap != nil || e.Result != nil {
		t.Errorf("the run is %s: %s, heap %s", e.Status, deref(e.Error), deref(e.Heap))
	}
	if err := book.Cancel(within(t), id); ledger.CodeOf(err) != ledger.CodeConflict {
		t.Errorf("cancelling it again: %v", err)
	}
	if err := book.Cancel(within(t), events.NewID(time.Now())); ledger.CodeOf(err) != ledger.CodeNotFound {
		t.Errorf("cancelling an unknown execution: %v", err)
	}
}

func timeoutAwaiting(t *testing.T, book *embed.Daybook) {
	for _, code := range []string{`await new Promise(() => setTimeout(() => {}, 3600e3))`, `while (true) {}`} {
		e := run(t, book, embed.Script{Code: code, ExecutionTimeoutSecs: 1})
		if e.Status != events.StatusTimedOut || deref(e.Error) != "Execution timed out" || e.Heap != nil {
			t.Errorf("%s is %s: %s, heap %s", code, e.Status, deref(e.Error), deref(e.Heap))
		}
	}
}

func waitFor(t *testing.T, book *embed.Daybook) {
	if _, err := book.Wait(within(t), events.NewID(time.Now())); !errors.Is(err, events.ErrNotFound) && ledger.CodeOf(err) != ledger.CodeNotFound {
		t.Errorf("waiting for an unknown run: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	e, err := book.Run(ctx, embed.Script{Code: `await new Promise(r => setTimeout(r, 1500)); "late"`})
	if err == nil {
		t.Fatalf("Run outlasted its context: %+v", e)
	}
	if e.ExecutionID == "" {
		t.Skip("the machine was too busy to record the run in time")
	}
	if e, err := book.Wait(within(t), e.ExecutionID); err != nil || deref(e.Result) != "late" {
		t.Errorf("the run ended with %s, %v", deref(e.Result), err)
	}
}

func invalid(t *testing.T, book *embed.Daybook) {
	for _, test := range []struct {
		s     embed.Script
		words []string
	}{
		{embed.Script{Code: "1", Heap: "nothash"}, []string{"heap"}},
		{embed.Script{Code: "1", ExecutionTimeoutSecs: 301}, []string{"execution_timeout_secs", "300"}},
		{embed.Script{Code: "1", ExecutionTimeoutSecs: -1}, []string{"execution_timeout_secs", "300"}},
		{embed.Script{Code: "1", HeapMemoryMaxMB: 257}, []string{"heap_memory_max_mb", "256"}},
		{embed.Script{Code: "a\x00b"}, []string{"NUL"}},
		{embed.Script{Code: "1", Session: "a\nb"}, []string{"session"}},
	} {
		_, err := book.Submit(within(t), test.s)
		if ledger.CodeOf(err) != ledger.CodeInvalid {
			t.Errorf("%+v: %v", test.s, err)
			continue
		}
		wantError(t, err, test.words...)
	}
}

// Concurrent runs of one session each continue from their own input heap.
func lineage(t *testing.T, book *embed.Daybook) {
	var heaps [2]string
	for i := range heaps {
		_, heaps[i] = completes(t, book, embed.Script{Code: "let trail = ['" + string(rune('a'+i)) + "']", Session: "shared"})
	}
	const steps = 4
	var running sync.WaitGroup
	for i, heap := range heaps {
		running.Go(func() {
			for step := range steps {
				e, err := book.Run(within(t), embed.Script{Code: "trail.push(" + strconv.Itoa(step) + "); await null; trail.join('')", Heap: heap, Session: "shared"})
				if err != nil || e.Status != events.StatusCompleted || deref(e.InputHeap) != heap {
					t.Errorf("step %d of %d: %s from %s, want from %s: %v", step, i, e.Status, deref(e.InputHeap), heap, err)
					return
				}
				want := string(rune('a'+i)) + "0123"[:step+1]
				if deref(e.Result) != want {
					t.Errorf("step %d of %d gave %s, want %s", step, i, deref(e.Result), want)
				}
				heap = deref(e.Heap)
			}
		})
	}
	running.Wait()
}

// A hundred stateful runs from 16 concurrent clients: each client continues its own lineage and
// never gets the heap of another.
func TestManyClients(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Slots: embed.SlotOptions{Total: 2}})
	const clients, total = 16, 100
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			heap, count := "", 0
			for i := c; i < total; i += clients {
				code := "client++"
				if heap == "" {
					code = "let client = " + strconv.Itoa(c*1000) + "; client++"
				}
				e, err := book.Run(within(t), embed.Script{Code: code + "; client", Heap: heap})
				count++
				if want := strconv.Itoa(c*1000 + count); err != nil || deref(e.Result) != want || e.Heap == nil {
					t.Errorf("client %d, run %d: %s %s, want %s: %v", c, count, e.Status, deref(e.Result), want, err)
					return
				}
				heap = *e.Heap
			}
		})
	}
	running.Wait()
	// The ledger has one requested, one started and one terminal event for each run.
	counts := map[events.Type]int{}
	err := book.Follow(within(t), 0, func(batch []events.Event, last uint64) error {
		for _, e := range batch {
			if e.Tenant != events.LedgerTenant { // their number depends on the time
				counts[e.Type]++
			}
			if e.Seq == last && counts[events.TypeExecutionCompleted] == total {
				return context.Canceled
			}
		}
		return nil
	})
	want := map[events.Type]int{events.TypeExecutionRequested: total, events.TypeExecutionStarted: total, events.TypeExecutionCompleted: total}
	if diff := cmp.Diff(want, counts); diff != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("events (-want +got): %v\n%s", err, diff)
	}
}

// A run cancelled while it waits for a slot never runs.
func TestCancelQueued(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Slots: embed.SlotOptions{Total: 1}})
	busy := submit(t, book, embed.Script{Code: `while (true) {}`})
	awaitEvent(t, book, busy, events.TypeExecutionStarted)
	queued := submit(t, book, embed.Script{Code: `"must not run"`})
	if err := book.Cancel(within(t), queued); err != nil {
		t.Fatal(err)
	}
	if err := book.Cancel(within(t), busy); err != nil {
		t.Fatal(err)
	}
	// A later run completes, so the slot was offered to the cancelled run before.
	completes(t, book, embed.Script{Code: `1`})
	for _, typ := range types(history(t, book, queued)) {
		if typ == events.TypeExecutionStarted {
			t.Error("the cancelled run was started")
		}
	}
	if e, err := book.Wait(within(t), queued); err != nil || e.Status != events.StatusCancelled {
		t.Errorf("the cancelled run is %s, %v", e.Status, err)
	}
}

func TestStateless(t *testing.T) {
	t.Parallel()
	book := start(t, embed.Options{Runs: embed.RunOptions{Stateless: true}})
	e := run(t, book, embed.Script{Code: `typeof WebAssembly`})
	if e.Status != events.StatusCompleted || deref(e.Result) != "object" || e.Heap != nil {
		t.Errorf("the run is %s, %s, heap %s", e.Status, deref(e.Result), deref(e.Heap))
	}
	_, err := book.Submit(within(t), embed.Script{Code: "1", Heap: events.Hash(nil)})
	wantError(t, err, "heap", "stateless")
}

// In a process without a runner, a run waits for a runner of another process.
func TestNoRunner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	book := start(t, embed.Options{DataDir: dir, Runs: embed.RunOptions{Elsewhere: true}})
	id := submit(t, book, embed.Script{Code: `"taken later"`})
	// On a busy machine the read may take longer than the context of Wait.
	var e projections.ExecutionDetail
	var err error
	for limit := 300 * time.Millisecond; e.RequestedAt == "" && limit < patience; limit *= 2 {
		ctx, stop := context.WithTimeout(t.Context(), limit)
		e, err = book.Wait(ctx, id)
		stop()
	}
	if !errors.Is(err, context.DeadlineExceeded) || !e.Queued || e.Status != events.StatusRunning {
		t.Errorf("without a runner the run is %s, queued %t: %v", e.Status, e.Queued, err)
	}
	closeBook(t, book)
	book = start(t, embed.Options{DataDir: dir})
	if e, err := book.Wait(within(t), id); err != nil || deref(e.Result) != "taken later" {
		t.Errorf("with a runner it is %s: %v", e.Status, err)
	}
}
