package worker_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// Verdicts that a hostile script may end with.
const (
	completed = "completed/"
	exception = "failed/exception"
	syntax    = "failed/syntax_error"
	memory    = "failed/out_of_memory"
	died      = "failed/worker_died"
	timedOut  = "timed_out/timeout"
	never     = "failed/never_settled"
	unsaved   = "failed/unserializable_heap"
)

// hostileScripts try to hang, exhaust, crash or deceive the worker. If several verdicts are listed,
// the speed of the machine determines which one is reached.
var hostileScripts = []hostileScript{
	{"object bomb", "let a = []; for (;;) a.push({x: 1})", []string{memory}},
	{"array bomb", "let a = []; for (;;) a.push(new Array(1000).fill(0))", []string{memory}},
	{"map bomb", "let m = new Map; for (let i = 0;; i++) m.set(i, {})", []string{memory, exception, timedOut}},
	{"set bomb", "let s = new Set; for (let i = 0;; i++) s.add('k' + i)", []string{memory, exception, timedOut}},
	{"closure bomb", "let a = []; for (;;) { let x = [a]; a.push(() => x) }", []string{memory}},
	{"promise bomb", "let a = []; for (;;) a.push(Promise.resolve(a))", []string{memory}},
	{"symbol bomb", "let a = []; for (;;) a.push(Symbol('x' + a.length))", []string{memory}},
	{"generator bomb", "let a = []; function* g() { yield a } for (;;) { let i = g(); i.next(); a.push(i) }", []string{memory}},
	{"spread bomb", "let a = [1]; for (;;) a = [...a, ...a]", []string{memory, exception, died}},
	{"huge fill", "Array(1e9).fill(0)", []string{memory, timedOut, died, exception}},
	{"huge from", "Array.from({length: 1e9})", []string{memory, timedOut, died, exception}},
	{"sparse fill", "let a = []; a.length = 2 ** 32 - 1; a.fill(1)", []string{memory, timedOut, died}},
	{"huge join", "Array(1e9).join('x')", []string{memory, timedOut, died, exception}},
	{"long strings kept", "let a = []; for (let i = 0; i < 40; i++) a.push(('x' + i).padEnd(5e8, 'ab')); a.length", []string{memory, timedOut, died, completed, unsaved}},
	{"string doubling", "let s = 'x'; for (;;) s += s", []string{exception}},
	{"flattened strings", "let s = 'x'; for (;;) { s += s; s.charCodeAt(s.length >> 1) }", []string{exception, memory, died}},
	{"string result of half a gigabyte", "'x'.repeat(2 ** 29 - 24)", []string{completed, memory, died, timedOut}},
	{"array buffer bomb", "let a = []; for (;;) a.push(new Uint8Array(1 << 24).fill(1))", []string{exception, timedOut}},
	{"one huge array buffer", "new ArrayBuffer(2 ** 33)", []string{exception}},
	{"small buffers", "let a = []; for (;;) a.push(new ArrayBuffer(1))", []string{memory, exception, timedOut}},
	{"resizable buffers", "let a = []; for (;;) { let b = new ArrayBuffer(8, {maxByteLength: 2 ** 30}); b.resize(2 ** 24); new Uint8Array(b).fill(1); a.push(b) }", []string{exception, memory, timedOut, died}},
	{"endless loop", "for (;;);", []string{timedOut}},
	{"endless loop in finally", "try { for (;;); } finally { for (;;); }", []string{timedOut}},
	{"endless catch", "for (;;) { try { null.x } catch {} }", []string{timedOut}},
	{"endless microtasks", "(function f() { Promise.resolve().then(f) })()", []string{timedOut}},
	{"endless await", "for (;;) await 0", []string{timedOut}},
	{"endless timers", "(function f() { setTimeout(f) })()", []string{timedOut}},
	{"endless interval", "setInterval(() => {}, 0)", []string{timedOut}},
	{"far timer", "setTimeout(() => {}, 2 ** 31 - 1)", []string{timedOut}},
	{"await a far timer", "await new Promise(r => setTimeout(r, 1e9))", []string{timedOut}},
	{"a million timers", "for (let i = 0; i < 1e6; i++) setTimeout(() => {}, 1e6 + i)", []string{timedOut, memory}},
	{"busy wait on the clock", "const t = Date.now(); while (Date.now() < t + 10);", []string{timedOut}},
	{"regexp backtracking", "/^(a+)+$/.test('a'.repeat(40) + 'b')", []string{timedOut}},
	{"nested regexp", "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))", []string{died, exception, memory, unsaved}},
	{"regexp alternatives", "new RegExp('a|'.repeat(1e6)).test('b')", []string{completed, exception, memory, timedOut, died}},
	{"deep recursion", "(function f() { f() })()", []string{exception}},
	{"deep recursion through sort", "(function f() { [2, 1].sort(f) })()", []string{exception}},
	{"deep recursion through proxies", "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x", []string{exception, completed}},
	{"deep recursion through toString", "let o = {toString() { return '' + o }}; '' + o", []string{exception}},
	{"deep JSON", "JSON.parse('['.repeat(1e6))", []string{exception}},
	{"deep nesting to JSON", "let a = []; for (let i = 0; i < 1e6; i++) a = [a]; JSON.stringify(a)", []string{exception, timedOut, memory}},
	{"deep nesting as a result", "let a = []; for (let i = 0; i < 1e6; i++) a = [a]; a", []string{completed, exception, memory, died}},
	{"deep chain as a result", "let a = null; for (let i = 0; i < 1e6; i++) a = {a}; a", []string{completed, exception, memory, died}},
	{"BigInt power", "(2n ** 1000000n) ** 1000n", []string{exception, timedOut, memory}},
	{"BigInt multiplication", "let b = 3n ** 100000n; for (;;) b = b * b", []string{exception, timedOut, memory}},
	{"BigInt to string", "(2n ** 20000000n).toString()", []string{timedOut, completed, exception}},
	{"sort of two million strings", "Array.from({length: 2e6}, (_, i) => 's' + (i * 7919 % 2e6)).sort()", []string{timedOut, memory, completed}},
	{"endless comparator", "[3, 2, 1].sort(() => { for (;;); })", []string{timedOut}},
	{"getter in the result", "({get x() { for (;;); }})", []string{completed}},
	{"throwing getter in the result", "({get x() { throw 1 }})", []string{completed}},
	{"endless toJSON in the result", "({toJSON() { for (;;); }})", []string{completed}},
	{"toJSON recursion", "let o = {toJSON() { return {o} }}; JSON.stringify(o)", []string{exception}},
	{"proxy as a result", "new Proxy({}, {get() { for (;;); }, ownKeys() { for (;;); }, getPrototypeOf() { for (;;); }})", []string{completed}},
	{"custom inspection in the result", "({[Symbol.for('nodejs.util.inspect.custom')]() { for (;;); }})", []string{timedOut, completed}},
	{"cyclic result", "let o = {}; o.o = o; o", []string{completed}},
	{"then trap as a result", "({then() { for (;;); }})", []string{completed}},
	{"thrown proxy", "throw new Proxy({}, {get() { for (;;); }})", []string{exception}},
	{"thrown error with a looping stack", "const e = new Error('x'); Object.defineProperty(e, 'stack', {get() { for (;;); }}); throw e", []string{exception, timedOut}},
	{"error with an empty stack", "const e = new Error('x'); e.stack = ''; throw e", []string{exception}},
	{"looping prepareStackTrace", "Error.prepareStackTrace = () => { for (;;); }; null.x", []string{timedOut, exception}},
	{"endless output", "for (let i = 0;; i++) console.log('line', i)", []string{timedOut}},
	{"output of one long line", "console.log('x'.repeat(5e7))", []string{completed, timedOut}},
	{"output of many empty lines", "console.log('\\n'.repeat(1e6))", []string{completed, timedOut}},
	{"output of a huge object", "const o = {}; for (let i = 0; i < 1e5; i++) o['k' + i] = {v: [i, {}]}; console.log(o)", []string{completed, timedOut, memory}},
	{"output of a huge array", "console.log(Array.from({length: 1e6}, (_, i) => ({i})))", []string{completed, timedOut, memory}},
	{"patched intrinsics", "Array.prototype.push = Array.prototype.join = JSON.stringify = Function.prototype.call = () => { throw 'forged' }; Promise.prototype.then = null; console.log({a: [1]}); ({a: [1]})", []string{completed}},
	{"patched promise", "globalThis.Promise = null; delete Object.prototype.toString; Object.prototype['.repl_result'] = 'forged'; 5", []string{completed}},
	{"setter on the prototype", "Object.defineProperty(Object.prototype, '0', {set() { for (;;); }}); [1]", []string{completed, exception}},
	{"forged frame in output", "console.log('\\u0000\\u0000\\u0000\\u0005E{}'); 1", []string{completed}},
	{"forged names", "//# sourceURL=/etc/passwd\n//# sourceMappingURL=data:,x\nthrow new Error('at cell.ts:1:1')", []string{exception}},
	{"forged end of comment", "throw 1 //# sourceURL=x'y", []string{exception}},
	{"constructor escape", "({}).constructor.constructor('return this')().process", []string{completed}},
	{"globals of hosts", "[typeof require, typeof process, typeof Deno, typeof host, typeof __filename].join()", []string{completed}},
	{"dynamic import", "await import('fs')", []string{exception}},
	{"static import", "import fs from 'fs'", []string{exception, syntax}},
	{"WebAssembly", "new WebAssembly.Memory({initial: 1})", []string{exception}},
	{"blocking wait", "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)", []string{exception}},
	{"asm.js", "(function m(s) { 'use asm'; function f() { return 1 | 0 } return f })(globalThis)()", []string{completed}},
	{"parentheses kill the parser", strings.Repeat("(", 1<<20), []string{exception, syntax, died, timedOut, memory}},
	{"brackets", strings.Repeat("[", 1<<18), []string{exception, syntax, died, timedOut, memory}},
	{"deep templates", strings.Repeat("`${", 1<<17), []string{exception, syntax, died, timedOut, memory}},
	{"long sum", "1" + strings.Repeat("+1", 1<<19), []string{completed, exception, syntax, died, timedOut, memory}},
	{"evaluated long sum", "eval('1' + '+1'.repeat(5e5))", []string{completed, exception, memory}},
	{"unending comment", "/*" + strings.Repeat("*", 1<<20), []string{syntax}},
	{"long raw literal", "String.raw`" + strings.Repeat("x", 140_000) + "`.length", []string{completed}},
	{"long literal", "'" + strings.Repeat("x", 140_000) + "'.length", []string{completed}},
	{"long name", "var o = {}; o['x'.repeat(140_000)] = 1", []string{completed}},
	{"long text that is no name", "var s = 'x'.repeat(5e6); s.length", []string{completed}},
	{"finalizers without end", "globalThis.f = new FinalizationRegistry(() => f.register({})); f.register({}); 1", []string{unsaved}},
	{"looping finalizer", "globalThis.f = new FinalizationRegistry(() => { for (;;); }); f.register({}); 1", []string{timedOut}},
	{"label recursion", "x: for (;;) { y: for (;;) { continue x } }", []string{timedOut}},
	{"iterator without end", "[...{*[Symbol.iterator]() { for (;;) yield 1 }}]", []string{memory, exception, timedOut}},
	{"object of many keys", "const o = {}; for (let i = 0;; i++) o['k' + i] = i", []string{memory, timedOut, exception}},
	{"many unhandled rejections", "for (let i = 0; i < 2e5; i++) Promise.reject(i)", []string{exception, memory, timedOut}},
	{"rejection handled over and over", "for (;;) { const p = Promise.reject(1); p.catch(() => {}) }", []string{timedOut, memory}},
	{"never settled", "await new Promise(() => {})", []string{never}},
}

