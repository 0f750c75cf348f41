package worker_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/worker"
)

var jitRounds = flag.Int("jit-rounds", 0, "how often TestJIT runs its programs; 0 selects the number of the tier")

// programs returns the programs of testdata/programs by name. Each one is a script that declares
// what it keeps, and a script that is run on the heap again and again.
func programs(t *testing.T) map[string][2]string {
	t.Helper()
	files, err := filepath.Glob("testdata/programs/*.js")
	if err != nil || len(files) < 14 {
		t.Fatalf("programs %v, %v", files, err)
	}
	all := map[string][2]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, next, ok := strings.Cut(string(text), "// ---\n")
		if !ok {
			t.Fatalf("%s has no second script", file)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".js")] = [2]string{first, next}
	}
	return all
}

// chain is a series of runs, each from the heap of the run before.
type chain struct {
	tenant string // decides the worker
	pool   *worker.Pool
	jit    func(run int) bool
	heap   []byte
	ended  string // how the last run ended
}

func (c *chain) run(ctx context.Context, run int, code string) error {
	task := patient(code)
	task.Tenant, task.Heap, task.JIT, task.SkipWaits = c.tenant, c.heap, c.jit(run), true
	task.Seed, task.Start = [16]byte{byte(run)}, time.Unix(1e9+int64(run), 0)
	task.Timeout = 5 * time.Minute
	var lines []events.Line
	o, err := c.pool.Run(ctx, task, collect(&lines))
	if err == nil && (o.Status != events.StatusCompleted || o.Result == nil) {
		err = fmt.Errorf("%s %s", o.Status, o.Error)
	}
	if err != nil {
		return fmt.Errorf("run %d of the chain %q: %w", run, c.tenant, err)
	}
	c.heap, c.ended = o.Heap, fmt.Sprintf("%s %v", *o.Result, lines)
	return nil
}

// runAll runs the same script in several chains at a time.
func runAll(t *testing.T, chains []*chain, run int, code string) {
	t.Helper()
	errs := make([]error, len(chains))
	var running sync.WaitGroup
	for i, c := range chains {
		running.Go(func() { errs[i] = c.run(t.Context(), run, code) })
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func always(jit bool) func(int) bool { return func(int) bool { return jit } }

// Programs return the same with and without the compiler, and from heaps that were made with and
// without it in turn. The same run with the compiler leaves the same heap in another process. The
// heap of a run without it does not depend on whether its worker may use it.
func TestJIT(t *testing.T) {
	t.Parallel()
	off, on := worker.New(worker.Options{Idle: 1}), worker.New(worker.Options{Idle: 1, IdleUsed: 4, JIT: true})
	defer off.Close()
	defer on.Close()
	rounds := tier.Choose(1, 4)
	if *jitRounds > 0 {
		rounds = *jitRounds
	}
	all, names := programs(t), []string(nil)
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	runs, chains, equal := 0, 0, map[string]int{}
	for round := range rounds {
		for _, name := range names {
			same := []*chain{
				{tenant: "without", pool: off, jit: always(false)},
				{tenant: "with", pool: on, jit: always(true)},
				{tenant: "again", pool: on, jit: always(true)},
				{tenant: "in turn", pool: on, jit: func(run int) bool { return run%2 == 1 }},
				{tenant: "permitted", pool: on, jit: always(false)},
			}
			without, with, again, permitted := same[0], same[1], same[2], same[4]
			for run := range 4 {
				code := all[name][min(run, 1)]
				if run == 0 && round > 0 {
					code += fmt.Sprintf("\nstep = %d", round*17)
				}
				if run == 0 {
					code += "\nstep;"
				}
				runAll(t, same, run, code)
				for _, c := range same {
					if c.ended != without.ended {
						t.Errorf("%s %d, run %d, %s: %.300q, want %.300q", name, round, run, c.tenant, c.ended, without.ended)
					}
				}
				if !bytes.Equal(with.heap, again.heap) {
					t.Errorf("%s %d, run %d: the heap with the compiler is not the same again", name, round, run)
				}
				if !bytes.Equal(without.heap, permitted.heap) {
					t.Errorf("%s %d, run %d: the heap without the compiler is not the same where it is permitted", name, round, run)
				}
				if bytes.Equal(without.heap, with.heap) {
					equal[name]++
				}
				runs += len(same)
			}
			chains += len(same)
		}
		if *jitRounds > 0 {
			t.Logf("round %d: %d runs in %d chains", round, runs, chains)
		}
	}
	t.Logf("%d runs in %d chains; of %d heaps each, equal with and without the compiler: %v", runs, chains, 4*rounds, equal)
}

// Optimized code needs no memory that the worker makes executable, however much code there is.
func TestJITIsConfined(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, JIT: true})
	defer pool.Close()
	layers, err := pool.Layers(t.Context(), true)
	layers = slices.DeleteFunc(layers, func(l string) bool { return l == sandbox.Namespaces })
	if err != nil || !slices.Equal(layers, sandbox.Required(true)) {
		t.Fatalf("layers %v, %v", layers, err)
	}
	c := chain{tenant: "t", pool: pool, jit: always(true)}
	for run := range 3 {
		runAll(t, []*chain{&c}, run, `var n = 0; for (let k = 0; k < 400; k++) {
			const f = new Function("x", "let s = 0; for (let i = 0; i < 20000; i++) s = (s + i * x + " + k + ") % 1e9; return s" + " + 0".repeat(k));
			n = (n + f(k / 2)) % 1e9;
		} n`)
	}
	if c.ended == "" {
		t.Error("no result")
	}
}

