package v8_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"daybook/internal/exec/v8"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Unix(1_700_000_000, 0).UTC()

// transcript records console messages.
type transcript struct{ lines []string }

func (tr *transcript) WriteMessage(level uint8, at time.Time, text []byte) error {
	tr.lines = append(tr.lines, fmt.Sprintf("%d@%d %s", level, at.Sub(start).Milliseconds(), text))
	return nil
}

// outcome is the result of a run with its output and its heap.
type outcome struct {
	v8.Result
	text string
	out  []string
	heap []byte
}

// run evaluates source in an isolate of its own.
func run(tb testing.TB, cfg v8.Config, source string) outcome {
	tb.Helper()
	return runScript(tb, cfg, v8.Script{Source: []byte(source)})
}

func runScript(tb testing.TB, cfg v8.Config, script v8.Script) outcome {
	tb.Helper()
	var tr transcript
	cfg.Output = &tr
	if cfg.HeapLimit == 0 {
		cfg.HeapLimit = 64 << 20
	}
	if cfg.BufferLimit == 0 {
		cfg.BufferLimit = 32 << 20
	}
	if cfg.Start.IsZero() {
		cfg.Start = start
	}
	i, err := v8.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	r, err := i.Run(script)
	if err != nil {
		tb.Fatal(err)
	}
	o := outcome{Result: r, text: "<none>", out: tr.lines}
	if r.Text != nil {
		o.text = *r.Text
	}
	if cfg.Plain || r.Status == v8.Terminated || r.Status == v8.OutOfMemory || r.Status == v8.SyntaxError {
		return o
	}
	blob, err := i.Snapshot()
	if err != nil {
		tb.Fatalf("snapshot after %.60q: %v", script.Source, err)
	}
	o.heap = bytes.Clone(blob)
	return o
}

