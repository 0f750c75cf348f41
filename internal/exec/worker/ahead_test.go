package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// turn returns the task of a run that starts from a heap, and whose heap the next run starts from.
func turn(code string, heap []byte) runner.Task {
	task := patient(code)
	task.Heap, task.RestoreAhead = heap, true
	if heap != nil {
		task.HeapKey = events.Hash(heap)
	}
	return task
}

// do runs a task, and names its heap as a runner does that has stored it.
func do(t *testing.T, p *worker.Pool, task runner.Task) (runner.Outcome, []events.Line) {
	t.Helper()
	var lines []events.Line
	o, err := p.Run(t.Context(), task, collect(&lines))
	if err != nil {
		t.Fatal(err)
	}
	if o.HeapStored != nil {
		o.HeapStored(events.Hash(o.Heap))
	}
	return o, lines
}

// awaitRestored waits until the worker that keeps a heap has restored it: it then waits for a task.
func awaitRestored(t *testing.T, p *worker.Pool) {
	t.Helper()
	before, quiet := time.Duration(-1), 0
	waitUntil(t, "the heap is restored", func() bool {
		used, err := worker.ProcessCPUTime(p.AheadWorker())
		if err != nil {
			t.Fatal(err)
		}
		if used == before {
			quiet++
		} else {
			before, quiet = used, 0
		}
		return quiet > 20
	})
}

// chainOfScripts leave things that a later run, or the restoring of a heap, could notice.
var chainOfScripts = []string{
	"globalThis.log = []; log.push(Math.random(), Date.now(), performance.now()); var n = 1",
	"log.push(Math.random(), crypto.randomUUID(), Date.now()); console.log(log.length, new Date().toISOString()); console.count('x'); n++",
	"console.count('x'); console.group('deep'); setInterval(() => console.log('tick'), 7).unref(); console.time('t'); [...crypto.getRandomValues(new Uint8Array(8))].join()",
	"console.log('grouped'); console.groupEnd(); console.timeEnd('t'); Object.defineProperty(globalThis, 'trap', {get() { console.log('trapped', Math.random()); return 1 }, configurable: true}); 1",
	"Array.prototype.push = function () { return Math.random() }; Object.prototype.toJSON = () => 'x'; Date.now = () => 1; 2",
	"trap + String(Math.random()) + Date.now()",
	"globalThis.f = new FinalizationRegistry(() => console.log('finalized')); f.register({}, 1); globalThis.w = new WeakRef(globalThis); globalThis.m = new Map([[{a: 1}, new Set([1n])]]); 3",
	"class A { #x = Math.random(); static s = new Error('kept'); get x() { return this.#x } }; globalThis.a = new A; A.s.stack",
	"throw new Error('uncaught ' + a.x)",
	"a.x + (await new Promise(r => setTimeout(() => r(Math.random()), 50))) + performance.now()",
	"const = 1",
	"globalThis.b = new Uint8Array(1 << 20).fill(7); b.length",
	"Object.freeze(Object.prototype); Object.freeze(Array.prototype); Math.random = () => 4; b[5]",
	"await new Promise(() => {})",
	"let re = /(a)(b)?/g; globalThis.re = [re, /(a)(b)?/g]; for (let i = 0; i < 300; i++) 'xab'.replace(re, '$1'); (1234.5).toLocaleString('de')",
	"globalThis.g = (function* () { yield Math.random(); yield 2 })(); g.next().value",
	"g.next().value + re.length + new Intl.DateTimeFormat('de').format(0)",
	"let s = ''; const deep = k => k ? deep(k - 1) : new Error().stack.length; deep(50)",
	"Object.preventExtensions(globalThis); structuredClone({a: [new Date(5)]}).a[0].getTime() + Math.random()",
	"process = 1; JSON.stringify([n, typeof log, typeof a])",
}

// comparable returns what a run shows of itself, without measurements of time.
func comparable(o runner.Outcome) runner.Outcome {
	o.CPUTime, o.WallTime, o.HeapStored = 0, 0, nil
	return o
}

