package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// pollution is a script that changes everything that it can reach and leaves pending work.
const pollution = `
Object.prototype.polluted = 'yes'
Array.prototype.map = Array.prototype.join = Promise.prototype.then = () => 'forged'
for (const name of Object.getOwnPropertyNames(globalThis)) { try { globalThis[name] = 'replaced' } catch {} }
globalThis.left = 'behind'
try { setInterval(() => console.log('left over'), 1) } catch {}
`

// No prototype, global or timer of a run exists in another run, even in the same process.
func TestHeapsDoNotMeet(t *testing.T) {
	t.Parallel()
	const look = "const s = [typeof polluted, {}.polluted, typeof left, typeof Map, [1, 2].map(x => x + 1).join('+'), typeof setTimeout]; await new Promise(r => setTimeout(r, 20)); s.map(String).join()"
	const clean = "undefined,undefined,undefined,function,2+3,function"
	for _, stateful := range []bool{true, false} {
		t.Run(fmt.Sprintf("stateful=%t", stateful), func(t *testing.T) {
			t.Parallel()
			pool := worker.New(worker.Options{Idle: 1, Stateless: !stateful})
			defer pool.Close()
			run := func(code string, heap []byte) (runner.Outcome, []events.Line) {
				t.Helper()
				task := patient(code)
				task.Stateful, task.Heap = stateful, heap
				var lines []events.Line
				o, err := pool.Run(t.Context(), task, collect(&lines))
				if err != nil {
					t.Fatal(err)
				}
				return o, lines
			}
			check := func(after string) {
				t.Helper()
				if o, lines := run(look, nil); o.Result == nil || *o.Result != clean || len(lines) != 0 {
					t.Errorf("after %s: %+v, %v", after, o, lines)
				}
			}
			check("nothing")
			before := workersOf(pool, "t")
			for _, end := range []string{"throw 1", "await new Promise(() => {})", "clearInterval = null; throw new Proxy({}, {})", "null.x"} {
				if o, _ := run("const Error = null;"+pollution+end, nil); o.Status != events.StatusFailed {
					t.Errorf("%s: %+v", end, o)
				}
				check(end)
			}
			if after := workersOf(pool, "t"); len(before) != 1 || len(after) != 1 || before[0] != after[0] {
				t.Errorf("it was not one process: %v, then %v", before, after)
			}
		})
	}
}

func workersOf(pool *worker.Pool, tenant string) (pids []int) {
	for pid, who := range pool.IdleWorkers() {
		if who == tenant {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestReuse(t *testing.T) {
	t.Parallel()
	type run struct{ tenant, session string }
	for _, test := range []struct {
		reuse worker.Reuse
		runs  []run
		same  string // for each run, the index of the earlier run whose process it used, or -
	}{
		{worker.ReuseTenant, []run{{"a", ""}, {"a", "s"}, {"b", "s"}, {"a", "r"}, {"b", ""}}, "-0-02"},
		{worker.ReuseSession, []run{{"a", "s"}, {"a", ""}, {"a", "s"}, {"b", "s"}, {"a", ""}, {"a", "r"}, {"a", "r"}}, "--0---5"},
		{worker.ReuseRun, []run{{"a", "s"}, {"a", "s"}, {"a", ""}}, "---"},
	} {
		t.Run(string(test.reuse), func(t *testing.T) {
			t.Parallel()
			pool := worker.New(worker.Options{Idle: 4, Reuse: test.reuse})
			defer pool.Close()
			first := map[int]int{}
			var got strings.Builder
			for i, r := range test.runs {
				task := patient("console.log(1); 1")
				task.Tenant, task.Session = r.tenant, r.session
				var pid int
				if _, err := pool.Run(t.Context(), task, pool.NotePID(&pid)); err != nil {
					t.Fatal(err)
				}
				if before, ok := first[pid]; ok {
					fmt.Fprint(&got, before)
				} else {
					first[pid] = i
					got.WriteByte('-')
				}
			}
			if got.String() != test.same {
				t.Errorf("reused %s, want %s", got.String(), test.same)
			}
		})
	}
	if _, err := worker.ParseReuse("never"); err == nil || !strings.Contains(err.Error(), "choose tenant, session or run") {
		t.Errorf("never: %v", err)
	}
}

// Idle workers that reach their maximum age are stopped without a request for one.
func TestIdleWorkersRetire(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, MaxAge: 500 * time.Millisecond})
	defer pool.Close()
	var pid int
	if _, err := pool.Run(t.Context(), patient("console.log(1)"), pool.NotePID(&pid)); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the worker has ended", func() bool { return !strings.Contains(fmt.Sprint(childProcesses(t)), fmt.Sprintf("%d (", pid)) })
}

func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("still not so: %s", what)
		}
	}
}