func TestHeapSurvives(t *testing.T) {
	for _, test := range []struct{ name, first, then, want string }{
		{"closure", "let n = 0; function inc() { return ++n }; inc()", "inc() + ',' + n", "2,2"},
		{"class with private fields", "class A { #x = 1; static made = 0; constructor() { A.made++ } get x() { return this.#x++ } }; let a = new A; a.x", "a.x + ',' + A.made + ',' + (a instanceof A)", "2,1,true"},
		{"map and set", "let m = new Map([[{k: 1}, 'v'], [NaN, 2]]), s = new Set([1, 'a'])", "m.size + m.get(NaN) + [...s].join()", "41,a"},
		{"weak collections", "let key = {}, wm = new WeakMap([[key, 'w']]), ws = new WeakSet([key]), wr = new WeakRef(key)", "wm.get(key) + ws.has(key) + (wr.deref() === key)", "wtruetrue"},
		{"suspended generator", "function* g() { let x = yield 1; yield x * 2 }; let it = g(); it.next()", "it.next(21).value", "42"},
		{"suspended async function", "let go; async function f() { let v = await new Promise(r => go = r); return v + 1 }; let p = f(); 0", "go(41); await p", "42"},
		{"pending promise with reactions", "let r, seen = []; let p = new Promise(f => r = f); p.then(v => seen.push(v)); 0", "r('late'); await p; seen.join()", "late"},
		{"direct eval after a restore", "function f(s) { let q = 5; return eval(s) }; f('q+1')", "f('q+2')", "7"},
		{"typed arrays", "let u = new Float64Array([1.5, 2]), d = new DataView(new ArrayBuffer(8)); d.setInt16(2, -3)", "u[0] + u[1] + d.getInt16(2)", "0.5"},
		{"zero-length buffers", "let z = new ArrayBuffer(0), zu = new Uint8Array(0)", "z.byteLength + zu.length + new Uint8Array(z).length", "0"},
		{"resizable and detached buffers", "let rb = new ArrayBuffer(4, {maxByteLength: 16}); rb.resize(8); let det = new ArrayBuffer(4); det.transfer()", "rb.byteLength + ',' + rb.maxByteLength + ',' + det.detached", "8,16,true"},
		{"symbols", "let sy = Symbol('d'), o = {[sy]: 1, [Symbol.for('reg')]: 2}", "o[sy] + o[Symbol.for('reg')]", "3"},
		{"regexp state", "let re = /a/g; re.exec('aXa')", "re.lastIndex + re.exec('aXa').index", "3"},
		{"proxy", "let pr = new Proxy({}, {get: (t, k) => k + '!'}); let rev = Proxy.revocable({}, {}); rev.revoke()", "pr.hello", "hello!"},
		{"error with its stack", "let e = new RangeError('kept', {cause: 1})", "e.message + e.cause + (e instanceof RangeError)", "kept1true"},
		{"bigint and date", "let b = 2n ** 100n, dt = new Date(5)", "String(b) + dt.getTime()", "12676506002282294014967032053765"},
		{"redeclared bindings", "let x = 1; const y = 2; class C {} ; function f() { return 1 }", "let x = 10; const y = 20; class C { m() { return 100 } }; function f() { return 1000 }; x + y + new C().m() + f()", "1130"},
		{"patched builtin", "Array.prototype.last = function () { return this[this.length - 1] }", "[1, 2, 3].last()", "3"},
		{"Intl objects", "let nf = new Intl.NumberFormat('de', {minimumFractionDigits: 2}); nf.format(1)", "nf.format(1234.5)", "1.234,50"},
		{"asm.js", "let asm = (function (s) { 'use asm'; function f() { return 7 | 0 } return {f: f} })(globalThis); asm.f()", "asm.f()", "7"},
		{"features snapshots usually lack", "let pt = Promise.try(() => 3), esc = RegExp.escape('a.b'); Error.isError(new Error)", "await pt + esc", `3\x61\.b`},
		{"array iterator", "let ai = [1, 2, 3][Symbol.iterator](); ai.next()", "ai.next().value", "2"},
		{"finalization registry with garbage", "let done = [], fr = new FinalizationRegistry(v => done.push(v)); fr.register({}, 1); let held = {}; fr.register(held, 2); 0", "done.join()", "1"},
		{"finalization of the result", "let done2 = [], fr2 = new FinalizationRegistry(v => done2.push(v)); let o = {}; fr2.register(o, 'o'); let p2 = o; o = p2 = null; (() => { let r = {}; fr2.register(r, 'r'); return r })()", "done2.sort().join()", "o,r"},
		{"finalization that throws and rejects", "let fr3 = new FinalizationRegistry(v => { Promise.reject(1); throw new Error('x') }); fr3.register({}, 1); fr3.register([], 2); 0", "typeof fr3", "object"},
		{"forty thousand objects", "let big = Array.from({length: 4e4}, (_, i) => ({i, s: 's' + i}))", "big[39999].s + big.length", "s3999940000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			first := run(t, v8.Config{}, test.first)
			if first.Status != v8.Completed {
				t.Fatalf("first run: %v %s", first.Status, first.text)
			}
			then := run(t, v8.Config{Heap: first.heap}, test.then)
			if then.Status != v8.Completed || then.text != test.want {
				t.Fatalf("after the restore: status %v, %q, want %q", then.Status, then.text, test.want)
			}
		})
	}
}

