package v8_test

import (
	"regexp"
	"testing"

	"daybook/internal/dev/tier"
	"daybook/internal/exec/v8"
)

// poison is a script that changes objects that later code of its realm uses. note() records that its
// code ran. The text evil must not appear.
type poison struct {
	name, source string
	// shown has the values of probes in the same run, by the name of the probe, if the
	// language or Node's rules of printing require other values than without the script.
	shown map[string]string
	// harmless is set if the script changes no built-in object and leaves no timer and no
	// accessor.
	harmless bool
	// ends is set if the script throws or never settles, so that no code of the run follows.
	ends bool
}

// trap is source that defines accessors on a prototype for all names that the prelude reads or writes
// on an ordinary object.
const trap = `
const define = Object.defineProperty;
function trap(target, ...names) {
	for (let i = 0; i < names.length; i++) define(target, names[i], { __proto__: null, configurable: true, get() { return 'evil' }, set(v) { define(this, names[i], { __proto__: null, value: 'evil', configurable: true, writable: true, enumerable: true }) } });
}
`

var poisons = []poison{
	{name: "descriptor fields", source: trap + "trap(Object.prototype, 'get', 'set')"},
	{name: "value", source: trap + "trap(Object.prototype, 'value')"},
	{name: "writable, enumerable, configurable", source: "for (const k of ['writable', 'enumerable', 'configurable']) Object.prototype[k] = true"},
	{name: "stack", source: trap + "trap(Object.prototype, 'stack')"},
	{name: "cause", source: trap + "trap(Object.prototype, 'cause')"},
	{name: "errors", source: trap + "trap(Object.prototype, 'errors')"},
	{name: "cause and errors as values", source: "Object.prototype.cause = new Error('evil'); Object.prototype.errors = [new Error('evil')]"},
	{name: "name", source: trap + "trap(Object.prototype, 'name')"},
	{name: "message", source: trap + "trap(Object.prototype, 'message')"},
	{name: "code", source: trap + "trap(Object.prototype, 'code')"},
	{name: "depth and other options", source: trap + "trap(Object.prototype, 'depth', 'showHidden', 'compact', 'colors', 'sorted', 'getters', 'breakLength', 'customInspect', 'maxArrayLength')"},
	{name: "fields of the prelude's records", source: trap + "trap(Object.prototype, 'due', 'order', 'at', 'ref', 'id', 'handle', 'callback', 'args', 'repeat', 'record', 'next', 'children', 'count', 'text', 'later', 'done')"},
	{name: "indexes", source: trap + "trap(Object.prototype, '0', '1', '2', '3', '4', '5')"},
	{name: "indexes of arrays", source: trap + "trap(Array.prototype, '0', '1', '2', '3', '4', '5')"},
	{name: "length", source: trap + "trap(Object.prototype, 'length')"},
	{name: "then", source: "Object.prototype.then = function (yes) { yes('evil') }"},
	{name: "then as an accessor", source: "Object.defineProperty(Object.prototype, 'then', { get() { return yes => yes('evil') } })"},
	{name: ".repl_result", source: "Object.defineProperty(Object.prototype, '.repl_result', { get() { return 'evil' }, set() {} })"},
	{name: "toJSON of objects", source: "Object.prototype.toJSON = () => 'evil'", shown: map[string]string{"object": "{ a: 1 }", "array": "[ 1, 2 ]"}},
	{name: "toJSON of arrays", source: "Array.prototype.toJSON = () => 'evil'", shown: map[string]string{"object": "{ a: 1 }", "array": "[ 1, 2 ]"}},
	{name: "toJSON of strings and numbers", source: "String.prototype.toJSON = Number.prototype.toJSON = () => 'evil'"},
	{name: "toString and valueOf", source: "Object.prototype.toString = Object.prototype.valueOf = Array.prototype.toString = () => 'evil'"},
	{name: "toPrimitive", source: "Object.prototype[Symbol.toPrimitive] = Number.prototype[Symbol.toPrimitive] = String.prototype[Symbol.toPrimitive] = () => 'evil'"},
	{name: "toStringTag", source: "Object.prototype[Symbol.toStringTag] = 'evil'", shown: map[string]string{
		"line": "plain Object [evil] { a: 1 }"}},
	{name: "constructor", source: "Object.prototype.constructor = class Evil {}", shown: map[string]string{"line": "plain Evil <[Object: null prototype] {}> { a: 1 }"}},
	{name: "constructor of arrays", source: "Array.prototype.constructor = class Evil {}"},
	{name: "constructor of errors", source: "Error.prototype.constructor = class Evil {}"},
	{name: "custom inspection", source: "Object.prototype[Symbol.for('nodejs.util.inspect.custom')] = () => 'evil'", shown: map[string]string{"line": "plain evil"}},
	{name: "hasInstance", source: "Object.defineProperty(Error, Symbol.hasInstance, { value: () => true }); Object.defineProperty(Function.prototype, Symbol.iterator, { value: 1 })"},
	{name: "iterators", source: "Array.prototype[Symbol.iterator] = String.prototype[Symbol.iterator] = Map.prototype[Symbol.iterator] = function* () { yield 'evil' }"},
	{name: "next", source: "for (const it of [[].values(), new Map().entries(), new Set().values()]) Object.getPrototypeOf(it).next = () => ({ done: false, value: 'evil' })"},
	{name: "species", source: "for (const C of [Array, Promise, Map, Set, RegExp, ArrayBuffer]) Object.defineProperty(C, Symbol.species, { get() { return function () { return { evil: 1 } } } })"},
	{name: "isConcatSpreadable", source: "Array.prototype[Symbol.isConcatSpreadable] = Object.prototype[Symbol.isConcatSpreadable] = true"},
	{name: "array methods", source: "for (const k of ['push', 'pop', 'map', 'join', 'concat', 'slice', 'splice', 'sort', 'forEach', 'indexOf', 'includes', 'shift', 'filter']) Array.prototype[k] = () => 'evil'"},
	{name: "call, apply and bind", source: "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = () => 'evil'"},
	{name: "toString of functions", source: "Function.prototype.toString = () => 'evil'"},
	{name: "prototype of functions", source: "Object.setPrototypeOf(Function.prototype, { get name() { return 'evil' }, get call() { return () => 'evil' } })"},
	{name: "own call of methods", source: "for (const f of [JSON.stringify, Reflect.apply, Map.prototype.get, String.prototype.slice, Object.keys, console.log]) f.call = f.apply = f.bind = () => 'evil'"},
	{name: "prototype of arrays", source: "Object.setPrototypeOf(Array.prototype, { __proto__: Object.prototype, evil: 1, toJSON() { return 'evil' } })", shown: map[string]string{"object": "{ a: 1 }", "array": "[ 1, 2 ]"}},
	{name: "prototype of errors", source: "Object.setPrototypeOf(Error.prototype, { get stack() { return 'evil' }, get cause() { return 'evil' } })"},
	{name: "promise then", source: "Promise.prototype.then = function (yes) { yes && yes('evil'); return this }; Promise.prototype.catch = Promise.prototype.finally = () => 'evil'"},
	{name: "promise constructor", source: "Object.defineProperty(Promise.prototype, 'constructor', { get() { return function (run) { run(() => {}, () => {}); this.then = () => 'evil' } } })"},
	{name: "promise statics", source: "Promise.resolve = Promise.reject = Promise.all = () => 'evil'; globalThis.Promise = class Evil {}"},
	{name: "prepareStackTrace", source: "Error.prepareStackTrace = (e, sites) => 'evil'", shown: map[string]string{"error": "evil"}},
	{name: "prepareStackTrace that throws", source: "Error.prepareStackTrace = () => { throw 'evil' }", shown: map[string]string{"error": "Error: m"}},
	{name: "prepareStackTrace in the prototypes", source: "Object.prototype.prepareStackTrace = Function.prototype.prepareStackTrace = () => 'evil'"},
	{name: "captureStackTrace", source: "Error.captureStackTrace = e => { e.stack = 'evil' }"},
	{name: "stackTraceLimit", source: "Error.stackTraceLimit = 0", shown: map[string]string{"error": "Error: m"}},
	{name: "stackTraceLimit as an accessor", source: "Object.defineProperty(Error, 'stackTraceLimit', { get() { return 'evil' } })", shown: map[string]string{"error": "Error: m"}},
	{name: "name of errors", source: "Error.prototype.name = 'Evil'", shown: map[string]string{"error": "Evil: m\n    at <anonymous>"}},
	{name: "toString of errors", source: "Error.prototype.toString = () => 'evil'"},
	{name: "call sites", source: "Error.prepareStackTrace = (e, s) => s; const site = Object.getPrototypeOf(new Error('').stack[0]); delete Error.prepareStackTrace; for (const k of Object.getOwnPropertyNames(site)) try { site[k] = () => 'evil' } catch {}"},
	{name: "JSON", source: "JSON.stringify = JSON.parse = () => 'evil'; globalThis.JSON = { stringify: () => 'evil' }"},
	{name: "strings", source: "for (const k of Object.getOwnPropertyNames(String.prototype)) if (k !== 'constructor' && k !== 'length') String.prototype[k] = () => 'evil'"},
	{name: "regular expressions", source: "for (const k of ['exec', 'test', Symbol.replace, Symbol.split, Symbol.match, Symbol.matchAll, Symbol.search]) RegExp.prototype[k] = () => 'evil'; for (const k of ['flags', 'source', 'global']) Object.defineProperty(RegExp.prototype, k, { get: () => 'evil' })"},
	{name: "replace and split hooks", source: "Object.prototype[Symbol.replace] = Object.prototype[Symbol.split] = String.prototype[Symbol.replace] = () => 'evil'"},
	{name: "Reflect", source: "for (const k of Object.getOwnPropertyNames(Reflect)) Reflect[k] = () => 'evil'"},
	{name: "Object", source: "for (const k of Object.getOwnPropertyNames(Object)) try { Object[k] = () => 'evil' } catch {}"},
	{name: "Math and Number", source: "for (const C of [Math, Number, Number.prototype]) for (const k of Object.getOwnPropertyNames(C)) if (k !== 'constructor') try { C[k] = () => 'evil' } catch {}"},
	{name: "dates", source: "Date.now = () => 666; Date.prototype.toISOString = Date.prototype.getTime = () => 'evil'; globalThis.Date = class Evil {}"},
	{name: "collections", source: "for (const C of [Map, Set, WeakMap, WeakSet]) for (const k of Object.getOwnPropertyNames(C.prototype)) if (k !== 'constructor') Object.defineProperty(C.prototype, k, { value: () => 'evil' })"},
	{name: "typed arrays", source: "const T = Object.getPrototypeOf(Uint8Array.prototype); for (const k of Object.getOwnPropertyNames(T)) if (k !== 'constructor') Object.defineProperty(T, k, { value: () => 'evil' })"},
	{name: "symbols", source: "Symbol.for = () => 'evil'; Symbol.prototype.toString = () => 'evil'; Object.defineProperty(Symbol.prototype, 'description', { get: () => 'evil' })"},
	{name: "Proxy", source: "globalThis.Proxy = function () { return { evil: 1 } }"},
	{name: "console methods", source: "for (const k of Object.keys(console)) console[k] = () => 'evil'", shown: map[string]string{"line": ""}},
	{name: "console replaced", source: "{ const real = console.log; globalThis.console = { log() { real('evil') } } }", shown: map[string]string{"line": "evil"}},
	{name: "console declared", source: "{ const real = globalThis.console.log; var print = () => real('evil') } let console = { log() { print() } }", shown: map[string]string{"line": "evil"}},
	{name: "Error declared", source: "class Error extends TypeError { constructor() { super('evil') } }", shown: map[string]string{"error": "TypeError: evil\n    at <anonymous>"}},
	{name: "console behind an accessor", source: "{ const real = console; Object.defineProperty(globalThis, 'console', { get() { real.log('evil'); return real } }) }"},
	{name: "console in the prototype of the global object", source: "delete globalThis.console; Object.setPrototypeOf(globalThis, { __proto__: Object.prototype, console: { log() {} } })", shown: map[string]string{"line": ""}},
	{name: "the global object's prototype is a proxy", source: "Object.setPrototypeOf(globalThis, new Proxy({}, { get: () => 'evil', has: () => true }))"},
	{name: "names of the prelude", source: "for (const k of ['host', 'entry', 'emit', 'print', 'inspectWith', 'resultText', 'global', 'ReflectApply', 'newList', 'hasOwn', 'JSONStringify', 'daybook', 'undefined']) try { Object.defineProperty(globalThis, k, { get() { return 'evil' } }) } catch {}"},
	{name: "names of the prelude, declared", source: "let host = 'evil', entry = 'evil', emit = 'evil', print = 'evil', hasOwn = () => false, newList = () => ['evil']", harmless: true},
	{name: "globals replaced", source: "for (const k of ['Object', 'Array', 'String', 'Number', 'Map', 'Set', 'WeakMap', 'RegExp', 'Reflect', 'Symbol', 'Function', 'Boolean', 'BigInt', 'TypeError', 'RangeError']) globalThis[k] = function Evil() { return { evil: 1 } }"},
	{name: "timers replaced", source: "globalThis.setTimeout = globalThis.setInterval = globalThis.queueMicrotask = f => f('evil')"},
	{name: "timers of this realm", source: "const T = Object.getPrototypeOf(setTimeout(() => {})); for (const k of Object.getOwnPropertyNames(T)) if (k !== 'constructor') T[k] = () => 'evil'"},
	{name: "an interval that prints", source: "setInterval(() => console.log('evil'), 0).unref()"},
	{name: "a timeout that poisons", source: "setTimeout(() => { Object.prototype.toJSON = () => 'evil' }, 1).unref()"},
	{name: "microtasks after the value", source: "(async () => { for (let i = 0; i < 20; i++) await null; JSON.stringify = console.log = () => 'evil'; Object.prototype.value = 'evil' })()"},
	{name: "microtasks without an end of their own", source: "{ let n = 0; const again = () => { if (n++ < 50) queueMicrotask(again); else Error.captureStackTrace = () => 'evil' }; again() }"},
	{name: "a finalizer that poisons", source: "var registry = new FinalizationRegistry(() => { Object.prototype.toJSON = () => 'evil' }); registry.register({}, 1)"},
	{name: "a finalizer of something that still lives", source: "var kept = {}, registry = new FinalizationRegistry(() => { JSON.stringify = console.log = () => 'evil' }); registry.register(kept, 1)"},
	{name: "accessors as names of methods", source: "for (const f of [console.log, JSON.stringify]) Object.defineProperty(f, 'name', { get() { JSON.stringify = () => 'evil'; return 'f' } })"},
	{name: "accessors as lengths of methods", source: "Object.defineProperty(Array.prototype.map, 'length', { get() { JSON.stringify = () => 'evil'; return 1 } })"},
	{name: "an object as a name", source: "Object.defineProperty(Array.prototype.map, 'name', { value: { toString() { JSON.stringify = () => 'evil' } } })"},
	{name: "async functions", source: "const A = Object.getPrototypeOf(async () => {}); A.call = A.then = () => 'evil'; Object.setPrototypeOf(A, { evil: 1 })"},
	{name: "async generators", source: "const G = Object.getPrototypeOf(Object.getPrototypeOf((async function* () {})())); for (const k of Object.getOwnPropertyNames(G)) Object.defineProperty(G, k, { value: () => 'evil' })"},
	{name: "frozen prototypes", source: "for (const C of [Object, Array, Function, Error, String, Promise]) Object.freeze(C.prototype)"},
	{name: "frozen console", source: "Object.freeze(console); Object.freeze(globalThis.JSON)"},
	{name: "an Intl of one's own", source: "globalThis.Intl = { evil: 1 }; Number.prototype.toLocaleString = () => 'evil'"},
	{name: "group indentation", source: "console.group(); console.group('g')", shown: map[string]string{"line": "    plain { a: 1 }"}, harmless: true},
	{name: "mcp replaced", source: "Object.defineProperty(globalThis, 'mcp', { value: { evil: 1 } })"},
	{name: "a proxy of the global object's functions", source: "globalThis.Error = new Proxy(Error, { construct: () => ({ evil: 1 }) })", shown: map[string]string{"error": "Uncaught { evil: 1 }"}},
	{name: "getters of user globals", source: "Object.defineProperty(globalThis, 'x', { get() { Object.prototype.toJSON = () => 'evil'; return 1 }, configurable: true })"},
	{name: "read-only globals", source: "Object.defineProperty(globalThis, 'total', { value: 666 })"},
	{name: "setters of user globals", source: "Object.defineProperty(globalThis, 'x', { set() { JSON.stringify = () => 'evil' } })"},
	{name: "a declaration of a run that threw", source: "let JSON = { stringify: () => 'evil' }, console = { log() {} }; throw 1", ends: true},
	{name: "a declaration that was never reached", source: "throw 1; let console, JSON", ends: true},
	{name: "a declaration of a run that never settled", source: "class Error extends TypeError {} await new Promise(() => {})", ends: true},
	{name: "a function in place of a built-in object", source: "function Error() { return { evil: 1 } }", shown: map[string]string{"error": "Uncaught { evil: 1 }"}},
	{name: "a var in place of a built-in object", source: "(0, eval)('var console = { log() {} }')", shown: map[string]string{"line": ""}},
	{name: "a declaration by indirect eval", source: "(0, eval)('let console = { log() {} }')", harmless: true},
	{name: "globalThis declared", source: "let globalThis = { console: { log() {} } }"},
	{name: "eval and arguments declared", source: "let arguments = ['evil']; var evil = eval", harmless: true},
	{name: "a class in place of a function of the language", source: "class parseInt {} class isNaN {}"},
	{name: "statics of regular expressions", source: "/(evil)/.exec('evil'); RegExp.input = 'evil'", harmless: true},
	{name: "counters and open labels", source: "console.count('plain'); console.time('plain'); console.count()", harmless: true},
	{name: "what globalThis looks like", source: "globalThis.toJSON = globalThis.then = globalThis.valueOf = globalThis.toString = () => 'evil'; globalThis[Symbol.toStringTag] = 'evil'; globalThis[Symbol.for('nodejs.util.inspect.custom')] = () => 'evil'", harmless: true},
	{name: "private names stamped on built-in objects", source: "class Base { constructor(o) { return o } } class Stamp extends Base { #evil = 1 } for (const o of [JSON, Object.prototype, Array.prototype, console]) new Stamp(o)", harmless: true},
	{name: "private names that are stamped by a proxy", source: "class Back { constructor(o) { return o } } class Mark extends Back { #m = 1; static has(o) { return #m in o } } new Mark(new Proxy(console, { get() { return () => 'evil' } }))", harmless: true},
	{name: "names of a whole environment", source: "globalThis.process = { stdout: { write() {} } }; globalThis.require = globalThis.Buffer = globalThis.module = () => 'evil'", harmless: true},
	{name: "a finalizer by a subclass", source: "class Registry extends FinalizationRegistry {} var registry = new Registry(() => console.log('evil')); Reflect.apply(FinalizationRegistry.prototype.register, registry, [{}, 1])", shown: map[string]string{"line": "evil"}},
	{name: "timers that cancel themselves", source: "{ const t = setInterval(() => { clearInterval(t); Object.prototype.toJSON = () => 'evil' }, 0).unref(); t.refresh() }"},
	{name: "an immediate without a reference", source: "setImmediate(() => { console.log = () => {} }).unref()"},
	{name: "errors with a source of their own name", source: "(0, eval)('function helper() { throw new Error(1) }\\n//# sourceURL=main.ts#00000000')", harmless: true},
	{name: "a promise that is rejected and kept", source: "var kept = Promise.reject(new Error('evil')); kept.catch(() => {})", harmless: true},
	{name: "a pending await", source: "var go; (async () => { await new Promise(r => go = r); console.log('evil') })()", harmless: true},
	{name: "functions that look built-in", source: "Object.defineProperty(console, 'log', { value: console.log.bind(console, 'evil') })", shown: map[string]string{"line": "evil plain { a: 1 }"}},
}

