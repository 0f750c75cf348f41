package v8_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// leftovers are scripts that try to pass something on to the next run of their isolate.
var leftovers = []struct {
	name, source string
	// isLast is set if the isolate serves no other run.
	isLast bool
}{
	{name: "nothing", source: "1"},
	{name: "globals", source: "var left = 1; globalThis.leak = left; let lexical = 2; class C {} ; const k = () => leak"},
	{name: "accessors", source: "Object.defineProperty(globalThis, 'leak', {get() { console.log('leak'); return 1 }}); Object.defineProperty(Object.prototype, 'leak', {get() { return 1 }})"},
	{name: "prototypes", source: `Object.prototype.leak = 1; Array.prototype[Symbol.iterator] = function* () { yield "leak" }; Promise.prototype.then = null; String.prototype.toString = RegExp.prototype.exec = Function.prototype.call = () => "leak"; Map.prototype.get = () => 1; Error.prototype.name = "leak"; JSON.stringify = () => "leak"; Math.random = () => 4; Date.now = () => 5`},
	{name: "frozen", source: "for (const C of [Object, Array, Function, Error, String, Promise, Map, RegExp, Date, Buffer]) { Object.freeze(C); Object.freeze(C.prototype) } Object.freeze(Math); Object.preventExtensions(JSON)"},
	{name: "a frozen global object", source: "Object.preventExtensions(globalThis); delete globalThis.console"},
	{name: "a thrown error", source: "globalThis.leak = 1; throw new Error('leak')"},
	{name: "a syntax error", source: "let leak = "},
	{name: "microtasks", source: "const more = () => { console.log('leak'); queueMicrotask(more) }; setTimeout(() => { throw 1 }); setTimeout(() => queueMicrotask(more)); await new Promise(() => {})"},
	{name: "endless promises", source: "let n = 0; (async () => { for (;;) { await null; if (++n > 1e4) throw 'end' } })(); (async () => { try { await new Promise(() => {}) } finally { console.log('leak') } })(); 1"},
	{name: "jobs after an uncaught error", source: "let resolve; const p = new Promise(r => { resolve = r }); p.then(() => console.log('leak')); setTimeout(() => { resolve(); throw 1 }); 0"},
	{name: "timers", source: "setTimeout(() => console.log('leak'), 1).unref(); setInterval(() => console.log('leak'), 0).unref(); setTimeout(() => console.log('leak'), 1e9).unref(); 1"},
	{name: "timers of a failed run", source: "setTimeout(() => console.log('leak'), 5); setInterval(() => console.log('leak'), 1); setImmediate(() => console.log('leak')); throw 1"},
	{name: "rejections", source: "Promise.reject(1); Promise.reject(2); setTimeout(() => Promise.reject(3)); throw 4"},
	{name: "a late handler", source: "globalThis.p = Promise.reject(1); await null; p.catch(() => {}); throw 2"},
	{name: "an error in a callback", source: "setTimeout(() => { throw new Error('leak') }); queueMicrotask(() => { throw new Error('leak') })"},
	{name: "never settled", source: "await new Promise(() => {})"},
	{name: "regular expressions", source: "/(se)(cr)(et)/.exec('secret'); 'a-b-c'.split(/-/); RegExp.input = 'leak'"},
	{name: "stack traces", source: "Error.stackTraceLimit = 0; Error.prepareStackTrace = () => 'leak'; new Error().stack"},
	{name: "stack traces with an accessor", source: "Object.defineProperty(Error, 'stackTraceLimit', {get() { console.log('leak'); return 1 }})"},
	{name: "templates", source: "const tag = s => s; const site = () => tag`a${1}b`; globalThis.site = site(); site() === site()"},
	{name: "console state", source: "console.group('leak'); console.group('leak'); console.count('x'); console.time('x'); console.log = () => {}"},
	{name: "Intl", source: "new Intl.DateTimeFormat('de', {timeZone: 'Asia/Tokyo'}).format(0); (1234.5).toLocaleString('de'); Intl.DateTimeFormat.prototype.format = () => 'leak'; Intl.NumberFormat = null; new Date(0).toLocaleString('ja')"},
	{name: "random numbers", source: "for (let i = 0; i < 1000; i++) Math.random(); crypto.randomUUID(); crypto.getRandomValues(new Uint8Array(99))"},
	{name: "the clock", source: "await new Promise(r => setTimeout(r, 123456)); performance.now()"},
	{name: "compiled code", source: "globalThis.f = eval('(function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) })'); f(20); new Function('return 1')(); for (let i = 0; i < 500; i++) console.log({a: [i, {b: 1}]})"},
	{name: "deep recursion", source: "const f = () => f(); for (let i = 0; i < 20; i++) try { f() } catch {}"},
	{name: "artifacts", source: "for (let i = 0; i < 1000; i++) artifact('a' + i, 'text/plain', 'x')"},
	{name: "host calls", source: "mcp.fs.read({}).then(() => console.log('leak')); mcp.fs.read({}); throw 1"},
	{name: "a computation", source: "crypto.subtle.digest('SHA-256', new Uint8Array(9)); new URL('http://leak/?a=b'); new TextDecoder('latin1').decode(new Uint8Array([200])); 1"},
	{name: "Node's globals", source: "Buffer.prototype.toString = () => 'leak'; process.env.LEAK = 'leak'; Buffer.poolSize = 1; Buffer.from('abc')"},
	{name: "Atomics", source: "const s = new Int32Array(new SharedArrayBuffer(8)); Atomics.waitAsync(s, 0, 0).value.then(() => console.log('leak')); Atomics.waitAsync(s, 0, 0, 5).value.then(() => console.log('leak')); throw 1", isLast: true},
	{name: "WeakRef", source: "globalThis.r = new WeakRef({}); new WeakMap([[{}, 1]]); r.deref()"},
	{name: "generators", source: "globalThis.g = (async function* () { try { yield 1; await new Promise(() => {}) } finally { console.log('leak') } })(); await g.next(); g.return(); g.next(); 1"},
	{name: "proxies", source: "Object.setPrototypeOf(Object.prototype.__proto__ ?? Array.prototype, new Proxy({}, {get(t, k) { console.log('leak'); return 1 }, has() { return true }}))"},
	{name: "buffers", source: "globalThis.b = []; for (let i = 0; i < 31; i++) b.push(new Uint8Array(1 << 20)); b.length"},
	{name: "resizable buffers", source: "globalThis.b = []; for (let i = 0; i < 8; i++) { const r = new ArrayBuffer(1, {maxByteLength: 16 << 20}); r.resize(16 << 20); new Uint8Array(r).fill(1); b.push(r) } b.length"},
	{name: "a large heap", source: "globalThis.a = []; for (let i = 0; i < 5e5; i++) a.push({i}); a.length", isLast: true},
	{name: "much garbage", source: "let s = 0; for (let i = 0; i < 3e4; i++) s += new Array(200).fill(i).length; s"},

	{name: "FinalizationRegistry", source: "globalThis.f = new FinalizationRegistry(() => { for (;;) console.log('leak') }); for (let i = 0; i < 100; i++) f.register({}, 1); 1", isLast: true},
	{name: "FinalizationRegistry by another way", source: "const {FinalizationRegistry: F} = globalThis; new F(() => console.log('leak')).register({}, 1)", isLast: true},
	{name: "FinalizationRegistry from its descriptor", source: "const F = Reflect.getOwnPropertyDescriptor(globalThis, 'FinalizationRegistry').value; new F(() => console.log('leak')).register({}, 1)", isLast: true},
	{name: "FinalizationRegistry before an uncaught error", source: "new FinalizationRegistry(() => console.log('leak')).register({}, 1); throw 1", isLast: true},
	{name: "Symbol.for", source: "for (let i = 0; i < 1e5; i++) Symbol.for('leak' + i); 1", isLast: true},
	{name: "Symbol.for by another way", source: "Object.getOwnPropertyDescriptors(Symbol).for.value('leak')", isLast: true},
	{name: "a WebAssembly memory", source: "globalThis.m = new WebAssembly.Memory({initial: 1}); m.grow(1)", isLast: true},
	{name: "WebAssembly in the background", source: "WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])).then(() => console.log('leak')); throw 1", isLast: true},
	{name: "WebAssembly with a proxy", source: "with (globalThis) { new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])) } ", isLast: true},
	{name: "shared buffers that grow", source: "globalThis.b = []; for (let i = 0; i < 8; i++) { const r = new SharedArrayBuffer(1, {maxByteLength: 16 << 20}); r.grow(16 << 20); new Uint8Array(r).fill(1); b.push(r) } b.length", isLast: true},
}

