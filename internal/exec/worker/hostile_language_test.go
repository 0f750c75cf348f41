package worker_test

import "strings"

// hostileScript is a script with the verdicts that it may end with.
type hostileScript struct {
	name, code string
	want       []string
}

var (
	ends = []string{completed}
	// The script ends within the limits on some machines and exceeds them on others.
	finite  = []string{completed, exception, timedOut, memory, died}
	throws  = []string{exception}
	refused = []string{syntax}
)

// Scripts that use features of the language to attack the code that evaluates them, prints their
// values and saves their heaps.
var hostileLanguage = []hostileScript{
	// Prototypes and globals.
	{"prototype pollution by literal", "({}).__proto__.x = 1; ({}).x", ends},
	{"prototype pollution by JSON", `const o = JSON.parse('{"__proto__": {"x": 1}}'); Object.assign({}, o).x`, ends},
	{"prototype of everything is null", "for (const n of Object.getOwnPropertyNames(globalThis)) { try { Object.setPrototypeOf(globalThis[n].prototype, null) } catch {} } 1", ends},
	{"prototype of the global", "Object.setPrototypeOf(globalThis, new Proxy({}, {get() { throw 1 }, has() { return true }})); 1", ends},
	{"every global deleted", "for (const n of Object.getOwnPropertyNames(globalThis)) delete globalThis[n]; 1", throws},
	{"every global replaced", "for (const n of Object.getOwnPropertyNames(globalThis)) { try { globalThis[n] = null } catch {} } [1, {a: 2}]", ends},
	{"every method replaced", "for (const n of Object.getOwnPropertyNames(globalThis)) { const p = globalThis[n]?.prototype; if (p) for (const m of Reflect.ownKeys(p)) { try { p[m] = () => { throw 'forged' } } catch {} } } ({a: [1]})", throws},
	{"every prototype frozen", "for (const n of Object.getOwnPropertyNames(globalThis)) { try { Object.freeze(globalThis[n].prototype); Object.freeze(globalThis[n]) } catch {} } console.log([1], new Map); 1", ends},
	{"global frozen", "Object.freeze(globalThis); 1", ends},
	{"globalThis replaced", "globalThis = {}; 1", ends},
	{"undefined shadowed", "{ let undefined = 1; undefined }", ends},
	{"console replaced", "console.log = () => { for (;;); }; console = null; 1", ends},
	{"console methods with another this", "console.log.call(null, 1); Reflect.apply(console.error, new Proxy({}, {}), [2]); 1", ends},
	{"console as constructor", "new console.log()", throws},
	{"timers replaced", "setTimeout = clearTimeout = queueMicrotask = null; 1", ends},
	{"Object.prototype.then", "Object.prototype.then = function (f) { f('forged') }; ({})", ends},
	{"Object.prototype.get", "Object.prototype.get = () => 'forged'; Object.defineProperty({}, 'x', {value: 1})", throws},
	{"Object.prototype.value", "Object.prototype.value = 'forged'; Object.prototype.done = true; console.log([...[1]]); 1", ends},
	{"Object.prototype numbers", "for (let i = 0; i < 100; i++) Object.defineProperty(Object.prototype, i, {get() { throw i }, set() {}}); console.log([,,1], {a: 1}); 1", ends},
	{"Symbol.iterator gone", "delete Array.prototype[Symbol.iterator]; console.log('a', {b: [1]}, new Map([])); 1", throws},
	{"Symbol.iterator endless", "Array.prototype[Symbol.iterator] = function* () { for (;;) yield 1 }; console.log({a: [1]}, 'x'); 1", ends},
	{"Symbol.toStringTag throws", "Object.defineProperty(Object.prototype, Symbol.toStringTag, {get() { throw 'tag' }}); console.log({a: 1}); ({a: 1})", throws},
	{"Symbol.toPrimitive endless", "({[Symbol.toPrimitive]() { for (;;); }}); 1", ends},
	{"Symbol.hasInstance", "Object.defineProperty(Error, Symbol.hasInstance, {value: () => true}); throw 1", throws},
	{"Symbol.species of arrays", "class A extends Array { static get [Symbol.species]() { return function (n) { return new Proxy([], {set() { throw 'species' }}) } } } new A(1, 2, 3).map(x => x)", ends},
	{"Symbol.species of promises", "class P extends Promise { static get [Symbol.species]() { return class { constructor(f) { f(() => {}, () => {}) } } } } await P.resolve(1).then(x => x)", ends},
	{"Symbol.species of buffers", "const b = new ArrayBuffer(8); b.constructor = {[Symbol.species]: function () { return b }}; b.slice(0, 4)", throws},
	{"Symbol.species shrinks", "const b = new ArrayBuffer(8); const t = new Uint8Array(b); t.constructor = {[Symbol.species]: function () { return new Uint8Array(1) }}; t.slice()", throws},
	{"Symbol.isConcatSpreadable", "const o = {[Symbol.isConcatSpreadable]: true, length: 2 ** 53 - 1}; [1].concat(o)", throws},
	{"Symbol.unscopables", "with ({get [Symbol.unscopables]() { throw 'unscopable' }, x: 1}) { x }", throws},

	// Getters, proxies and code that inspects them.
	{"getters on everything", "const o = {}; for (const k of ['message', 'stack', 'name', 'constructor', 'then', 'toJSON', 'toString', 'length', 'cause']) Object.defineProperty(o, k, {get() { throw k }, enumerable: true}); o", ends},
	{"getters on everything, thrown", "const o = {}; for (const k of ['message', 'stack', 'name', 'constructor', 'then', 'toString']) Object.defineProperty(o, k, {get() { throw k }}); throw o", throws},
	{"getters on everything, logged", "const o = {}; for (const k of ['message', 'stack', 'name', 'constructor', 'length', 'size']) Object.defineProperty(o, k, {get() { throw k }, enumerable: true}); console.log(o, [o], new Error(o)); 1", ends},
	{"getters on an error", "const e = new Error('x'); for (const k of ['message', 'stack', 'name', 'cause', 'constructor']) Object.defineProperty(e, k, {get() { throw k }}); console.log(e); throw e", throws},
	{"a proxy for every trap, logged", "const p = new Proxy(function () {}, new Proxy({}, {get() { return () => { throw 'trap' } }})); console.log(p, [p], {p}, new Map([[p, p]])); 1", ends},
	{"a proxy for every trap, thrown", "throw new Proxy(function () {}, new Proxy({}, {get() { return () => { throw 'trap' } }}))", throws},
	{"a proxy for every trap, as a result", "new Proxy(function () {}, new Proxy({}, {get() { return () => { throw 'trap' } }}))", ends},
	{"a revoked proxy as a result", "const r = Proxy.revocable({}, {}); r.revoke(); r.proxy", ends},
	{"a revoked proxy, thrown", "const r = Proxy.revocable({}, {}); r.revoke(); throw r.proxy", throws},
	{"a revoked proxy, logged and in an array", "const r = Proxy.revocable([], {}); r.revoke(); console.log(r.proxy, [r.proxy]); 1", ends},
	{"a proxy that is its own prototype", "const p = new Proxy({}, {getPrototypeOf() { return p }}); console.log(p); p instanceof Object", throws},
	{"a proxy whose keys never end", "Object.keys(new Proxy({}, {ownKeys() { const a = []; for (let i = 0; i < 2e6; i++) a.push('k' + i); return a }})).length", finite},
	{"a proxy in a proxy in a", "let p = {}; for (let i = 0; i < 2e4; i++) p = new Proxy(p, {}); console.log(Object.keys(p)); 1", throws},
	{"a function that looks native", "function f() {} f.toString = () => 'function f() { [native code] }'; f", ends},
	{"a class with throwing statics", "class C { static get name() { throw 1 } static get prototype2() { throw 2 } } console.log(C); C", throws},
	{"toString that grows", "const o = {toString() { return 'x'.repeat(1e8) + o.x }, x: 1}; console.log(`${o}`.length); 1", ends},
	{"toString that is an object", "const o = {toString() { return {} }, valueOf() { return {} }}; `${o}`", throws},
	{"valueOf that sorts itself", "let a = []; for (let i = 0; i < 100; i++) a.push({valueOf() { a.sort(); return i }}); a[0] + 1", ends},
	{"inspect with a hostile depth", "console.dir({a: {b: {}}}, {depth: {valueOf() { for (;;); }}, get colors() { throw 1 }}); 1", []string{timedOut, memory, died}},
	{"console.table of a proxy", "console.table(new Proxy([{a: 1}], {get(t, k) { if (k === 'length') return 1e9; return t[k] }})); 1", ends},
	{"console.log of format bombs", "console.log('%s'.repeat(1e5), ...Array(1000).fill({toString() { throw 'format' }})); 1", throws},
	{"console.group without end", "for (let i = 0; i < 1e5; i++) console.group(); console.log('x'); 1", ends},
	{"console.count of symbols", "console.count(Symbol('x')); 1", throws},

	// Errors and their stacks.
	{"Error.stackTraceLimit is huge", "Error.stackTraceLimit = 1e9; (function f(n) { if (n) f(n - 1); else throw new Error('x') })(5000)", throws},
	{"Error.stackTraceLimit is an object", "Error.stackTraceLimit = {valueOf() { throw 1 }}; throw new Error('x')", throws},
	{"Error.captureStackTrace on a proxy", "const o = new Proxy({}, {defineProperty() { throw 'trap' }}); Error.captureStackTrace(o)", throws},
	{"prepareStackTrace returns a bomb", "Error.prepareStackTrace = (e, frames) => ({toString() { throw frames }}); throw new Error('x')", throws},
	{"prepareStackTrace reads call sites", "Error.prepareStackTrace = (e, f) => f.map(s => [s.getThis(), s.getFunction(), s.getFileName(), s.getEvalOrigin()]); let s = new Error('x').stack; typeof s", ends},
	{"a stack of a million lines", "const e = new Error('x'); e.stack = 'at x (cell.ts:1:1)\\n'.repeat(1e6); throw e", []string{exception, timedOut, memory, died}},
	{"a stack that forges positions", "const e = new Error('x'); e.stack = 'Error: x\\n    at cell.ts:999999999999999999999:-1\\n    at cell.ts:0:0\\n at (cell.ts:1e9:NaN)'; throw e", throws},
	{"causes in a circle", "const a = new Error('a'), b = new Error('b', {cause: a}); a.cause = b; console.log(a); throw a", throws},
	{"an aggregate of itself", "const e = new AggregateError([], 'x'); e.errors.push(e); console.log(e); throw e", throws},
	{"ten thousand causes", "let e = new Error('x'); for (let i = 0; i < 1e4; i++) e = new Error('x', {cause: e}); throw e", []string{unsaved}}, // V8's serializer gives up
	{"null is thrown", "throw null", throws},
	{"a symbol is thrown", "throw Symbol('x')", throws},
	{"thrown while unwinding", "try { throw 1 } finally { try { throw 2 } finally { throw 3 } }", throws},
	{"an error in every microtask", "for (let i = 0; i < 1000; i++) queueMicrotask(() => { throw i }); 1", throws},
	{"unhandled, then handled", "const p = Promise.reject(1); setTimeout(() => p.catch(() => {}), 5); 1", throws},
	{"DOMException of itself", "throw globalThis.DOMException ? new DOMException('x', 'AbortError') : new Error('x')", throws},

	// Control flow.
	{"a label for each letter", "a: b: c: d: e: for (;;) { for (;;) { break a } } 1", ends},
	{"ten thousand labels", strings.Repeat("l: ", 1) + "eval(Array.from({length: 10000}, (_, i) => 'l' + i + ':').join('') + '1')", throws},
	{"continue in finally without end", "for (;;) { try { continue } finally { continue } }", []string{timedOut}},
	{"return at the top", "return 1", refused},
	{"yield at the top", "yield 1", refused},
	{"await in a parameter", "async function f(x = await 1) {}", refused},
	{"generator that runs itself", "const g = (function* () { g.next() })(); g.next()", throws},
	{"generator returned without end", "const g = (function* () { for (;;) { try { yield 1 } finally { continue } } })(); g.next(); g.return(1); g.return(2); 1", ends},
	{"generator kept in the middle", "globalThis.g = (function* () { try { yield 1 } finally { console.log('never') } })(); g.next().value", ends},
	{"async generator left hanging", "globalThis.g = (async function* () { await new Promise(() => {}); yield 1 })(); g.next(); 1", ends},
	{"for await over a thenable bomb", "for await (const x of {[Symbol.asyncIterator]() { return {next: () => ({then(f) { f({done: false, value: 1}) }})} }}) ;", []string{timedOut, memory}},
	{"for await over itself", "const it = {[Symbol.asyncIterator]() { return it }, next() { return Promise.resolve({get done() { throw 'done' }}) }}; for await (const x of it) ;", throws},
	{"async iterator that never returns", "for await (const x of {[Symbol.asyncIterator]() { return {next: () => Promise.resolve({done: false}), return: () => new Promise(() => {})} }}) break", []string{never}},
	{"await a thenable that calls itself", "const t = {then(f) { f(t) }}; await t", []string{timedOut, memory}},
	{"await a getter that throws", "await {get then() { throw 'then' }}", throws},
	{"a promise that resolves to itself", "let r; const p = new Promise(f => r = f); r(p); await p", throws},
	{"a subclass that resolves late", "class P extends Promise { constructor(f) { super(f); for (let i = 0; i < 1e5; i++); } then(a, b) { return super.then(a, b) } } await P.resolve(1)", ends},
	{"top-level await after top-level await", "await 1; await Promise.all(Array(1e4).fill(0).map(async () => { await 1 })); 2", ends},
	{"disposable resources", "globalThis.SuppressedError ? 1 : 2", ends},

	// Text that is evaluated as code.
	{"eval of eval", "let s = '1'; for (let i = 0; i < 12; i++) s = 'eval(' + JSON.stringify(s) + ')'; s.length < 1e6 ? eval(s) : 0", ends},
	{"Function of a comment", "new Function('/*', '*/){')()", throws},
	{"Function that closes itself", "new Function('}); throw 1; (function () {')()", throws},
	{"eval redeclares everything", "for (let i = 0; i < 1e4; i++) (0, eval)('var v' + i + ' = ' + i); v9999", ends},
	{"eval of a let twice", "eval('let x = 1'); eval('let x = 2'); typeof x", ends},
	{"generator function constructor", "Object.getPrototypeOf(function* () {}).constructor('for (;;) yield 1')().next().value", ends},
	{"async function constructor", "await Object.getPrototypeOf(async function () {}).constructor('return await 7')()", ends},
	{"constructor of a host function", "console.log.constructor('return globalThis')() === globalThis", ends},
	{"caller and arguments", "(function f() { return f.caller })()", ends},
	{"__defineGetter__ on the global", "__defineGetter__('Array', () => { throw 'Array' }); console.log({a: 1}); 1", throws},
	{"__lookupGetter__ of __proto__", "({}).__lookupGetter__('__proto__').call(console.log).constructor.name", ends},
	{"import.meta", "import.meta.url", refused},
	{"export", "export const x = 1", refused},
	{"import of data", "await import('data:text/javascript,1')", throws},
	{"import of a proxy", "await import(new Proxy({}, {get() { throw 'specifier' }}))", throws},
	{"import with attributes", "await import('x', {get with() { throw 'with' }})", throws},
	{"sourceURL with a line end", "//# sourceURL=a\\nb\nthrow new Error('x')", throws},
	{"a hundred thousand variables", "eval('var ' + Array.from({length: 1e5}, (_, i) => 'a' + i).join()); 1", []string{completed, timedOut, memory, died}},
	{"a function of sixty-five thousand parameters", "new Function(...Array.from({length: 65534}, (_, i) => 'a' + i), 'return 1')()", throws},
	{"a class of ten thousand members", "eval('(class {' + Array.from({length: 1e4}, (_, i) => '#p' + i + ' = 1;').join('') + '})'); 1", ends},
	{"a switch of ten thousand cases", "eval('switch (1) {' + Array.from({length: 1e4}, (_, i) => 'case ' + i + ': ' + i + '; break;').join('') + '}')", ends},
	{"V8's own syntax", "%DebugPrint(1)", refused},
	{"hashbang", "#!/bin/sh\n1", ends},
	{"HTML comments", "<!-- 1\n2\n--> 3", ends},
}