// A run that fails cancels all timers: its own, those of earlier runs and those that its finalizers
// set. The next run ends without waiting for them.
func TestFailureCancelsTimers(t *testing.T) {
	kept := run(t, v8.Config{}, "setTimeout(() => console.log('kept'), 10).unref(); setInterval(() => console.log('pulse'), 7).unref(); 0")
	if kept.Status != v8.Completed || kept.TimersCancelled != 0 {
		t.Fatalf("first run: %v %q, %d timers cancelled", kept.Status, kept.text, kept.TimersCancelled)
	}
	for _, test := range []struct {
		name, source string
		heap         []byte
		want         int
	}{
		{"none", "oops()", nil, 0},
		{"an interval", "const every = setInterval(() => {}, 1000); oops()", nil, 1},
		{"of every kind", "setTimeout(() => {}, 5); setImmediate(() => {}); setTimeout(() => {}, 5).unref(); clearTimeout(setTimeout(() => {}, 1)); oops()", nil, 3},
		{"those of an earlier run", "setInterval(() => {}, 1); oops()", kept.heap, 3},
		{"an interval that threw", "setInterval(() => oops(), 1)", nil, 1},
		{"a rejection", "setInterval(() => {}, 1); Promise.reject(1)", nil, 1},
		{"an await without end", "setTimeout(() => {}, 9).unref(); await new Promise(() => {})", nil, 1},
		{"set by a finalizer", "(() => { const f = new FinalizationRegistry(() => setInterval(() => f, 1)); f.register({}, 0); globalThis.f = f })(); oops()", nil, 1},
		{"that hold a registry", "(() => { const f = new FinalizationRegistry(() => {}); const o = {}; f.register(o, 0); globalThis.f = f; setInterval(() => o, 1) })(); oops()", nil, 1},
	} {
		failed := run(t, v8.Config{Heap: test.heap}, test.source)
		if (failed.Status != v8.Exception && failed.Status != v8.NeverSettled) || failed.TimersCancelled != test.want {
			t.Errorf("%s: %v %q, %d timers cancelled, want %d", test.name, failed.Status, failed.text, failed.TimersCancelled, test.want)
		}
		then := run(t, v8.Config{Heap: failed.heap}, "await new Promise(done => setTimeout(done, 20)); 'ran'")
		if then.text != "ran" || len(then.out) != 0 || then.Clock.Sub(start) != 20*time.Millisecond {
			t.Errorf("%s: the next run: %v %q, output %q, %v", test.name, then.Status, then.text, then.out, then.Clock.Sub(start))
		}
	}
	// The handle of a cancelled timer behaves like that of a cleared one.
	failed := run(t, v8.Config{}, "var h = setTimeout(() => console.log('fired'), 5), id = +setTimeout(() => {}, 5); oops()")
	then := run(t, v8.Config{Heap: failed.heap}, "h.refresh(); h.ref(); clearTimeout(h); clearTimeout(id); setTimeout(() => console.log('own'), 1); h.hasRef()")
	if then.text != "true" || fmt.Sprint(then.out) != "[0@1 own]" {
		t.Errorf("after the failure: %v %q, output %q", then.Status, then.text, then.out)
	}
}

// A console.group that a run leaves open does not indent the output of the next run.
func TestGroupsEndWithTheRun(t *testing.T) {
	for _, source := range []string{"console.group('g'); 1", "console.group('g'); console.group(); oops()"} {
		first := run(t, v8.Config{}, source)
		if then := run(t, v8.Config{Heap: first.heap}, "console.log('plain')"); fmt.Sprint(then.out) != "[0@0 plain]" {
			t.Errorf("after %s: %q", source, then.out)
		}
	}
}

// The text of an error has what is left of it after a script changed its properties.
func TestErrorsWithoutAStack(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"const e = new TypeError('kept'); e.stack = 5; throw e", "TypeError: kept"},
		{"const e = new Error('kept'); e.stack = ''; throw e", "Error: kept"},
		{"const e = new Error('kept'); delete e.stack; throw e", "Error: kept"},
		{"const e = new RangeError('kept'); Object.defineProperty(e, 'stack', {get() { throw 1 }}); throw e", "RangeError: kept"},
		{"class Mine extends Error { get name() { throw 1 } }; const e = new Mine('kept'); e.stack = null; throw e", "Error: kept"},
		{"const e = new Error('lost'); e.stack = 5; Object.defineProperty(e, 'message', {get() { throw 1 }}); throw e", "Error"},
		{"const e = new Error(''); e.stack = 5; e.name = 'Named'; throw e", "Named"},
		{"const e = new Error('alone'); e.stack = 5; e.name = ''; throw e", "alone"},
		{"const e = new Error('kept'); e.stack = {}; e.name = {toString() { throw 1 }}; throw e", "Error: kept"},
		{"Error.prepareStackTrace = () => { throw 1 }; throw new Error('kept')", "Error: kept"},
	} {
		if o := run(t, v8.Config{}, test.source); o.Status != v8.Exception || strings.SplitN(o.text, "\n", 2)[0] != test.want {
			t.Errorf("%s: %v %q, want %q", test.source, o.Status, o.text, test.want)
		}
	}
}