// The parent limits memory that no limit of V8 counts.
func TestMemoryWatch(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1, Stateless: true})
	defer pool.Close()
	task := patient("let a = []; for (;;) { const m = new WebAssembly.Memory({initial: 512}); new Uint8Array(m.buffer).fill(1); a.push(m) }")
	task.Stateful, task.HeapLimitBytes, task.ArrayBufferLimitBytes = false, 8<<20, 8<<20
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Reason != runner.ReasonOutOfMemory || !strings.HasPrefix(o.Error, "Out of memory: the worker process used ") || !strings.Contains(o.Error, "416 MiB are allowed") {
		t.Errorf("%+v, %v", o, err)
	}
}

// A worker that the filter kills ends only its own run. The outcome has the name of the call.
func TestViolationIsRecorded(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"violates":                  "sandbox violation: socket",
		"violates without a report": "sandbox violation: an unknown system call",
		"violates with an escape sequence in the report": "sandbox violation: an unknown system call",
	} {
		pool := hostilePool(t, how)
		o, err := pool.Run(t.Context(), patient("1+1"), discard)
		if err != nil || o.Status != events.StatusFailed || o.Reason != runner.ReasonSandboxViolation || o.Error != want {
			t.Errorf("%s: %+v, %v", how, o, err)
		}
	}
}

// A real worker that is killed by SIGSYS from another process ends only its own run.
func TestSIGSYSEndsARun(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	o, err := pool.Run(t.Context(), patient("console.log(1); for (;;);"), func(ctx context.Context, lines []events.Line) error {
		var pid int
		if err := pool.NotePID(&pid)(ctx, lines); err != nil {
			return err
		}
		return syscall.Kill(pid, syscall.SIGSYS)
	})
	if err != nil || o.Reason != runner.ReasonSandboxViolation || o.Error != "sandbox violation: an unknown system call" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := pool.Run(t.Context(), patient("1+1"), discard); err != nil || o.Result == nil || *o.Result != "2" {
		t.Errorf("afterwards: %+v, %v", o, err)
	}
}

// A worker that lacks a layer is refused with an error that says what to do. With BestEffort it is
// accepted, and one warning is logged.
func TestMissingLayer(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"without landlock":      "on this machine: landlock; landlock: Landlock is needed",
		"without a filter":      "(the worker reported: no filter here)",
		"with an unknown layer": "it reported the unknown layer",
	} {
		pool := hostilePool(t, how)
		if _, err := pool.Engine(t.Context(), true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", how, err)
		}
	}
	log := newLog()
	pool := worker.New(worker.Options{Idle: -1, BestEffort: true, Logger: log.logger()})
	pool.UseProgram("/proc/self/exe", "hostile-worker", "without landlock")
	defer pool.Close()
	for range 3 {
		if _, err := pool.Engine(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "on this machine: landlock"); n != 1 {
		t.Errorf("said %d times: %s", n, log)
	}
}

// The state of a worker in /proc agrees with the layers that it reports: every thread has the filter,
// and no namespace is shared.
func TestLayersFromOutside(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	layers, err := pool.Layers(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	task := patient("console.log(1); [1, 2, 3].sort(); 1")
	if _, err := pool.Run(t.Context(), task, pool.NotePID(&pid)); err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads %v, %v", threads, err)
	}
	for _, name := range threads {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended
		}
		for _, want := range []string{"\nSeccomp:\t2\n", "\nNoNewPrivs:\t1\n", "\nCapEff:\t0000000000000000\n", "\nCapPrm:\t0000000000000000\n"} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, b)
			}
		}
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && len(b) > 0 {
		t.Errorf("it has an environment: %q", b)
	}
	if os.Geteuid() != 0 {
		return // only root may read more of /proc
	}
	for _, kind := range []string{"user", "net", "pid", "mnt", "ipc", "uts"} {
		ours, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
		if err != nil {
			t.Fatal(err)
		}
		if own := ours != theirs; own != slices.Contains(layers, sandbox.Namespaces) {
			t.Errorf("%s namespace of its own: %t, layers %v", kind, own, layers)
		}
	}
}

