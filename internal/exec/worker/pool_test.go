package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/v8"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// collect returns a callback that appends lines.
func collect(to *[]events.Line) func(context.Context, []events.Line) error {
	return func(_ context.Context, lines []events.Line) error {
		*to = append(*to, lines...)
		return nil
	}
}

func patient(code string) runner.Task {
	task := hostileTask(code)
	task.Timeout = 5 * time.Minute // more than a script takes on a slow machine
	return task
}

func TestRunKeepsState(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	var heap []byte
	for i := 1; i <= 3; i++ {
		task := patient("var n: number = (globalThis.n ?? 0) + 1; console.warn(`run ${n}`); n")
		task.Heap = heap
		var lines []events.Line
		o, err := pool.Run(t.Context(), task, collect(&lines))
		if err != nil || o.Result == nil || *o.Result != strconv.Itoa(i) {
			t.Fatalf("run %d: %+v, %v", i, o, err)
		}
		want := []events.Line{{Level: events.LevelWarn, TimeMillis: task.Start.UnixMilli(), Text: fmt.Sprintf("[WARN] run %d", i)}}
		if !slices.Equal(lines, want) {
			t.Errorf("run %d wrote %+v, want %+v", i, lines, want)
		}
		if len(o.TranspiledSHA256) != 64 || o.CPUTime <= 0 || o.PeakHeapBytes <= 0 || o.WallTime <= 0 {
			t.Errorf("run %d measured %+v", i, o)
		}
		heap = o.Heap
	}
}

func TestStatelessRun(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	task := patient("console.log(typeof WebAssembly); 6 * 7")
	task.Stateful = false
	var lines []events.Line
	for range 2 { // the second time in the same worker, after a stateful run
		o, err := pool.Run(t.Context(), task, collect(&lines))
		if err != nil || o.Result == nil || *o.Result != "42" || o.Heap != nil {
			t.Fatalf("%+v, %v", o, err)
		}
		if o, err := pool.Run(t.Context(), patient("1"), discard); err != nil || o.Heap == nil {
			t.Fatalf("%+v, %v", o, err)
		}
	}
	if len(lines) != 2 || lines[0].Text != "object" {
		t.Errorf("lines %+v", lines)
	}
}

// Equal inputs make equal heaps in all workers.
func TestWorkersAgree(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1}) // every run in a process of its own
	defer pool.Close()
	var first runner.Outcome
	for i := range 3 {
		o, err := pool.Run(t.Context(), patient("let s = new Set; for (let i = 0; i < 1e4; i++) s.add({i, r: Math.random()}); s.size"), discard)
		if err != nil || o.Status != events.StatusCompleted {
			t.Fatalf("%+v, %v", o, err)
		}
		if i == 0 {
			first = o
		} else if string(o.Heap) != string(first.Heap) || o.TranspiledSHA256 != first.TranspiledSHA256 {
			t.Error("another worker made another heap")
		}
	}
}