// probe shows what a run can see of the runs before it.
const probe = `
const seen = [];
const see = (name, f) => { let v; try { v = f() } catch (e) { v = String(e) } seen.push(name + ": " + String(v)) };
for (const o of [globalThis, Object, Object.prototype, Array.prototype, Promise.prototype, Function.prototype, String.prototype, RegExp, RegExp.prototype, Error, Error.prototype, Symbol, Math, JSON, Intl, console, Buffer, Buffer.prototype, process.env, FinalizationRegistry.prototype]) {
  see("keys", () => Reflect.ownKeys(o).map(k => { const d = Object.getOwnPropertyDescriptor(o, k); return String(k) + typeof d.value + d.writable + d.enumerable + d.configurable }).join() + Object.isExtensible(o) + Object.isFrozen(o));
}
for (const name of ["leak", "left", "lexical", "C", "k", "p", "f", "r", "g", "b", "a", "m", "site"]) see(name, () => (0, eval)("typeof " + name));
see("statics", () => [RegExp.$1, RegExp.input, RegExp.lastMatch, RegExp["$'"]].join("|"));
see("stack", () => new Error("e").stack);
see("limit", () => Error.stackTraceLimit);
see("random", () => [Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint8Array(3))].join());
see("clock", () => [Date.now(), performance.now(), performance.timeOrigin, new Date()].join());
see("spread", () => [...[1, 2], ..."ab", ...new Map([[1, 2]])].join());
see("regexp", () => "a-b".replace(/-(.)/, "$1$1") + /(x)?/.exec("y"));
see("json", () => JSON.stringify({a: [1, {b: 2}]}));
see("number", () => (1234.5).toLocaleString() + (1234.5).toLocaleString("de") + new Date(0).toLocaleString());
see("intl", () => new Intl.DateTimeFormat("de").format(0) + Intl.DateTimeFormat().resolvedOptions().timeZone);
see("symbols", () => Symbol.for("leak").description + (Symbol.for("leak") === Symbol.for("leak")) + String(Symbol.keyFor(Symbol.for("leak1"))));
see("template", () => { const tag = s => s; const site = () => tag` + "`a${1}b`" + `; return site() === site() && Object.keys(site()).join() });
see("depth", () => { let n = 0; const f = () => { n++; f() }; try { f() } catch {} return n });
see("depth of eval", () => { let n = 0; const f = eval("(function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) })"); return f(20) });
see("clone", () => JSON.stringify(structuredClone({a: new Date(0), b: [1n].map(String)})));
see("text", () => new TextDecoder().decode(new TextEncoder().encode("é")) + new URL("http://a/b?c#d").searchParams + Buffer.from("abc").toString("hex"));
see("buffer", () => new Uint8Array(30 << 20).length);
see("memory", () => new WebAssembly.Memory({initial: 2}).buffer.byteLength);
see("heap", () => { const all = []; for (let i = 0; i < 4e5; i++) all.push({i}); return all.length });
for (const line of seen) console.log(line);
console.count("x");
console.log({a: [1, {b: new Map([[1, {c: 2}]])}]});
artifact("mine", "text/plain", "x");
const order = [];
setTimeout(() => order.push("timeout"), 1); setImmediate(() => order.push("immediate"));
Promise.resolve().then(() => order.push("job")); queueMicrotask(() => order.push("microtask"));
order.push(await mcp.fs.read({}));
await new Promise(r => setTimeout(r, 10));
console.log(order.join(), Date.now());
seen.length`