// probes are the scripts of later runs, by name. The last ones run only in the nightly tier.
var probes = []struct{ name, source string }{
	{"line", "console.log('plain', { a: 1 }); 1 + 1"}, {"object", "({ a: 1 })"}, {"error", "throw new Error('m')"},
	{"string", "'x'"}, {"array", "[1, 2]"},
}

var position = regexp.MustCompile(`:\d+:\d+`)

// comesTo runs source and returns the text of its result or error without positions. For the probe
// that prints, the last line of output follows.
func comesTo(tb testing.TB, heap []byte, probe, source string) string {
	tb.Helper()
	r, lines := print(tb, v8.Config{Heap: heap}, source)
	text := textOf(r)
	if probe == "line" {
		text += ": "
		if len(lines) > 0 {
			text += lines[len(lines)-1].Text
		}
	}
	return position.ReplaceAllString(text, "")
}

// Either the outcome of a run does not depend on what an earlier run did to the built-in objects, or
// the heap is reported as not pristine. What the run itself did to them has an effect only where the
// language requires it.
func TestPoisonedHeaps(t *testing.T) {
	if len(poisons) < 60 {
		t.Fatalf("only %d kinds of poison", len(poisons))
	}
	probes := probes[:tier.Choose(3, len(probes))]
	want := map[string]string{}
	for _, p := range probes {
		want[p.name] = comesTo(t, nil, p.name, p.source)
	}
	held, laterRuns := 0, 0
	for _, p := range poisons {
		heap := saved(t, p.source)
		c := inspect(t, heap)
		trusted := c.Changes == 0 && c.Globals.Count == 0 && c.Timers == v8.CarriedTimers{} && !c.Finalizers
		if !c.Checked || trusted != p.harmless {
			t.Errorf("%s: harmless %t, found %+v", p.name, p.harmless, c)
		}
		for _, probe := range probes {
			if trusted || tier.Choose(false, true) {
				later := comesTo(t, heap, probe.name, probe.source)
				laterRuns++
				if trusted && later != want[probe.name] {
					t.Errorf("%s: a later run of %s from a pristine heap comes to %q", p.name, probe.source, later)
				}
				if later == want[probe.name] {
					held++
				}
			}
			if p.ends {
				continue
			}
			expected := want[probe.name]
			if shown, ok := p.shown[probe.name]; ok {
				expected = shown
				if probe.name == "line" {
					expected = "2: " + shown
				}
			}
			if now := comesTo(t, nil, probe.name, p.source+"\n;"+probe.source); now != expected {
				t.Errorf("%s: %s comes to %q, want %q", p.name, probe.source, now, expected)
			}
		}
	}
	t.Logf("%d of %d later runs come to the same as in a fresh isolate", held, laterRuns)
}

// The prelude drops what it holds during a run before the heap is saved, because V8 does not save a
// registry with pending callbacks.
func TestRegistryOfObjectsOfTheRun(t *testing.T) {
	heap := saved(t, "var registry = new FinalizationRegistry(() => { ran = true }); var ran = false; registry.register(mcp, 1)")
	if r, _ := print(t, v8.Config{Heap: heap}, "ran"); textOf(r) != "true" {
		t.Errorf("the callback ran: %s", textOf(r))
	}
}