// A run whose heap was restored ahead gives the same as one whose heap was restored on demand.
func TestAheadIsTheSame(t *testing.T) {
	t.Parallel()
	ahead, demand := worker.New(worker.Options{Idle: 1}), worker.New(worker.Options{Idle: 1, Ahead: -1})
	defer ahead.Close()
	defer demand.Close()
	var heap []byte
	restored := 0
	for i, code := range chainOfScripts {
		task := turn(code, heap)
		task.Start = task.Start.Add(time.Duration(i) * time.Second)
		task.Seed[0] = byte(i)
		task.Globals = fmt.Appendf(nil, `{"given": %d}`, i)
		task.NodeGlobals = i%3 == 0
		if ahead.WouldContinue(task) {
			restored++
			awaitRestored(t, ahead)
		}
		got, gotLines := do(t, ahead, task)
		want, wantLines := do(t, demand, task)
		if !bytes.Equal(got.Heap, want.Heap) {
			t.Errorf("%q leaves another heap", code)
		}
		if a, b := comparable(got), comparable(want); !reflect.DeepEqual(a, b) {
			a.Heap, b.Heap = nil, nil
			t.Errorf("%q: %+v, want %+v", code, a, b)
		}
		if !reflect.DeepEqual(gotLines, wantLines) {
			t.Errorf("%q wrote %+v, want %+v", code, gotLines, wantLines)
		}
		if got.Heap != nil {
			heap = got.Heap
		}
	}
	if demand.AheadHeaps() != 0 || restored < len(chainOfScripts)-3 { // the first run, and those after runs without a heap
		t.Errorf("%d of %d heaps were restored ahead", restored, len(chainOfScripts))
	}
}

// A run that comes before the worker has restored the heap starts from the bytes that it kept.
func TestAheadBeforeItIsRestored(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	o, _ := do(t, pool, turn("var n = 0", nil))
	for i := 1; i <= 20; i++ {
		task := turn("++n", o.Heap)
		if !pool.WouldContinue(task) {
			t.Fatal("no worker keeps the heap")
		}
		if o, _ = do(t, pool, task); o.Result == nil || *o.Result != fmt.Sprint(i) {
			t.Fatalf("run %d: %+v", i, o)
		}
	}
}

// Only the run of the same tenant, heap and limits gets a heap that was restored ahead. The others
// get what they ask for.
func TestAheadMatches(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*runner.Task)
		want   bool
	}{
		"the same":             {func(*runner.Task) {}, true},
		"other code":           {func(t *runner.Task) { t.Code = []byte("n + 0") }, true},
		"another session":      {func(t *runner.Task) { t.Session = "other" }, true}, // a heap belongs to a tenant
		"another tenant":       {func(t *runner.Task) { t.Tenant = "other" }, false},
		"another key":          {func(t *runner.Task) { t.HeapKey = "other" }, false},
		"no key":               {func(t *runner.Task) { t.HeapKey = "" }, false},
		"another heap limit":   {func(t *runner.Task) { t.HeapLimitBytes /= 2 }, false},
		"another buffer limit": {func(t *runner.Task) { t.ArrayBufferLimitBytes = 1 << 20 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := worker.New(worker.Options{Idle: 1})
			defer pool.Close()
			o, _ := do(t, pool, turn("var n = 42", nil))
			kept := pool.AheadWorker()
			task := turn("n", o.Heap)
			test.change(&task)
			if got := pool.WouldContinue(task); got != test.want {
				t.Errorf("the task continues in the worker: %t, want %t", got, test.want)
			}
			task.Code = append([]byte("console.log('x');"), task.Code...)
			var pid int
			o, err := pool.Run(t.Context(), task, pool.NotePID(&pid))
			if err != nil || o.Result == nil || *o.Result != "42" {
				t.Errorf("%+v, %v", o, err)
			}
			if test.want && pid != kept || name == "another tenant" && pid == kept {
				t.Errorf("process %d ran it, and process %d kept the heap", pid, kept)
			}
		})
	}
}

// A heap whose storing failed is not offered to any run.
func TestAheadOnlyStoredHeaps(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	o, err := pool.Run(t.Context(), turn("var n = 42", nil), discard)
	if err != nil || o.HeapStored == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	if pool.WouldContinue(turn("n", o.Heap)) {
		t.Error("a run continues from a heap that is not stored")
	}
	o.HeapStored(events.Hash(o.Heap))
	if !pool.WouldContinue(turn("n", o.Heap)) {
		t.Error("no run continues from the stored heap")
	}
}

func TestAheadWithReuse(t *testing.T) {
	t.Parallel()
	for reuse, want := range map[worker.Reuse]struct{ same, other bool }{
		worker.ReuseTenant: {true, true}, worker.ReuseSession: {true, false}, worker.ReuseRun: {false, false},
	} {
		pool := worker.New(worker.Options{Idle: 1, Reuse: reuse})
		defer pool.Close()
		first := turn("var n = 1", nil)
		first.Session = "mine"
		o, _ := do(t, pool, first)
		next := turn("n", o.Heap)
		next.Session = "mine"
		other := next
		other.Session = "another"
		if same, others := pool.WouldContinue(next), pool.WouldContinue(other); same != want.same || others != want.other {
			t.Errorf("%s: a run of the session continues: %t, one of another session: %t", reuse, same, others)
		}
		for _, task := range []runner.Task{other, next} {
			if o, _ := do(t, pool, task); o.Result == nil || *o.Result != "1" {
				t.Errorf("%s: %+v", reuse, o)
			}
		}
	}
}