// quiet answers the calls of a run in order, and never a call of an earlier run.
type quiet struct{ calls int }

func (q *quiet) Call(int, string, string, []byte) error { q.calls++; return nil }

func (q *quiet) Await(due time.Time) (v8.Answer, error) {
	return v8.Answer{Number: q.calls, OK: true, Text: []byte(`"answer"`), At: start.Add(time.Millisecond)}, nil
}

type artifactTranscript struct{ transcript }

func (tr *artifactTranscript) WriteArtifact(name, mime string, at time.Time, content []byte) error {
	tr.lines = append(tr.lines, fmt.Sprintf("artifact %s %s %s", name, mime, content))
	return nil
}

// chain runs scripts one after another, in one isolate as long as it can be renewed.
type chain struct {
	tb      testing.TB
	isolate *v8.Isolate
}

// newChain locks the goroutine to its thread, as a worker does: the depth of the stack that a script
// may use depends on the thread.
func newChain(tb testing.TB) *chain {
	runtime.LockOSThread()
	c := &chain{tb: tb}
	tb.Cleanup(func() {
		c.close()
		runtime.UnlockOSThread()
	})
	return c
}

func chainConfig(out v8.Output) v8.Config {
	return v8.Config{
		Plain: true, HeapLimit: 64 << 20, BufferLimit: 32 << 20, Start: start, Seed: [16]byte{1, 2, 3}, Output: out,
		Servers: []byte(`{"fs":["read"]}`), Host: &quiet{}, SkipWaits: true, NodeGlobals: true,
	}
}