// A run with the compiler that is stopped or fails is reported as any other, and its worker serves
// the next run.
func TestJITEnds(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, JIT: true})
	defer pool.Close()
	for _, test := range []struct {
		code string
		want events.Status
	}{
		{"for (let i = 0, f = x => x + 1; ; i = f(i));", events.StatusTimedOut},
		{"const f = x => { if (x > 50000) throw new Error('end'); return x + 1; }; for (let i = 0; ; i = f(i));", events.StatusFailed},
		{"const all = []; for (let i = 0; ; i++) all.push({ i, j: i / 2 });", events.StatusFailed},
		{"const r = new FinalizationRegistry(() => { for (let i = 0, f = x => x + 1; ; i = f(i)); }); r.register({}, 1);", events.StatusTimedOut},
		{"let (", events.StatusFailed},
		{"(function f() { f(); })()", events.StatusFailed},
	} {
		task := patient(test.code)
		task.JIT = true
		if task.HeapLimitBytes = 32 << 20; test.want == events.StatusTimedOut {
			task.Timeout = 2 * time.Second
		}
		o, err := pool.Run(t.Context(), task, collect(new([]events.Line)))
		if err != nil || o.Status != test.want {
			t.Errorf("%s: %s %s, %v", test.code, o.Status, o.Error, err)
		}
		c := chain{tenant: task.Tenant, pool: pool, jit: always(true)}
		runAll(t, []*chain{&c}, 0, "let n = 0; for (let i = 0; i < 50000; i++) n += i; n")
		if c.ended != "1249975000 []" {
			t.Errorf("after %s: %s", test.code, c.ended)
		}
	}
}

// V8 compiles a function that became hot when it is next called. That may be in a callback that runs
// after the end of the script, directly before the heap is saved.
func TestJITFinalizers(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, JIT: true})
	defer pool.Close()
	with, again, without := chain{tenant: "with", pool: pool, jit: always(true)}, chain{tenant: "again", pool: pool, jit: always(true)}, chain{tenant: "without", pool: pool, jit: always(false)}
	all := []*chain{&with, &again, &without}
	for run, code := range []string{`
		const hot = () => n => { let s = 0; for (let i = 0; i < n; i++) s = (s + i * 0.5) % 1000; return s; };
		function* counting(n) { while (true) { let s = 0; for (let i = 0; i < n; i++) s = (s + i * 0.5) % 1000; n = yield s; } }
		const first = hot(), second = hot(), counter = counting(2000000), seen = [];
		const registry = new FinalizationRegistry(k => {
			seen.push(k, first(10), second(11), counter.next(4).value);
			if (k < 3) registry.register({}, k + 1);
		});
		for (let k = 0; k < 2; k++) registry.register({}, k);
		counter.next();
		first(2000000) + second(2000000) + counter.next(2000000).value`,
		"registry.register({}, 2); for (let k = 0; k < 3; k++) counter.next(1000000), first(1000000); seen.join()",
		"seen.join()",
	} {
		runAll(t, all, run, code)
		for _, c := range all {
			if c.ended != without.ended {
				t.Errorf("run %d, %s: %q, want %q", run, c.tenant, c.ended, without.ended)
			}
		}
		if !bytes.Equal(with.heap, again.heap) {
			t.Errorf("run %d: the heap is not the same again", run)
		}
	}
	if !strings.Contains(with.ended, "3,22.5,27.5,3") {
		t.Errorf("the callbacks left %s", with.ended)
	}
}

