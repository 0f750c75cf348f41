package worker_test

import (
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

func hostilePool(t *testing.T, how string) *worker.Pool {
	t.Helper()
	pool := worker.New(worker.Options{Idle: -1, StartTimeout: 20 * time.Second})
	pool.UseProgram("/proc/self/exe", "hostile-worker", how)
	t.Cleanup(func() { pool.Close() })
	return pool
}

// A worker that breaks the protocol in any way is killed, and the outcome of the run has the reason.
func TestWorkerBreaksProtocol(t *testing.T) {
	t.Parallel()
	for _, how := range []string{
		"sends lines before accepting", "garbage", "oversized frame", "empty frame", "unknown frame", "accepts twice", "empty frame of lines",
		"line cut short", "line of invalid UTF-8", "line with a line end", "line with an unknown level", "data before the end", "end that is not JSON",
		"end with unknown fields", "end of an unknown kind", "end with an unknown reason not to repeat", "end with a reason not to repeat twice", "end with reasons not to repeat in another order", "end with reasons not to repeat that are no list",
		"huge text", "huge heap", "negative heap", "heap after running out of memory",
		"more text than announced", "more heap than announced", "lines after the end", "text of invalid UTF-8",
		"calls a tool that is not offered", "calls a server without a name", "repeats a call", "skips a call", "calls with huge arguments", "calls with no arguments", "calls with arguments that are not UTF-8",
		"more arguments than announced", "lines among arguments", "more calls at a time", "waits for no call", "waits until an invalid time", "calls after the end",
		"completes with a call pending", "reports a timer that is not asked for", "counts timers that are not asked for",
		"artifact without a name", "artifact with a control character in its name", "artifact with a long name", "artifact with a malformed type", "artifact of a negative size",
		"huge artifact", "artifact at an impossible time", "artifact that is not JSON", "artifact larger than announced", "lines in an artifact", "end in an artifact",
		"call in an artifact", "empty data in an artifact", "artifact among arguments", "artifact after the end", "more artifacts", "artifacts of too many bytes",
	} {
		t.Run(how, func(t *testing.T) {
			pool := hostilePool(t, how)
			task := hostileTask("1+1")
			task.Timeout = 20 * time.Second
			task.Servers, task.Host = map[string][]string{"s": {"t"}}, &silent{make(chan struct{})}
			o, err := pool.Run(t.Context(), task, discard)
			if err != nil || o.Status != events.StatusFailed || o.Reason != runner.ReasonProtocol || !strings.HasPrefix(o.Error, "Worker broke protocol: ") || o.Heap != nil {
				t.Fatalf("%+v, %v", o, err)
			}
			if idle := pool.IdleWorkers(); len(idle) != 0 {
				t.Errorf("it was kept: %v", idle)
			}
		})
	}
}

func TestWorkerMisbehaves(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ how, reason, text string }{
		{"promises a heap and hangs", runner.ReasonTimeout, "Execution timed out"},
		{"floods lines", runner.ReasonTimeout, "Execution timed out"},
		{"closes its output", runner.ReasonWorkerDied, "The worker process died: killed by SIGKILL"},
		{"exits in the middle", runner.ReasonWorkerDied, "The worker process died: exit status 42"},
		{"floods standard error", runner.ReasonWorkerDied, "The worker process died: exit status 43: noise"},
		{"leaves a child with the pipes", runner.ReasonWorkerDied, "The worker process died: exit status 44"},
		{"speaks after the end", "", ""},
	} {
		t.Run(test.how, func(t *testing.T) {
			pool := hostilePool(t, test.how)
			task := hostileTask("1+1")
			if test.reason != runner.ReasonTimeout {
				task.Timeout = 20 * time.Second // the run ends before it, on a slow machine too
			}
			o, err := pool.Run(t.Context(), task, discard)
			if err != nil || o.Reason != test.reason || !strings.HasPrefix(o.Error, test.text) {
				t.Fatalf("%+v, %v", o, err)
			}
			if o.WallTime > 20*time.Second {
				t.Errorf("took %s", o.WallTime)
			}
		})
	}
}

// If a used worker runs out of memory, the previous run may be the cause, so another worker gets the
// task. In a fresh worker the task is the cause.
func TestMemoryOfThePreviousRun(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	pool.UseProgram("/proc/self/exe", "hostile-worker", "has no memory for its second task")
	defer pool.Close()
	for n := range 4 {
		o, err := pool.Run(t.Context(), patient("1+1"), discard)
		if err != nil || o.Status != events.StatusCompleted {
			t.Errorf("run %d: %+v, %v", n+1, o, err)
		}
	}
	fresh := hostilePool(t, "has no memory for its task")
	o, err := fresh.Run(t.Context(), patient("1+1"), discard)
	if err != nil || o.Reason != runner.ReasonOutOfMemory || o.Error != worker.OutOfMemory {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestWorkerDoesNotStart(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"not ready":             "instead of ready",
		"dies before accepting": "worker died before it took the task: exit status 9",
	} {
		pool := hostilePool(t, how)
		if o, err := pool.Run(t.Context(), hostileTask("1"), discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want %q", how, o, err, want)
		}
	}

	slow := worker.New(worker.Options{Idle: -1, StartTimeout: 100 * time.Millisecond})
	slow.UseProgram("/proc/self/exe", "hostile-worker", "never ready")
	defer slow.Close()
	if _, err := slow.Engine(t.Context(), true); err == nil || !strings.Contains(err.Error(), "not ready after 100ms") {
		t.Errorf("never ready: %v", err)
	}

	missing := worker.New(worker.Options{Idle: -1})
	missing.UseProgram("/nonexistent/program")
	defer missing.Close()
	if _, err := missing.Engine(t.Context(), true); err == nil || !strings.HasPrefix(err.Error(), "start worker: ") {
		t.Errorf("missing program: %v", err)
	}

	other := worker.New(worker.Options{Idle: -1})
	other.UseProgram("/bin/true", "true")
	defer other.Close()
	if _, err := other.Engine(t.Context(), true); err == nil || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Errorf("another program: %v", err)
	}
}

// Workers that died while they were idle only delay the next run.
func TestIdleWorkersDie(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	task := hostileTask("1+1")
	task.Timeout = 20 * time.Second
	for range 5 {
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Status != events.StatusCompleted {
			t.Fatalf("%+v, %v", o, err)
		}
		pool.KillIdle()
	}
}

func TestFrameCheckerAllocatesAsItReceives(t *testing.T) {
	c := worker.NewFrameChecker(1 << 31)
	if _, err := c.Take('A', nil); err != nil {
		t.Fatal(err)
	}
	end := `{"end":"exception","has_text":true,"text_size":16777216,"heap_size":2147483648,"transpiled_sha256":"` + strings.Repeat("ab", 32) + `"}`
	if _, err := c.Take('E', []byte(end)); err != nil {
		t.Fatal(err)
	}
	if c.Held() > 32<<20 {
		t.Errorf("%d bytes were set aside for a promise", c.Held())
	}
}