func TestBadTasks(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	for want, change := range map[string]func(*runner.Task){
		"tenant is empty":         func(t *runner.Task) { t.Tenant = "" },
		"NUL byte":                func(t *runner.Task) { t.Code = []byte("1\x00") },
		"not valid UTF-8":         func(t *runner.Task) { t.Code = []byte("'\xff'") },
		"at most 16777216":        func(t *runner.Task) { t.Code = make([]byte, worker.MaxCode+1) },
		"file name":               func(t *runner.Task) { t.FileName = "a\nb" },
		"1024 bytes":              func(t *runner.Task) { t.FileName = strings.Repeat("x", worker.MaxFileName+1) },
		"UTF-8 without control":   func(t *runner.Task) { t.FileName = "\xff" },
		"stateless":               func(t *runner.Task) { t.Stateful, t.Heap = false, []byte("x") },
		"the ceiling is":          func(t *runner.Task) { t.HeapLimitBytes = 1 << 40 },
		"timeout is missing":      func(t *runner.Task) { t.Timeout = 0 },
		"not the JSON of an obj":  func(t *runner.Task) { t.Globals = []byte("[1]") },
		"the JSON of an object":   func(t *runner.Task) { t.Globals = []byte("null") },
		"are not the JSON":        func(t *runner.Task) { t.Globals = []byte("{\"a\":\"\xff\"}") },
		"globals have 16777217":   func(t *runner.Task) { t.Globals = make([]byte, worker.MaxGlobals+1) },
		"outside the years":       func(t *runner.Task) { t.Start = time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"array buffer limit is n": func(t *runner.Task) { t.ArrayBufferLimitBytes = -1 },
	} {
		task := patient("1")
		change(&task)
		if _, err := pool.Run(t.Context(), task, discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// The first line arrives while the script still runs.
func TestLinesArriveAtOnce(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	seen := errors.New("seen")
	_, err := pool.Run(ctx, patient("console.log('first'); for (;;);"), func(_ context.Context, lines []events.Line) error {
		if lines[0].Text == "first" {
			cancel(seen)
		}
		return nil
	})
	if !errors.Is(err, seen) {
		t.Errorf("ended with %v", err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	why := errors.New("the user asked")
	for _, code := range []string{
		"console.log('on'); for (;;);",
		"console.log('on'); await new Promise(r => setTimeout(r, 1e6))",
		"console.log('on'); let b = 3n ** 100000n; for (;;) b = b * b", // notices nothing for a long time
		"for (;;) console.log('on')",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var once sync.Once
		var asked time.Time
		o, err := pool.Run(ctx, patient(code), func(context.Context, []events.Line) error {
			once.Do(func() { asked = time.Now(); cancel(why) })
			return nil
		})
		if !errors.Is(err, why) || o.Status != "" {
			t.Errorf("%s: %+v, %v", code, o, err)
		}
		if took := time.Since(asked); took > 10*time.Second {
			t.Errorf("%s: took %s to stop", code, took)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := pool.Run(ctx, patient("1"), discard); !errors.Is(err, why) {
		t.Errorf("cancelled before it began: %v", err)
	}
}

// Lines that a worker wrote before it was stopped are not lost.
func TestLinesBeforeACancelArrive(t *testing.T) {
	t.Parallel()
	pool := hostilePool(t, "writes after a request to stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user asked")
	var texts []string
	_, err := pool.Run(ctx, patient("1"), func(_ context.Context, lines []events.Line) error {
		for _, l := range lines {
			texts = append(texts, l.Text)
		}
		cancel(why)
		return nil
	})
	if !errors.Is(err, why) || !slices.Equal(texts, []string{"x", "last"}) {
		t.Errorf("got %q, %v", texts, err)
	}
}

func TestOutputErrorEndsTheRun(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	full := errors.New("disk full")
	_, err := pool.Run(t.Context(), patient("for (;;) console.log(1)"), func(context.Context, []events.Line) error { return full })
	if !errors.Is(err, full) {
		t.Errorf("ended with %v", err)
	}
}

// A callback that blocks does not extend a run beyond its time limit.
func TestTimeoutReachesTheCallback(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	o, err := pool.Run(t.Context(), hostileTask("console.log(1); for (;;);"), func(ctx context.Context, _ []events.Line) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err != nil || o.Status != events.StatusTimedOut || o.Heap != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestEngineAndLayers(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, stateful := range []bool{true, false} {
		e := v8.CurrentEngine()
		if !stateful {
			e.JIT, e.SnapshotFormat = true, 0
		}
		want := events.Engine{ID: e.ID(), V8Version: e.V8Version, Flags: e.Flags, JIT: e.JIT, PreludeSHA256: e.PreludeSHA256, SnapshotFormat: e.SnapshotFormat, Locale: "en-US", TimeZone: "UTC"}
		engine, err := pool.Engine(t.Context(), stateful)
		want.Build = engine.Build // TestBuildOf and TestReplayByAnotherBuild check it
		if err != nil || engine != want {
			t.Errorf("stateful %t: engine %+v, %v, want %+v", stateful, engine, err, want)
		}
		layers, err := pool.Layers(t.Context(), stateful)
		layers = slices.DeleteFunc(layers, func(l string) bool { return l == sandbox.Namespaces }) // some systems do not permit them
		if err != nil || !slices.Equal(layers, sandbox.Required(stateful)) {
			t.Errorf("stateful %t: layers %v, %v", stateful, layers, err)
		}
	}
}

// A worker serves one tenant until it fails or reaches its maximum age or number of runs.
func TestWorkersAreNotShared(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 2, MaxRuns: 2})
	defer pool.Close()
	run := func(tenant, code string) {
		t.Helper()
		task := patient(code)
		task.Tenant = tenant
		if strings.Contains(code, "for") {
			task.Timeout = 100 * time.Millisecond
		}
		if _, err := pool.Run(t.Context(), task, discard); err != nil {
			t.Fatal(err)
		}
	}
	of := func(tenant string) (pids []int) {
		for pid, who := range pool.IdleWorkers() {
			if who == tenant {
				pids = append(pids, pid)
			}
		}
		return pids
	}
	run("a", "1")
	first := of("a")
	if len(first) != 1 {
		t.Fatalf("idle workers of a: %v", first)
	}
	run("b", "1")
	if b := of("b"); len(b) != 1 || b[0] == first[0] {
		t.Fatalf("workers of a %v, of b %v", first, b)
	}
	run("a", "2")
	if again := of("a"); len(again) != 0 {
		t.Errorf("kept after its last run: %v", again)
	}
	run("b", "for (;;);")
	if b := of("b"); len(b) != 0 {
		t.Errorf("kept after a timeout: %v", b)
	}
	for _, tenant := range []string{"c", "d", "e"} {
		run(tenant, "1")
	}
	if used := len(of("c")) + len(of("d")) + len(of("e")); used > 2 {
		t.Errorf("%d used workers are idle, want at most 2", used)
	}
}

func TestMaxAge(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, MaxAge: time.Nanosecond})
	defer pool.Close()
	for range 3 {
		if o, err := pool.Run(t.Context(), patient("1"), discard); err != nil || o.Status != events.StatusCompleted {
			t.Fatalf("%+v, %v", o, err)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 2})
	defer pool.Close()
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			task := patient(fmt.Sprintf("console.log(%d); await new Promise(r => setTimeout(r, 20)); %d", i, i))
			task.Tenant = fmt.Sprint("tenant", i%3)
			var lines []events.Line
			o, err := pool.Run(t.Context(), task, collect(&lines))
			if want := strconv.Itoa(i); err != nil || o.Result == nil || *o.Result != want || len(lines) != 1 || lines[0].Text != want {
				t.Errorf("run %d: %+v, %v, %v", i, o, lines, err)
			}
		})
	}
	wg.Wait()
}

func TestCloseEndsRuns(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	running := make(chan struct{})
	var once sync.Once
	done := make(chan error)
	go func() {
		_, err := pool.Run(t.Context(), patient("console.log(1); for (;;);"), func(context.Context, []events.Line) error {
			once.Do(func() { close(running) })
			return nil
		})
		done <- err
	}()
	<-running
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, worker.ErrClosed) {
		t.Errorf("the run ended with %v", err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if _, err := pool.Run(t.Context(), patient("1"), discard); !errors.Is(err, worker.ErrClosed) {
		t.Errorf("run after close: %v", err)
	}
	if _, err := pool.Engine(t.Context(), true); !errors.Is(err, worker.ErrClosed) {
		t.Errorf("engine after close: %v", err)
	}
}

// A closed pool leaves no process, no zombie and no descriptor. The test is not parallel, because it
// counts those of the whole process.
func TestNothingLeaks(t *testing.T) {
	cycle := func() {
		pool := worker.New(worker.Options{Idle: 2})
		for _, code := range []string{"1", "throw 1", "for (;;);", "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))"} {
			task := patient(code)
			if strings.HasPrefix(code, "for") {
				task.Timeout = 50 * time.Millisecond
			}
			if _, err := pool.Run(t.Context(), task, discard); err != nil {
				t.Fatal(err)
			}
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	files := openFiles(t)
	for range 3 {
		cycle()
	}
	if after := openFiles(t); len(after) > len(files) {
		t.Errorf("descriptors before %q, after %q", files, after)
	}
	if children := childProcesses(t); len(children) > 0 {
		t.Errorf("processes are left: %v", children)
	}
}

func openFiles(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasSuffix(to, "/fd") {
			files = append(files, e.Name()+"="+to)
		}
	}
	return files
}

func childProcesses(t *testing.T) []string {
	t.Helper()
	var children []string
	for _, p := range processes(t) {
		if p.parent == os.Getpid() {
			children = append(children, p.stat)
		}
	}
	return children
}

type processStat struct {
	pid, parent int
	stat        string
}

func processes(t *testing.T) []processStat {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var all []processStat
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		// The command may contain any characters. After its last parenthesis come the
		// state and the parent.
		s := string(b)
		fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
		if len(fields) < 2 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		parent, _ := strconv.Atoi(fields[1])
		all = append(all, processStat{pid, parent, s})
	}
	return all
}