// Other runs of the tenant leave a heap alone as long as another worker is ready, and take its
// worker when none is.
func TestAheadMakesWay(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, IdleUsed: 2})
	defer pool.Close()
	pool.ExpireAhead(time.Hour) // not while the test waits for workers
	awaitFresh := func() {
		t.Helper()
		waitUntil(t, "a fresh worker is ready", func() bool {
			for _, tenant := range pool.IdleWorkers() {
				if tenant == "" {
					return true
				}
			}
			return false
		})
	}
	a, _ := do(t, pool, turn("var n = 'a'", nil))
	task := patient("1")
	awaitFresh()
	do(t, pool, task)
	if !pool.WouldContinue(turn("n", a.Heap)) {
		t.Error("a run took the worker of a heap although another one was ready")
	}
	b, _ := do(t, pool, turn("var n = 'b'", nil)) // in the worker without a heap
	awaitFresh()
	if pool.AheadHeaps() != 2 {
		t.Errorf("%d heaps are kept", pool.AheadHeaps())
	}
	do(t, pool, task) // takes the least recently used of both
	if pool.WouldContinue(turn("n", a.Heap)) || !pool.WouldContinue(turn("n", b.Heap)) {
		t.Error("the older heap is kept, or the newer one is not")
	}
	for want, o := range map[string]runner.Outcome{"a": a, "b": b} {
		if o, _ := do(t, pool, turn("n", o.Heap)); o.Result == nil || *o.Result != want {
			t.Errorf("%s: %+v", want, o)
		}
	}
}

// The number of heaps is limited: the oldest is dropped.
func TestAheadNumber(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 3, IdleUsed: 3, Ahead: 1})
	defer pool.Close()
	if _, err := pool.Engine(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "all workers are ready", func() bool { return len(pool.IdleWorkers()) >= 3 })
	a, _ := do(t, pool, turn("var n = 'a'", nil))
	b, _ := do(t, pool, turn("var n = 'b'", nil))
	if pool.AheadHeaps() != 1 || pool.WouldContinue(turn("n", a.Heap)) || !pool.WouldContinue(turn("n", b.Heap)) {
		t.Errorf("%d heaps are kept", pool.AheadHeaps())
	}
}

// A tenant that keeps many heaps does not drop those of another one.
func TestAheadOfTenants(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 3, IdleUsed: 3, Ahead: 2})
	defer pool.Close()
	pool.ExpireAhead(time.Hour) // not while the test waits for workers
	if _, err := pool.Engine(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	first := turn("var n = 'quiet'", nil)
	first.Tenant = "quiet"
	quiet, _ := do(t, pool, first)
	var busy []runner.Outcome
	for _, name := range []string{"a", "b"} {
		waitUntil(t, "all workers are ready", func() bool { return len(pool.IdleWorkers()) >= 3 })
		o, _ := do(t, pool, turn("var n = '"+name+"'", nil))
		busy = append(busy, o)
	}
	next := turn("n", quiet.Heap)
	next.Tenant = "quiet"
	if pool.AheadHeaps() != 2 || !pool.WouldContinue(next) || pool.WouldContinue(turn("n", busy[0].Heap)) || !pool.WouldContinue(turn("n", busy[1].Heap)) {
		t.Errorf("%d heaps are kept, that of the quiet tenant: %t", pool.AheadHeaps(), pool.WouldContinue(next))
	}
}

// Heaps that take much memory are not kept.
func TestAheadSize(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for name, code := range map[string]string{
		"a large heap":     "globalThis.b = new Uint8Array(5 << 20); for (let i = 0; i < b.length; i++) b[i] = i * i >> 3; var n = 1",
		"a large peak":     "{ let all = []; for (let i = 0; i < 2e6; i++) all.push({i}) } var n = 1",
		"no heap":          "const = 1",
		"an uncaught loop": "throw 1",
	} {
		o, _ := do(t, pool, turn(code, nil))
		if want := name == "an uncaught loop"; pool.WouldContinue(turn("n", o.Heap)) != want {
			t.Errorf("%s: the heap is kept: %t (%d bytes, peak %d)", name, !want, len(o.Heap), o.PeakHeapBytes)
		}
	}
}

