package worker_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// endless has scripts that end only when they are stopped.
var endless = []string{
	"console.log('on'); for (;;);",
	"console.log('on'); await new Promise(r => setTimeout(r, 1e6)); for (;;);",
	"console.log('on'); try { for (;;); } finally { globalThis.left = 1; Array.prototype.push = null }",
	"console.log('on'); let all = []; for (let i = 0; ; i = (i + 1) % 1e5) all[i] = {i}",
}

// A worker whose run was cancelled or reached its time limit is used again. Its next run makes the same
// heap as in any other worker.
func TestStoppedWorkerServesOn(t *testing.T) {
	t.Parallel()
	const code = "let s = new Map; for (let i = 0; i < 1e3; i++) s.set(i, Math.random()); [typeof left, s.size, typeof [].push].join()"
	other := worker.New(worker.Options{Idle: -1})
	defer other.Close()
	want, err := other.Run(t.Context(), patient(code), discard)
	if err != nil {
		t.Fatal(err)
	}
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	pids := map[int]bool{}
	why := errors.New("the user asked")
	for i, script := range endless {
		var pid int
		note := pool.NotePID(&pid)
		var err error
		if i%2 == 0 {
			ctx, cancel := context.WithCancelCause(t.Context())
			_, err = pool.Run(ctx, patient(script), func(ctx context.Context, lines []events.Line) error {
				cancel(why)
				return note(ctx, lines)
			})
			if !errors.Is(err, why) {
				t.Errorf("%s: ended with %v", script, err)
			}
		} else {
			task := patient(script)
			task.Timeout = 200 * time.Millisecond
			var o runner.Outcome
			if o, err = pool.Run(t.Context(), task, note); err != nil || o.Status != events.StatusTimedOut {
				t.Errorf("%s: %+v, %v", script, o, err)
			}
		}
		pids[pid] = true
		got, err := pool.Run(t.Context(), patient(code), discard)
		if err != nil || got.Result == nil || *got.Result != *want.Result || !bytes.Equal(got.Heap, want.Heap) {
			t.Errorf("after %s: %+v, %v; want the result %s and the same heap", script, got.Status, err, *want.Result)
		}
	}
	// On a busy machine a worker may take longer to stop than it may.
	if len(pids) == len(endless) {
		t.Errorf("each of %d runs had a worker of its own", len(pids))
	}
}

// A cancel that comes before the task or with it stops the run as fast as a later one.
func TestStopMeetsTheTask(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the user asked")
	pids, runs := map[int]bool{}, 0
	for range 40 {
		ctx, cancel := context.WithCancelCause(t.Context())
		var pid int
		note := pool.NotePID(&pid)
		if _, err := pool.Run(t.Context(), patient("console.log(1)"), note); err != nil {
			t.Fatal(err)
		}
		pids[pid] = true
		go func() { cancel(why) }() // at about the time when the task is sent
		if _, err := pool.Run(ctx, patient("for (;;);"), discard); !errors.Is(err, why) {
			t.Fatalf("ended with %v", err)
		}
		runs++
	}
	if len(pids) > runs/4 { // a busy machine may be slower than the time to stop
		t.Errorf("%d runs that were cancelled took %d workers", runs, len(pids))
	}
}

// A request to stop that comes at the end of its run does not affect the next run.
func TestStopMeetsTheEnd(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the user asked")
	var late sync.WaitGroup
	defer late.Wait()
	for i := range 60 {
		ctx, cancel := context.WithCancelCause(t.Context())
		late.Go(func() {
			time.Sleep(time.Duration(rand.IntN(12)) * time.Millisecond) // until some moment of a run
			cancel(why)
		})
		if o, err := pool.Run(ctx, patient("1"), discard); err != nil && !errors.Is(err, why) || err == nil && o.Status != events.StatusCompleted {
			t.Fatalf("run %d, which is cancelled: %+v, %v", i, o, err)
		}
		if o, err := pool.Run(t.Context(), patient("2"), discard); err != nil || o.Result == nil || *o.Result != "2" {
			t.Fatalf("the run after run %d: %+v, %v", i, o, err)
		}
	}
}