// run returns all that a run shows, and whether the isolate was renewed after it.
func (c *chain) run(source string) (v8.Result, string, bool) {
	c.tb.Helper()
	var tr artifactTranscript
	cfg := chainConfig(&tr)
	var err error
	if c.isolate == nil {
		c.isolate, err = v8.New(cfg)
	} else {
		err = c.isolate.Assign(cfg)
	}
	if err != nil {
		c.tb.Fatal(err)
	}
	r, err := c.isolate.Run(v8.Script{Source: []byte(source)})
	if err != nil {
		c.tb.Fatal(err)
	}
	renewed := c.isolate.Renew()
	if !renewed {
		c.close()
	}
	shown := r
	shown.PeakHeap = 0
	b, err := json.Marshal(shown)
	if err != nil {
		c.tb.Fatal(err)
	}
	return r, string(b) + "\n" + strings.Join(tr.lines, "\n"), renewed
}

func (c *chain) close() {
	if c.isolate != nil {
		c.isolate.Dispose()
		c.isolate = nil
	}
}

// No run notices the runs before it in its isolate.
func TestRenewedIsolateIsFresh(t *testing.T) {
	alone := newChain(t)
	r, want, _ := alone.run(probe)
	alone.close()
	if r.Status != v8.Completed || !strings.Contains(want, "job,microtask,immediate,answer,timeout") {
		t.Fatalf("the probe alone: %+v\n%s", r, want)
	}
	c := newChain(t)
	for round := range 2 {
		for _, before := range leftovers {
			_, _, renewed := c.run(before.source)
			if renewed == before.isLast {
				t.Errorf("%s: renewed is %t", before.name, renewed)
			}
			if _, got, _ := c.run(probe); got != want {
				t.Errorf("round %d, after %s: %s", round, before.name, firstDifference(got, want))
			}
		}
	}
}