// Heaps are dropped after a time and while memory is short. The worker stays, and runs from the
// heap work.
func TestAheadIsDropped(t *testing.T) {
	t.Parallel()
	for _, why := range []string{"age", "pressure", "pressure before"} {
		var isShort atomic.Bool
		pool := worker.New(worker.Options{Idle: 1, MemoryShort: isShort.Load})
		defer pool.Close()
		isShort.Store(why == "pressure before")
		o, _ := do(t, pool, turn("var n = 7", nil))
		pid := pool.AheadWorker()
		switch why {
		case "age":
			awaitRestored(t, pool)
			pool.ExpireAhead(0)
		case "pressure":
			isShort.Store(true)
		case "pressure before":
			if pid != 0 {
				t.Error("a heap is kept while memory is short")
			}
		}
		waitUntil(t, "the heap is dropped", func() bool { return pool.AheadHeaps() == 0 })
		if _, alive := pool.IdleWorkers()[pid]; pid != 0 && !alive {
			t.Errorf("%s: the worker ended", why)
		}
		task := turn("n", o.Heap)
		for range 2 {
			if o, _ := do(t, pool, task); o.Result == nil || *o.Result != "7" {
				t.Errorf("%s: %+v", why, o)
			}
		}
	}
}

// A worker that dies with its heap costs the next run nothing.
func TestAheadWorkerDies(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	o, _ := do(t, pool, turn("var n = 7", nil))
	task := turn("n", o.Heap)
	pid := pool.AheadWorker()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil { // it dies when the task is being sent
		t.Fatal(err)
	}
	waitUntil(t, "every thread of the worker is stopped", func() bool { return isStopped(t, pid) })
	done := make(chan runner.Outcome)
	go func() {
		defer close(done)
		o, err := pool.Run(context.WithoutCancel(t.Context()), task, discard)
		if err != nil {
			t.Error(err)
			return
		}
		done <- o
	}()
	waitUntil(t, "the worker has the task", func() bool { return pool.AheadHeaps() == 0 })
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if o, ok := <-done; ok && (o.Result == nil || *o.Result != "7") {
		t.Errorf("%+v", o)
	}
}

// isStopped reports whether no thread of a process runs any more after SIGSTOP.
func isStopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("the worker %d has the threads %v, error %v", pid, threads, err)
	}
	for _, name := range threads {
		// The state follows the name of the program in parentheses.
		stat, err := os.ReadFile(name)
		if err == nil && !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// A run from a heap that was restored ahead is stopped as any other.
func TestAheadIsCancelled(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	stopped := errors.New("stopped")
	isAlive := false
	for tries := 0; tries < 5 && !isAlive; tries++ { // on a busy machine a worker may take longer to stop than it may
		o, _ := do(t, pool, turn("var n = 7", nil))
		awaitRestored(t, pool)
		pid := pool.AheadWorker()
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := pool.Run(ctx, turn("console.log(1); for (;;);", o.Heap), func(context.Context, []events.Line) error {
			cancel(stopped)
			return nil
		})
		if !errors.Is(err, stopped) {
			t.Error(err)
		}
		_, isAlive = pool.IdleWorkers()[pid]
	}
	if !isAlive {
		t.Error("no worker was used again")
	}
	o, _ := do(t, pool, turn("var n = 7", nil))
	pid := pool.AheadWorker()
	cancelled, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if _, err := pool.Run(cancelled, turn("n", o.Heap), discard); !errors.Is(err, stopped) {
		t.Error(err)
	}
	if !pool.WouldContinue(turn("n", o.Heap)) || pool.AheadWorker() != pid {
		t.Error("a run that was cancelled before it started took the heap")
	}
	if o, _ := do(t, pool, turn("n", o.Heap)); o.Result == nil || *o.Result != "7" {
		t.Errorf("%+v", o)
	}
}

// BenchmarkTurn measures runs that start from the heap of the run before: with that heap restored
// ahead, and as the floor, in the same iteration, without. Between them there is the time that a
// server needs until the next turn arrives.
func BenchmarkTurn(b *testing.B) {
	const between = 12 * time.Millisecond
	pools := []*worker.Pool{worker.New(worker.Options{Idle: 1, MaxRuns: 1 << 30}), worker.New(worker.Options{Idle: 1, MaxRuns: 1 << 30, Ahead: -1})}
	heaps := make([][]byte, len(pools))
	var took [2][]float64
	for n := 0; b.Loop(); n++ {
		for i, p := range pools {
			task := turn(fmt.Sprintf("var n = %d; 1+1", n), heaps[i])
			begin := time.Now()
			o, err := p.Run(b.Context(), task, discard)
			if err != nil || o.Status != events.StatusCompleted {
				b.Fatalf("%+v %v", o, err)
			}
			took[i] = append(took[i], ms(time.Since(begin)))
			if heaps[i] = o.Heap; o.HeapStored != nil {
				o.HeapStored(events.Hash(o.Heap))
			}
			time.Sleep(between)
		}
	}
	for _, p := range pools {
		_ = p.Close()
	}
	ahead, demand := tenth(took[0]), tenth(took[1])
	b.ReportMetric(ahead, "ahead-ms")
	b.ReportMetric(demand, "demand-ms")
	b.ReportMetric(ahead/demand, "of-floor")
	b.ReportMetric(0, "ns/op") // the time of both together is not useful
}