func TestEventLoop(t *testing.T) {
	for _, test := range []struct {
		name, source string
		status       v8.Status
		text         string // prefix
		out          []string
	}{
		{"value", "1 + 1", v8.Completed, "2", nil},
		{"undefined gives none", "void 0", v8.Completed, "<none>", nil},
		{"empty source", "", v8.Completed, "<none>", nil},
		{"promise is awaited", "Promise.resolve(Promise.resolve(3))", v8.Completed, "3", nil},
		{"promise settled by a timer", "new Promise(r => setTimeout(r, 5, 'late'))", v8.Completed, "late", nil},
		{"rejected value", "Promise.reject(new Error('no'))", v8.Exception, "Error: no", nil},
		{"thrown", "throw new TypeError('bad')", v8.Exception, "TypeError: bad", nil},
		{"thrown non-error", "throw {code: 5}", v8.Exception, "Uncaught { code: 5 }", nil},
		{"thrown undefined", "throw undefined", v8.Exception, "Uncaught undefined", nil},
		{"unhandled rejection", "Promise.reject(new Error('lost')); 1", v8.Exception, "Error: lost", nil},
		{"handled in time", "let p = Promise.reject(1); p.catch(() => {}); 'fine'", v8.Completed, "fine", nil},
		{"handled in a microtask", "let p = Promise.reject(1); queueMicrotask(() => p.catch(() => {})); 'fine'", v8.Completed, "fine", nil},
		{"handled too late", "let p = Promise.reject(new Error('late')); setTimeout(() => p.catch(() => {}), 1); 1", v8.Exception, "Error: late", nil},
		{"throw in a timer ends the run", "setTimeout(() => { throw new Error('t') }, 1); setTimeout(() => console.log('never'), 5); 1", v8.Exception, "Error: t", nil},
		{"throw in a microtask", "queueMicrotask(() => { throw new Error('m') }); 1", v8.Exception, "Error: m", nil},
		{"never settled", "console.log('before'); await new Promise(() => {})", v8.NeverSettled, "Top-level await never settled", []string{"0@0 before"}},
		{"value never settles", "new Promise(() => {})", v8.NeverSettled, "Top-level await never settled", nil},
		{"timers drain before the end", "setTimeout(() => console.log('drained'), 7); 'v'", v8.Completed, "v", []string{"0@7 drained"}},
		{"clock moves to due times only", "let a = Date.now(); for (let i = 0; i < 1e6; i++); let b = Date.now(); await new Promise(r => setTimeout(r, 12)); [b - a, Date.now() - b]", v8.Completed, "[0,12]", nil},
		{"order of timers", "setTimeout(() => console.log(2), 2); setTimeout(() => console.log(1), 1); setTimeout(() => console.log('1b'), 1); 0", v8.Completed, "0", []string{"0@1 1", "0@1 1b", "0@2 2"}},
		{"microtasks between timers", "setTimeout(() => { console.log('a'); Promise.resolve().then(() => console.log('b')) }, 1); setTimeout(() => console.log('c'), 1); 0", v8.Completed, "0", []string{"0@1 a", "0@1 b", "0@1 c"}},
		{"interval until cleared", "let n = 0; let h = setInterval(() => { console.log(++n); if (n == 3) clearInterval(h) }, 2); 0", v8.Completed, "0", []string{"0@2 1", "0@4 2", "0@6 3"}},
		{"syntax error", "let let = 1", v8.SyntaxError, "SyntaxError", nil},
		{"stack overflow is an exception", "(function f() { f() })()", v8.Exception, "RangeError: Maximum call stack size exceeded", nil},
		{"levels", "console.log('l'); console.debug('d'); console.info('i'); console.warn('w'); console.error('e')", v8.Completed, "<none>", []string{"0@0 l", "1@0 d", "2@0 [INFO] i", "3@0 [WARN] w", "4@0 [ERROR] e"}},
		{"lone surrogates become valid UTF-8", `console.log('\ud800x'); '\udc00'`, v8.Completed, "\ufffd", []string{"0@0 \ufffdx"}},
		{"NUL and non-ASCII source", "console.log('h\u00e9\u4e16\U0001f600'); '\\0'.length", v8.Completed, "1", []string{"0@0 h\u00e9\u4e16\U0001f600"}},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/plain=%t", test.name, plain), func(t *testing.T) {
				o := run(t, v8.Config{Plain: plain}, test.source)
				if o.Status != test.status || !strings.HasPrefix(o.text, test.text) || (test.status == v8.Completed && o.text != test.text) {
					t.Fatalf("status %v, text %q; want %v, %q", o.Status, o.text, test.status, test.text)
				}
				if fmt.Sprint(o.out) != fmt.Sprint(test.out) {
					t.Fatalf("output %q, want %q", o.out, test.out)
				}
			})
		}
	}
}