// Without the probe, which is the last run of its isolate, the leftovers of many runs come together.
func TestRenewedManyTimes(t *testing.T) {
	const small = "const all = []; for (const k of Reflect.ownKeys(globalThis)) if (!['FinalizationRegistry', 'WebAssembly', 'SharedArrayBuffer'].includes(k)) all.push(k, typeof globalThis[k]); let n = 0; const f = () => { n++; f() }; try { f() } catch {} " +
		"console.log(all.join(), n, Math.random(), Date.now(), new Error('e').stack, [...'ab'], {a: 1}); setTimeout(() => console.log('mine'), 5); await mcp.fs.read({})"
	alone := newChain(t)
	_, want, _ := alone.run(small)
	alone.close()
	c := newChain(t)
	longest, length := 0, 0
	for range 2 {
		for i, before := range leftovers {
			if before.isLast {
				continue
			}
			_, _, renewed := c.run(before.source)
			if length++; !renewed {
				length = 0
			}
			longest = max(longest, length)
			if _, got, _ := c.run(small); got != want {
				t.Errorf("run %d, after %s: %s", i, before.name, firstDifference(got, want))
			}
		}
	}
	if longest < 20 {
		t.Errorf("an isolate served at most %d of the scripts", longest)
	}
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range w {
		if i >= len(g) {
			return fmt.Sprintf("line %d is missing: %.300s", i, w[i])
		}
		if g[i] != w[i] {
			same := 0
			for same < len(g[i]) && same < len(w[i]) && g[i][same] == w[i][same] {
				same++
			}
			same = max(0, same-40)
			return fmt.Sprintf("line %d:\n got %.200s\nwant %.200s", i, g[i][same:], w[i][same:])
		}
	}
	return "more lines: " + g[len(w)]
}

// The memory that runs leave is bounded, and no part of it counts as that of a later run.
func TestRenewedMemory(t *testing.T) {
	c := newChain(t)
	first, _, _ := c.run("1+1")
	renewals := 0
	for n := range 100 {
		r, _, renewed := c.run("const a = []; for (let i = 0; i < 2000; i++) a.push({i}); a.length")
		if renewed {
			renewals++
		}
		if n > 0 && r.PeakHeap > first.PeakHeap+(4<<20) {
			t.Fatalf("run %d: a peak of %d KiB, %d KiB in a fresh isolate", n, r.PeakHeap>>10, first.PeakHeap>>10)
		}
		if r, _, _ := c.run("1+1"); r.PeakHeap > first.PeakHeap+(1<<20) {
			t.Fatalf("run %d: a peak of %d KiB, %d KiB in a fresh isolate", n, r.PeakHeap>>10, first.PeakHeap>>10)
		}
	}
	if renewals < 95 {
		t.Errorf("%d of 100 runs left too much for another run", 100-renewals)
	}
}

// Memory outside the heap is freed before the isolate waits for the next run, also that of buffers
// which can grow: no budget counts it.
func TestRenewedFreesBuffers(t *testing.T) {
	c := newChain(t)
	c.run("1")
	before := resident(t)
	for _, left := range leftovers {
		if !strings.Contains(left.name, "buffers") {
			continue
		}
		for range 3 {
			if r, _, _ := c.run(left.source); r.Status != v8.Completed {
				t.Fatalf("%s: %+v", left.name, r)
			}
			if more := resident(t) - before; more > 64<<20 {
				t.Errorf("%s: %d MiB are held after the run", left.name, more>>20)
			}
		}
	}
}

// resident returns the resident memory of this process without shared pages, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, all, shared int
	if _, err := fmt.Sscan(string(b), &size, &all, &shared); err != nil {
		t.Fatal(err)
	}
	return (all - shared) * os.Getpagesize()
}

// A run that was stopped or ran out of memory is the last one of its isolate.
func TestNotRenewedAfterStop(t *testing.T) {
	for name, source := range map[string]string{
		"stopped":       "for (;;) {}",
		"out of memory": "const all = []; for (;;) all.push(new Array(1000).fill(1.5))",
	} {
		cfg := chainConfig(nil)
		i, err := v8.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if name == "stopped" {
			time.AfterFunc(20*time.Millisecond, i.Terminate)
		}
		if _, err := i.Run(v8.Script{Source: []byte(source)}); err != nil {
			t.Fatal(err)
		}
		if i.Renew() {
			t.Errorf("%s: the isolate was renewed", name)
		}
		i.Dispose()
		if i.Renew() {
			t.Error("a disposed isolate was renewed")
		}
	}
	saved, err := v8.New(v8.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Dispose()
	if _, err := saved.Run(v8.Script{Source: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if saved.Renew() {
		t.Error("an isolate that can be saved was renewed")
	}
}

// BenchmarkRenewed runs 1+1 in an isolate that is renewed after each run; see BenchmarkPlain.
func BenchmarkRenewed(b *testing.B) {
	c := newChain(b)
	for b.Loop() {
		c.run("1+1")
	}
}