// A run with the compiler whose heap was restored ahead leaves the same heap as one whose heap was
// restored on demand, as a replay does.
func TestJITAhead(t *testing.T) {
	t.Parallel()
	ahead, demand := worker.New(worker.Options{Idle: 1, JIT: true}), worker.New(worker.Options{Idle: 1, Ahead: -1, JIT: true})
	defer ahead.Close()
	defer demand.Close()
	all, restored := programs(t), 0
	for _, name := range []string{"classes", "deopts", "numbers", "objects"} {
		var heap []byte
		for run := range 4 {
			task := turn(all[name][min(run, 1)], heap)
			task.JIT = run != 2 // the worker does not know it when it restores the heap
			if ahead.WouldContinue(task) {
				restored++
				awaitRestored(t, ahead)
			}
			got, gotLines := do(t, ahead, task)
			want, wantLines := do(t, demand, task)
			if got.Status != events.StatusCompleted || !bytes.Equal(got.Heap, want.Heap) || !slices.Equal(gotLines, wantLines) {
				t.Errorf("%s, run %d: %s %s, a heap of %d bytes and %v, want %d bytes and %v", name, run, got.Status, got.Error, len(got.Heap), gotLines, len(want.Heap), wantLines)
			}
			heap = got.Heap
		}
	}
	if restored == 0 {
		t.Error("no heap was restored ahead")
	}
}

// A heap with a name that V8 keeps in a space of its own is restored with and without the compiler.
func TestJITLongNames(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1, JIT: true})
	defer pool.Close()
	made := chain{tenant: "t", pool: pool, jit: always(true)}
	runAll(t, []*chain{&made}, 0, `const o = {}; o["`+strings.Repeat("x", 200000)+`"] = 1; o["y".repeat(3000000)] = 2`)
	for _, jit := range []bool{true, false} {
		c := chain{tenant: "t", pool: pool, jit: always(jit), heap: made.heap}
		for run := range 3 {
			runAll(t, []*chain{&c}, run+1, "Object.keys(o).map(k => k.length + ' ' + o[k]).join()")
			if c.ended != "200000 1,3000000 2 []" {
				t.Errorf("JIT %t: %s", jit, c.ended)
			}
		}
	}
}

// Without Options.JIT no run has the compiler. A worker in which V8 does not pass the check does
// not start. The base heap and its engine do not depend on the option.
func TestJITIsRefused(t *testing.T) {
	t.Parallel()
	off, on := worker.New(worker.Options{Idle: 1}), worker.New(worker.Options{Idle: 1, JIT: true})
	defer off.Close()
	defer on.Close()
	task := patient("1")
	task.JIT = true
	if _, err := off.Run(t.Context(), task, nil); err == nil || !strings.Contains(err.Error(), "start the server with --jit=on") {
		t.Errorf("a run with the compiler: %v", err)
	}
	task.Stateful = false
	if _, err := on.Run(t.Context(), task, nil); err == nil {
		t.Error("a stateless task asked for the compiler")
	}
	broken := worker.New(worker.Options{Idle: 1, JIT: true, Prelude: `Object.defineProperty(globalThis, "sum", { value: 1 });`})
	defer broken.Close()
	if _, err := broken.Engine(t.Context(), true); err == nil || !strings.Contains(err.Error(), "so start with --jit=off") {
		t.Errorf("an engine that fails the check: %v", err)
	}
	if _, err := broken.Engine(t.Context(), false); err == nil {
		t.Error("the pool reports a broken engine")
	}

	var heaps [2][]byte
	var engines [2]events.Engine
	for i, pool := range []*worker.Pool{off, on} {
		var err error
		if heaps[i], err = pool.BaseHeap(t.Context()); err != nil {
			t.Fatal(err)
		}
		if engines[i], err = pool.Engine(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(heaps[0], heaps[1]) || engines[0].ID != engines[1].ID {
		t.Errorf("base heaps of %d and %d bytes, engines %s and %s", len(heaps[0]), len(heaps[1]), engines[0].ID, engines[1].ID)
	}
	if engines[0].JIT || !engines[1].JIT || engines[0].Flags == engines[1].Flags {
		t.Errorf("engines %+v and %+v", engines[0], engines[1])
	}
}
