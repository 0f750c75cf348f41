package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/worker"
	"daybook/internal/store/storetest"
	"daybook/ledger"
	"daybook/runner"
)

// newProcesses returns a pool that lives as long as the test.
func newProcesses(t *testing.T) *worker.Pool {
	t.Helper()
	pool := worker.New(worker.Options{Logger: storetest.Logger(t)})
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close the workers: %v", err)
		}
	})
	return pool
}

// script submits code and waits for its end.
func (b *testLedger) script(code string, change ...func(*ledger.Submission)) (string, events.Status, *events.Ending) {
	b.t.Helper()
	id := b.submit(append(change, func(s *ledger.Submission) { s.Code = code })...)
	status, end := b.waitForEnd(id)
	return id, status, end
}

func TestRealWorkers(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	p := newProcesses(t)
	b.startRunner(b.options(p))

	id, status, end := b.script(`let x: number = 41; console.log("hello"); console.error("é"); x`)
	if status != events.StatusCompleted || end.Content.Value().Result == nil || end.Content.Value().Result.Text != "41" || end.Heap == nil {
		t.Fatalf("the run is %s: %s %+v", status, errorText(end), end)
	}
	list := b.history(id)
	if diff := cmp.Diff("hello\n[ERROR] é\n", text(list)); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if want := events.Hash([]byte("hello\n[ERROR] é\n")); end.Output.SHA256 != want || end.TranspiledSHA256 == "" {
		t.Errorf("the end is %+v, output %+v", end, end.Output)
	}

	if missing := sandbox.Missing(newestStart(t, b.history(id)).Layers, true); len(missing) != 0 {
		t.Errorf("the started event lacks the layers %v", missing)
	}

	id, status, end = b.script(`x + 1`, func(s *ledger.Submission) { s.Heap = end.Heap.SHA256 })
	if status != events.StatusCompleted || end.Content.Value().Result.Text != "42" {
		t.Fatalf("the run is %s: %s", status, errorText(end))
	}
	if got := newestStart(t, b.history(id)).InputHeap; got == "" || got != end.Heap.Parent {
		t.Errorf("input heap is %q, parent %q", got, end.Heap.Parent)
	}

	_, status, end = b.script(`let a = n.length`, func(s *ledger.Submission) { s.Globals = map[string]json.RawMessage{"n": json.RawMessage("[1]")} })
	if status != events.StatusCompleted || end.Content.Value().Result != nil {
		t.Errorf("a declaration with an input value is %s: %s %+v", status, errorText(end), end.Content.Value().Result)
	}

	_, status, end = b.script(`throw new Error("no")`)
	if status != events.StatusFailed || !strings.HasPrefix(errorText(end), "Error: no") || end.Heap == nil {
		t.Errorf("the run is %s: %s %+v", status, errorText(end), end)
	}

	one := 1
	_, status, end = b.script(`for (;;) {}`, func(s *ledger.Submission) { s.ExecutionTimeoutSecs = &one })
	if status != events.StatusTimedOut || errorText(end) != "Execution timed out" || end.Heap != nil || end.Usage.CPUMillis == 0 {
		t.Errorf("the run is %s: %s %+v", status, errorText(end), end)
	}
}

// The reason why a worker was killed for a violation is recorded.
func TestViolationIsRecorded(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	b.startRunner(b.options(workers{func(context.Context, runner.Task, sink) (runner.Outcome, error) {
		return runner.Outcome{Status: "failed", Reason: "sandbox_violation", Error: "sandbox violation: socket"}, nil
	}}))
	_, status, end := b.script(`1`)
	if status != events.StatusFailed || end.Reason != "sandbox_violation" || errorText(end) != "sandbox violation: socket" {
		t.Errorf("the run is %s: %s %+v", status, errorText(end), end)
	}
}

func TestRealWorkersAreCancelled(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	b.startRunner(b.options(newProcesses(t)))
	id := b.submit(func(s *ledger.Submission) { s.Code = `console.log("busy"); for (;;) {}` })
	b.waitFor(id, isType(events.TypeExecutionOutput))
	if _, err := b.cancel(id); err != nil {
		t.Fatalf("cancel: %v", err)
	}
	status, end := b.waitForEnd(id)
	if status != events.StatusCancelled || end.Runner == "" || text(b.history(id)) != "busy\n" {
		t.Errorf("the run is %s: %+v", status, end)
	}
	if end.Usage == nil || end.Usage.CPUMillis == 0 || end.Usage.WallMillis == 0 {
		t.Errorf("the run cost %+v", end.Usage)
	}
}

// After the first runner is shut down, the run continues on a second runner with the seed,
// the clock and the input values of the first attempt, so that it writes the same output.
func TestRealWorkersContinueAfterADrain(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	const code = `console.log(Math.random(), Date.now(), given.join()); given.push(3); await new Promise(r => setTimeout(r, 4000)); 1`
	opts := b.options(newProcesses(t))
	opts.DrainTimeout = -1
	_, drain := b.startRunner(opts)
	id := b.submit(func(s *ledger.Submission) {
		s.Code, s.Globals = code, map[string]json.RawMessage{"given": json.RawMessage("[1,2]")}
	})
	b.waitFor(id, isType(events.TypeExecutionOutput))
	drain()
	b.startRunner(b.options(newProcesses(t)))
	if status, end := b.waitForEnd(id); status != events.StatusCompleted || end.Attempt != 1 {
		t.Fatalf("the run is %s: %s %+v", status, errorText(end), end)
	}
	lines := strings.Split(strings.TrimSuffix(text(b.history(id)), "\n"), "\n")
	if len(lines) != 2 || lines[0] != lines[1] || !strings.HasSuffix(lines[0], " 1,2") {
		t.Errorf("the two attempts wrote %q", lines)
	}
}

// Many scripts run at once, each with output of its own.
func TestRealWorkersInParallel(t *testing.T) {
	t.Parallel()
	b := newTestLedger(t)
	b.startRunner(b.options(newProcesses(t)))
	ids := map[string]int{}
	for i := range 12 {
		ids[b.submit(func(s *ledger.Submission) {
			s.Code = fmt.Sprintf(`for (let i = 0; i < 500; i++) console.log(%d, i); %d`, i, i)
		})] = i
	}
	for id, i := range ids {
		status, end := b.waitForEnd(id)
		if status != events.StatusCompleted || end.Content.Value().Result.Text != fmt.Sprint(i) || end.Output.Lines != 500 {
			t.Errorf("run %d is %s: %s %+v", i, status, errorText(end), end)
		}
	}
}