// On systems where only the parent of a process may map its user, workers have the same layers.
func TestForkedWorker(t *testing.T) {
	t.Parallel()
	var layers [2][]string
	for i := range layers {
		pool := worker.New(worker.Options{Idle: 1})
		defer pool.Close()
		if i == 1 {
			pool.StartByFork()
		}
		var err error
		if layers[i], err = pool.NewLayers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(layers[0], layers[1]) {
		t.Errorf("layers %v, with a fork %v", layers[0], layers[1])
	}
}

// A process that is short of descriptors starts no worker. It does not start workers without
// namespaces instead. The test is not parallel, because it uses up the descriptors of the process.
func TestShortageKeepsNamespaces(t *testing.T) {
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	want, err := pool.NewLayers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(want, sandbox.Namespaces) {
		t.Skip("this system permits no namespaces")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var taken []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		taken = append(taken, f)
	}
	// A worker uses six descriptors of this process, and its start uses some more.
	var started [][]string
	for n := range min(12, len(taken)) {
		taken[n].Close()
		if layers, err := pool.NewLayers(t.Context()); err == nil {
			started = append(started, layers)
		}
	}
	for _, f := range taken {
		f.Close() // some are closed twice
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	layers, err := pool.NewLayers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range append(started, layers) {
		if !slices.Equal(got, want) {
			t.Errorf("a worker reached %v, want %v", got, want)
		}
	}
}

// Without descriptors for a worker, Run returns an error that says that nothing ran. The test is not
// parallel, because it uses up the descriptors of the process.
func TestShortageIsNamed(t *testing.T) {
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := limit
	few.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	_, err := pool.Run(t.Context(), runner.Task{Tenant: "acme", Code: []byte("1"), Timeout: time.Second}, nil)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if _, short := errors.AsType[*runner.NotStartedError](err); !short || !errors.Is(err, unix.EMFILE) {
		t.Errorf("a run without descriptors ends with %v", err)
	}
}

// The start of a worker does not affect the memory of this process. After a fork each page would be
// copied, or made writable again, at the next write to it. The test is not parallel, because it
// counts the page faults of the process.
func TestStartCopiesNoMemory(t *testing.T) {
	const pages = 8 << 10
	size := os.Getpagesize()
	memory, err := unix.Mmap(-1, 0, pages*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE) // a huge page would fault once only
	touch := func() (faults int64) {
		var before, after unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
		for i := range pages {
			memory[i*size]++
		}
		_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
		return after.Minflt - before.Minflt
	}
	touch()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	if _, err := pool.Engine(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if faults := touch(); faults > pages/2 {
		pool.Close()
		if pool.Forks() {
			t.Skip("this system permits only the parent of a process to map its user")
		}
		t.Errorf("after the start of a worker, %d of %d pages fault", faults, pages)
	}
}

// A tenant with many idle workers does not take the only one of another tenant.
func TestIdleWorkersAreShared(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, IdleUsed: 2})
	defer pool.Close()
	run := func(tenant string) {
		t.Helper()
		task := patient("1")
		task.Tenant = tenant
		if _, err := pool.Run(t.Context(), task, discard); err != nil {
			t.Error(err)
		}
	}
	run("quiet")
	for range 2 {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { run("loud") })
		}
		both.Wait()
	}
	var tenants []string
	for _, tenant := range pool.IdleWorkers() {
		if tenant != "" {
			tenants = append(tenants, tenant)
		}
	}
	if !slices.Contains(tenants, "quiet") || len(tenants) > 2 {
		t.Errorf("idle workers of %q, want one of quiet", tenants)
	}
}