// hostileTask returns a task with the small limits of these tests.
func hostileTask(code string) runner.Task {
	return runner.Task{
		Tenant: "t", Code: []byte(code), FileName: "cell.ts", Stateful: true, Start: time.Unix(1_700_000_000, 0),
		HeapLimitBytes: 32 << 20, ArrayBufferLimitBytes: 64 << 20, Timeout: time.Second,
	}
}

func TestHostileScripts(t *testing.T) {
	for name, scripts := range map[string][]hostileScript{
		"classics": hostileScripts, "language": hostileLanguage, "resources": hostileResources, "text": hostileText,
	} {
		t.Run(name, func(t *testing.T) { runHostile(t, scripts, true) })
	}
}

// The same for plain isolates, which have more features and save no heap.
func TestHostilePlainScripts(t *testing.T) { runHostile(t, hostilePlain, false) }

func runHostile(t *testing.T, scripts []hostileScript, stateful bool) {
	const lanes = 2
	pool := worker.New(worker.Options{Idle: lanes, Stateless: !stateful})
	t.Cleanup(func() { pool.Close() })
	turn := make(chan struct{}, lanes)
	step := tier.Choose(2, 1) // the normal tier runs every second script
	for i := 0; i < len(scripts); i += step {
		test := scripts[i]
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			turn <- struct{}{}
			defer func() { <-turn }()
			task := hostileTask(test.code)
			task.Stateful, task.Timeout = stateful, tier.Choose(150*time.Millisecond, time.Second)
			if !slices.Contains(test.want, timedOut) {
				task.Timeout = 20 * time.Second // the script ends before it, on a slow machine too
			}
			var bytes int
			o, err := pool.Run(t.Context(), task, func(_ context.Context, lines []events.Line) error {
				for _, l := range lines {
					bytes += len(l.Text) + 1
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			verdict := string(o.Status) + "/" + o.Reason
			if !strings.Contains(" "+strings.Join(test.want, " ")+" ", " "+verdict+" ") {
				t.Errorf("ended as %s (%.200s), want one of %q", verdict, o.Error, test.want)
			}
			switch limit := task.Timeout + time.Second; {
			case o.WallTime > 10*limit:
				t.Errorf("took %s", o.WallTime)
			case o.WallTime > limit:
				t.Logf("took %s on this machine", o.WallTime)
			}
			if stateful {
				checkShape(t, o)
			}
			t.Logf("%s in %s, %d bytes out, %.100q", verdict, o.WallTime.Round(time.Millisecond), bytes, o.Error)

			after := hostileTask("1+1")
			after.Stateful, after.Timeout = stateful, 20*time.Second
			if o, err := pool.Run(t.Context(), after, discard); err != nil || o.Result == nil || *o.Result != "2" {
				t.Errorf("afterwards 1+1 gave %+v, %v", o, err)
			}
		})
	}
}

// checkShape checks the properties that every outcome must have.
func checkShape(t *testing.T, o runner.Outcome) {
	t.Helper()
	saved := o.Status == events.StatusCompleted || o.Reason == runner.ReasonException || o.Reason == runner.ReasonNeverSettled
	switch {
	case (o.Status == events.StatusCompleted) != (o.Reason == ""):
		t.Errorf("status %s with reason %q", o.Status, o.Reason)
	case (o.Status == events.StatusCompleted) != (o.Error == ""):
		t.Errorf("status %s with error %q", o.Status, o.Error)
	case o.Status != events.StatusCompleted && o.Result != nil:
		t.Errorf("status %s with a result", o.Status)
	case len(o.Heap) > 0 && !saved:
		t.Errorf("%s/%s with a heap", o.Status, o.Reason)
	case len(o.Heap) == 0 && o.Status == events.StatusCompleted:
		t.Error("completed without a heap")
	case o.Status == events.StatusTimedOut && o.Error != "Execution timed out":
		t.Errorf("timed out with error %q", o.Error)
	case o.Reason == runner.ReasonOutOfMemory && (!strings.HasPrefix(o.Error, "Out of memory: ") || !strings.HasSuffix(o.Error, ". Try increasing heap_memory_max_mb.")):
		t.Errorf("out of memory with error %q", o.Error)
	}
}