// The inputs of a run determine its heap. What the process did before makes no difference.
func TestDeterministicHeaps(t *testing.T) {
	if os.Getenv("DAYBOOK_TEST_DETERMINISM") != "" {
		for _, hash := range determinismHashes(t) {
			fmt.Println("hash", hash)
		}
		return
	}
	first := determinismHashes(t)
	if again := determinismHashes(t); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Fatalf("the same process made other heaps:\n%q\n%q", first, again)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeterministicHeaps$")
	cmd.Env = append(os.Environ(), "DAYBOOK_TEST_DETERMINISM=1", "TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "LC_ALL=de_DE.UTF-8")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("other process: %v", err)
	}
	var other []string
	for line := range strings.Lines(string(out)) {
		if hash, ok := strings.CutPrefix(strings.TrimSpace(line), "hash "); ok {
			other = append(other, hash)
		}
	}
	if fmt.Sprint(other) != fmt.Sprint(first) {
		t.Fatalf("another process made other heaps:\n%q\n%q", first, other)
	}
}

// Equal state makes equal heaps, even if the start time and the seed differ. So it is stored once.
func TestHeapHoldsNoClock(t *testing.T) {
	early := run(t, v8.Config{Start: time.Unix(1_700_000_000, 0), Seed: [16]byte{1}}, "var n = 1; n + 1")
	late := run(t, v8.Config{Start: time.Unix(1_800_000_000, 0), Seed: [16]byte{2}}, "var n = 1; n + 1")
	if !bytes.Equal(early.heap, late.heap) {
		t.Error("a run at another time, with another seed, left another heap")
	}
}

func determinismHashes(t *testing.T) []string {
	var hashes []string
	for _, source := range []string{
		"1 + 1",
		"let a = []; for (let i = 0; i < 2e5; i++) a.push({i}); a.length = 10; a",
		"let wm = new WeakMap; let ks = []; for (let i = 0; i < 1000; i++) { let k = {}; ks.push(k); wm.set(k, i) }",
		"let r = [Math.random(), Date.now(), crypto.randomUUID()]; console.log(r); r",
		"let s = new Set; for (let i = 0; i < 5000; i++) s.add('k' + Math.random())",
		"function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) }; f(22)",
		"try { (function g() { g() })() } catch (e) { globalThis.caught = e }",
		"await new Promise(r => setTimeout(r, 3)); (1234.5).toLocaleString('de')",
		"[new Date(0).toString(), (1234.5).toLocaleString(), new Intl.DateTimeFormat().resolvedOptions().timeZone].join()",
	} {
		first := run(t, v8.Config{Seed: [16]byte{1, 2, 3}}, source)
		second := run(t, v8.Config{Heap: first.heap, Seed: [16]byte{9}}, "globalThis.n = (globalThis.n || 0) + Math.random(); n")
		for _, o := range []outcome{first, second} {
			sum := sha256.Sum256(o.heap)
			hashes = append(hashes, fmt.Sprintf("%x %.60q", sum[:6], o.text))
		}
	}
	return hashes
}

func TestSeedDecidesRandomness(t *testing.T) {
	const source = "[Math.random(), Math.random(), crypto.randomUUID()].join()"
	seed := v8.Config{Seed: [16]byte{7}}
	a, b, c := run(t, seed, source), run(t, seed, source), run(t, v8.Config{Seed: [16]byte{8}}, source)
	if a.text != b.text || a.text == c.text {
		t.Fatalf("same seed %q and %q, other seed %q", a.text, b.text, c.text)
	}
	// Bytes 0 to 15 of the published ChaCha20 vector for a 128-bit key of zeros.
	got := run(t, v8.Config{}, "Array.from(crypto.getRandomValues(new Uint8Array(16)), b => b.toString(16).padStart(2, '0')).join('')")
	if want := "89670952608364fd00b2f90936f031c8"; got.text != want {
		t.Fatalf("key stream %s, want %s", got.text, want)
	}
}