// A worker that breaks the protocol when it is stopped is not used again.
func TestStoppedWorkerBreaksProtocol(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, StartTimeout: 20 * time.Second})
	pool.UseProgram("/proc/self/exe", "hostile-worker", "text of invalid UTF-8 when it is stopped")
	defer pool.Close()
	task := hostileTask("1+1")
	task.Timeout = 100 * time.Millisecond
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Status != events.StatusTimedOut {
		t.Fatalf("%+v, %v", o, err)
	}
	for pid, tenant := range pool.IdleWorkers() {
		if tenant != "" {
			t.Errorf("worker %d waits for the next run of %s", pid, tenant)
		}
	}
}

// Answers to calls of a stopped run do not reach the next run.
func TestStopMeetsAnswers(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the user asked")
	stale := `"` + strings.Repeat("stale", 1<<20) + `"`
	pids := map[int]bool{}
	const runs = 8
	for i := range runs {
		ctx, cancel := context.WithCancelCause(t.Context())
		old := &script{answer: func(int, string, string, string) (bool, string) {
			time.AfterFunc(time.Duration(i)*200*time.Microsecond, func() { cancel(why) }) // while the answer is written
			return true, stale
		}}
		var pid int
		if _, err := pool.Run(ctx, calling("console.log(1); for (;;) await mcp.files.read({})", old), pool.NotePID(&pid)); !errors.Is(err, why) {
			t.Fatalf("run %d ended with %v", i, err)
		}
		pids[pid] = true
		host := &script{answer: echo}
		o, err := pool.Run(t.Context(), calling("(await mcp.files.read({n: 1})).n + (await mcp.files.read({n: 2})).n", host), discard)
		if err != nil || value(o) != "3" {
			t.Fatalf("the run after run %d: %s %s, %v", i, value(o), o.Error, err)
		}
	}
	if len(pids) > runs/2 { // a busy machine may be slower than the time to stop
		t.Errorf("%d runs that were cancelled took %d workers", runs, len(pids))
	}
}

// A run whose output is not accepted ends soon after it is stopped, and its worker is used again. No line
// is passed on after one that was refused.
func TestStoppedWhileItsOutputWaits(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the user asked")
	pids := map[int]bool{}
	const runs = 6
	for i := range runs {
		ctx, cancel := context.WithCancelCause(t.Context())
		var pid, refused int
		note := pool.NotePID(&pid)
		refuse := func(ctx context.Context, lines []events.Line) error {
			if i%2 == 0 {
				time.AfterFunc(20*time.Millisecond, func() { cancel(why) }) // the pipe is full by then
			}
			<-ctx.Done()
			refused++
			return errors.Join(ctx.Err(), note(ctx, lines))
		}
		task := patient("for (;;) console.log('x'.repeat(100_000))")
		if i%2 == 1 {
			task.Timeout = 300 * time.Millisecond
		}
		o, err := pool.Run(ctx, task, refuse)
		if i%2 == 0 && !errors.Is(err, why) || i%2 == 1 && (err != nil || o.Status != events.StatusTimedOut) {
			t.Errorf("run %d: %+v, %v", i, o, err)
		}
		if refused > 1 || refused == 0 && i%2 == 0 { // on a busy machine the time limit may come before the first line
			t.Errorf("run %d: lines were handed over %d times, want 1", i, refused)
		}
		cancel(nil)
		pids[pid] = true
	}
	if len(pids) > runs/2 { // a busy machine may be slower than the time to stop
		t.Errorf("%d runs that were stopped took %d workers", runs, len(pids))
	}
}

// A run whose heap waits for memory ends soon after it is stopped, and its worker is used again.
func TestStoppedWhileItsHeapWaits(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the user asked")
	pids := map[int]bool{}
	const runs = 6
	for i := range runs {
		ctx, cancel := context.WithCancelCause(t.Context())
		var pid int
		task := patient("console.log(1); let kept = new Uint8Array(8 << 20).fill(7)")
		if i == runs-1 {
			task.Timeout = time.Second
		}
		task.ReserveHeap = func(ctx context.Context, size int64) error {
			if i < runs-1 {
				cancel(why)
			}
			<-ctx.Done()
			return ctx.Err()
		}
		o, err := pool.Run(ctx, task, pool.NotePID(&pid))
		if i < runs-1 && !errors.Is(err, why) || i == runs-1 && (err != nil || o.Status != events.StatusTimedOut) || o.Heap != nil {
			t.Errorf("run %d: %+v, %v", i, o.Status, err)
		}
		cancel(nil)
		pids[pid] = true
	}
	if len(pids) > runs/2 { // a busy machine may be slower than the time to stop
		t.Errorf("%d runs that were stopped took %d workers", runs, len(pids))
	}
}