// V8 reads a heap only while the isolate is created. A worker frees it before it saves the next one.
func TestHeapIsReadByNewAlone(t *testing.T) {
	heap := run(t, v8.Config{}, "globalThis.f = text => [text, new Uint8Array([1, 2]), /a+/.exec('caat')[0]].join(); 0").heap
	want := run(t, v8.Config{Heap: heap}, "f('x')")
	mine := bytes.Clone(heap)
	i, err := v8.New(v8.Config{Heap: mine, HeapLimit: 64 << 20, BufferLimit: 32 << 20, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	for n := range mine {
		mine[n] = 0xa5
	}
	if _, err := i.Inspect(); err != nil {
		t.Fatal(err)
	}
	r, err := i.Run(v8.Script{Source: []byte("f('x')")})
	if err != nil || r.Text == nil || *r.Text != want.text {
		t.Fatalf("%+v, %v; want %q", r, err, want.text)
	}
	if again, err := i.Snapshot(); err != nil || len(again) < 100<<10 {
		t.Errorf("%d bytes, %v", len(again), err)
	}
}

func TestChainOfRestores(t *testing.T) {
	heap := run(t, v8.Config{}, "let n = 0; function step() { return ++n }; const log = []; 0").heap
	size := 0
	for i := 1; i <= 50; i++ {
		o := run(t, v8.Config{Heap: heap}, "log.push(step()); function step() { return ++n } log.length + ':' + n")
		if want := fmt.Sprintf("%d:%d", i, i); o.text != want {
			t.Fatalf("restore %d gave %q, want %q", i, o.text, want)
		}
		if i == 10 {
			size = len(o.heap)
		}
		heap = o.heap
	}
	if growth := len(heap) - size; growth > 40*1024 {
		t.Errorf("40 restores added %d bytes to the heap", growth)
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name, source string
		status       v8.Status
		text         string
	}{
		{"objects", "let a = []; for (;;) a.push({x: 1})", v8.OutOfMemory, "<none>"},
		{"closures in microtasks", "let a = []; (async () => { for (;;) { a.push(() => a); await 0 } })()", v8.OutOfMemory, "<none>"},
		{"array buffers", "let a = []; for (;;) a.push(new Uint8Array(8 << 20).fill(1))", v8.Exception, "RangeError: Array buffer allocation failed"},
		{"one array buffer", "new ArrayBuffer(1 << 30)", v8.Exception, "RangeError"},
		{"string doubling", "let s = 'x'; for (;;) s += s", v8.Exception, "RangeError: Invalid string length"},
	} {
		for _, plain := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/plain=%t", test.name, plain), func(t *testing.T) {
				o := run(t, v8.Config{HeapLimit: 24 << 20, BufferLimit: 24 << 20, Plain: plain}, test.source)
				if o.Status != test.status || !strings.HasPrefix(o.text, test.text) {
					t.Fatalf("%v %q, want %v %q", o.Status, o.text, test.status, test.text)
				}
			})
		}
	}
}

func TestTerminate(t *testing.T) {
	for _, source := range []string{"for (;;);", "await new Promise(r => setTimeout(r, 1e9))", "(async () => { for (;;) await 0 })()", "try { for (;;); } finally { for (;;); }", "setInterval(() => {}, 0)", "/(a+)+$/.test('a'.repeat(40) + 'b')"} {
		for _, plain := range []bool{false, true} {
			i, err := v8.New(v8.Config{Plain: plain, Start: start})
			if err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(30*time.Millisecond, i.Terminate)
			r, err := i.Run(v8.Script{Source: []byte(source)})
			if err != nil || r.Status != v8.Terminated || r.Text != nil {
				t.Errorf("%q ended as %v, %v, want terminated", source, r.Status, err)
			}
			timer.Stop()
			i.Terminate() // too late, so it has no effect
			i.Dispose()
		}
	}
	i, err := v8.New(v8.Config{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	i.Terminate()
	if r, err := i.Run(v8.Script{Source: []byte("1")}); err != nil || r.Status != v8.Terminated {
		t.Errorf("run after terminate: %v, %v", r.Status, err)
	}
}

// Saving an object that V8 cannot save ends the process. The prelude makes most such objects
// savable, and a check refuses the others.
func TestUnserializableHeap(t *testing.T) {
	for _, test := range []struct {
		source string
		refuse bool
	}{
		{"globalThis.keep = new Intl.DateTimeFormat('de').formatToParts(0)", false},
		{"globalThis.keep = new Intl.Segmenter('en').segment('ab')[Symbol.iterator]()", false},
		{"globalThis.keep = new Intl.Locale('de')", false},
		{"globalThis.keep = [Intl.DateTimeFormat, Intl.Collator, Intl.PluralRules, Intl.ListFormat, Intl.RelativeTimeFormat, Intl.DurationFormat].map(C => new C('en'))", false},
		{"globalThis.again = v => globalThis.fr.register({}, v); globalThis.fr = new FinalizationRegistry(v => again(v)); again(1)", true},
	} {
		i, err := v8.New(v8.Config{Start: start, HeapLimit: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Run(v8.Script{Source: []byte(test.source)}); err != nil {
			t.Fatal(err)
		}
		_, err = i.Snapshot()
		if refused := errors.Is(err, v8.ErrUnserializable); refused != test.refuse || (err != nil && !refused) {
			t.Errorf("%s: snapshot: %v, want refused %t", test.source, err, test.refuse)
		}
		i.Dispose()
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []v8.Config{{Plain: true, Heap: make([]byte, 1<<20)}, {Heap: []byte{1}}, {HeapLimit: -1}, {BufferLimit: -1}} {
		if i, err := v8.New(cfg); err == nil {
			i.Dispose()
			t.Errorf("%+v was accepted", cfg)
		}
	}
}

func TestLifecycle(t *testing.T) {
	i, err := v8.New(v8.Config{Plain: true, Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Snapshot(); err == nil {
		t.Error("a plain isolate was saved")
	}
	i.Dispose()
	i.Dispose()
	if _, err := i.Run(v8.Script{Source: []byte("1")}); !errors.Is(err, v8.ErrDisposed) {
		t.Errorf("run after dispose: %v", err)
	}
	if _, err := i.Snapshot(); !errors.Is(err, v8.ErrDisposed) {
		t.Errorf("snapshot after dispose: %v", err)
	}
}

func TestEngine(t *testing.T) {
	e := v8.CurrentEngine()
	if !strings.HasPrefix(e.V8Version, "13.6.233.10") || len(e.PreludeSHA256) != 64 || e.SnapshotFormat != v8.SnapshotFormat || e.JIT {
		t.Errorf("engine %+v", e)
	}
	if e.ID() != v8.CurrentEngine().ID() {
		t.Error("the same engine has two ids")
	}
	for name, change := range map[string]func(*v8.Engine){
		"version": func(e *v8.Engine) { e.V8Version += "x" },
		"flags":   func(e *v8.Engine) { e.Flags += " --x" },
		"prelude": func(e *v8.Engine) { e.PreludeSHA256 = "" },
		"format":  func(e *v8.Engine) { e.SnapshotFormat++ },
		"natives": func(e *v8.Engine) { e.ExternalReferences++ },
	} {
		other := e
		change(&other)
		if other.ID() == e.ID() {
			t.Errorf("a change of %s leaves the id", name)
		}
	}
	optimizes, plain, plainOptimizes := e, e, e
	optimizes.JIT = true
	plain.SnapshotFormat = 0
	plainOptimizes.JIT, plainOptimizes.SnapshotFormat = true, 0
	if optimizes.ID() != e.ID() || plainOptimizes.ID() == plain.ID() {
		t.Error("the id depends on the compiler where heaps are saved, or not where none is")
	}
}

type brokenOutput struct{}

func (brokenOutput) WriteMessage(uint8, time.Time, []byte) error { return errors.New("full") }

func TestOutputErrorEndsTheRun(t *testing.T) {
	i, err := v8.New(v8.Config{Start: start, Output: brokenOutput{}})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	if r, err := i.Run(v8.Script{Source: []byte("for (;;) console.log(1)")}); err != nil || r.Status != v8.Terminated {
		t.Fatalf("%v, %v", r.Status, err)
	}
}
