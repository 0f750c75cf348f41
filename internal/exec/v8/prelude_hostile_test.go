package v8_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/internal/dev/tier"
	"daybook/internal/exec/v8"
)

// poisonEverything defines poison(). It replaces each function and accessor that user code can reach
// by one that throws. On Object.prototype and Array.prototype it defines every field that the prelude
// might read or write on an ordinary object. It does not replace what inspection reads from an object
// by contract: constructor, Symbol.toStringTag, and the name, message and stack of an error.
const poisonEverything = `
var touched = '';
function poison() {
	const { getOwnPropertyDescriptor, defineProperty, getPrototypeOf } = Object, { ownKeys } = Reflect, Thrown = RangeError;
	const kept = ['constructor', 'prototype', 'name', 'message', 'stack', 'length', 'caller', 'arguments', '__proto__', Symbol.toStringTag];
	const queue = [globalThis, (function* () {})(), (async function* () {})(), async () => {}, [][Symbol.iterator](),
		new Map().entries(), new Set().values(), ''[Symbol.iterator](), 'a'.matchAll(/a/g), new Uint8Array(1)];
	const work = [], seen = new Set([poison]);
	for (let i = 0; i < queue.length; i++) {
		const object = queue[i];
		if ((typeof object !== 'object' && typeof object !== 'function') || object === null || seen.has(object)) continue;
		seen.add(object);
		queue.push(getPrototypeOf(object));
		for (const key of ownKeys(object)) {
			const descriptor = getOwnPropertyDescriptor(object, key);
			if (object === globalThis && (key === 'touched' || key === 'poison' || key === 'globalThis')) continue;
			if ('value' in descriptor) queue.push(descriptor.value);
			else queue.push(descriptor.get, descriptor.set);
			if (kept.includes(key)) continue;
			if (!descriptor.configurable && !descriptor.writable) continue;
			if ('value' in descriptor && typeof descriptor.value !== 'function') continue;
			work.push([object, key, descriptor]);
		}
	}
	const fields = ['0', '1', '2', '3', 'value', 'get', 'set', 'writable', 'enumerable', 'configurable', 'done', 'depth', 'showHidden', 'compact',
		'width', 'title', 'cells', 'keys', 'body', 'base', 'open', 'close', 'layout', 'next', 'children', 'kind', 'bound', 'locales', 'options', 'record',
		'due', 'order', 'at', 'ref', 'id', 'handle', 'callback', 'args', 'repeat', 'length', 'code', 'offset', 'seen', 'circular', 'toStringTag', 'join'];
	const bombs = [], prototypes = [Object.prototype, Array.prototype, Function.prototype];
	for (let i = 0; i < work.length; i++) {
		const label = String(work[i][1]);
		bombs[i] = function () { touched += label + ' '; throw new Thrown("poisoned " + label) };
	}
	const traps = fields.map(name => [name, { __proto__: null, configurable: true,
		get() { touched += 'get ' + name + ' '; return undefined }, set() { touched += 'set ' + name + ' ' } }]);
	for (let i = 0; i < work.length; i++) {
		const bomb = bombs[i], d = work[i][2];
		try {
			if (d.configurable && d.get !== undefined) defineProperty(work[i][0], work[i][1], { __proto__: null, configurable: true, get: bomb, set: d.set && bomb });
			else work[i][0][work[i][1]] = bomb;
		} catch {}
	}
	for (let p = 0; p < prototypes.length; p++) for (let i = 0; i < traps.length; i++) {
		if (p === 0 || getOwnPropertyDescriptor(prototypes[p], traps[i][0]) === undefined) defineProperty(prototypes[p], traps[i][0], traps[i][1]);
	}
	return work.length;
}
`

// hostileBody prints one value of each kind, then lets timers and promises run.
const hostileBody = `
const out = console.log, { dir, table, group, groupEnd, count, countReset, time, timeEnd, assert, warn, error, info, debug, dirxml, timeLog } = console;
const later = setTimeout, every = setInterval, soon = setImmediate, micro = queueMicrotask, stop = clearInterval, RealDate = Date, random = Math.random;
const now = Date.now, clockNow = performance.now, uuid = crypto.randomUUID.bind(crypto), values = crypto.getRandomValues.bind(crypto), { NumberFormat } = Intl;
const broken = Object.assign(new TypeError('broken', { cause: new Error('cause') }), { code: 5 });
void broken.stack; void broken.cause.stack;
const rejected = Promise.reject(4); rejected.catch(() => {});
class Point { x = 1; #y = 2 }
const samples = [
	1, -0, 'text', "it's", 5n, Symbol('s'), null, undefined, true, { a: 1, 'b-c': [1, , 'x'] }, [[[[1]]]], Array.from({ length: 120 }, (_, i) => i),
	new Map([[{ k: 1 }, new Set([1])]]), new Map([[1, 2]]).entries(), new Set([1]).values(), new WeakMap, new WeakSet, Promise.resolve(1), new Promise(() => {}), rejected,
	new Date(0), /x/gi, function f() {}, class K extends Map {}, async () => {}, function* g() {}, new Point, Object.create(null), new Uint8Array([1, 2]), new ArrayBuffer(2),
	new DataView(new ArrayBuffer(2)), Object(1), Object('s'), Object(Symbol('b')), new Proxy({ p: 1 }, {}), (function () { return arguments })(1), { get a() { return 1 } }, broken,
	'multi\nline '.repeat(20), ['multi\nline '.repeat(20)], ['\u65e5\u672c', 'a', 'b', 'c', 'd', 'e', 'f', 'g'], [1.5, 2, 3, 4, 5, 6, 7, 8],
];
const self = { s: 1 }; self.self = self; samples[samples.length] = self;
const format = new NumberFormat('de'), formatNumber = format.format;
const bytes = new Uint8Array(4), rows = [{ a: 1, b: 'x' }, { a: 2 }], mixed = [1, { z: 1 }], map = new Map([[1, { a: 2 }]]), error2 = error;
POISON
for (let i = 0; i < samples.length; i++) { out(samples[i]); out('%s|%o|%O', i, samples[i], samples[i]) }
out('%d %i %f %j %c %%', 5, 6.5, '7.5', 'json', 'css', 'rest', samples[9]);
dir(samples[9], { showHidden: true, depth: null, sorted: true, compact: 1, numericSeparator: true, getters: true });
table(rows); table(mixed); table(map); group('g', 1); warn('in'); info('in'); error2('in'); debug('in'); groupEnd();
count(); count('x'); countReset('x'); countReset('none'); time(); timeLog(); timeEnd(); timeEnd(); assert(false); assert(false, 'why', 1); dirxml(1);
out(now(), new RealDate, typeof RealDate(), clockNow(), uuid(), values(bytes), random());
later(() => out('timeout'), 2); later(out, 1, 'with', 'arguments'); soon(() => out('immediate')); micro(() => out('microtask'));
let n = 0; const handle = every(() => { out('tick'); if (++n === 2) stop(handle) }, 1);
out(formatNumber(1234.5));
(async () => { await null; out('async') })();
try { later() } catch (e) { out(e.message) }
`

// The console, timers, the clock and randomness work the same after user code changed the built-in
// objects.
func TestPoisonedBuiltins(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			source := func(poison, tail string) string {
				return poisonEverything + strings.Replace(hostileBody, "POISON", poison, 1) + tail
			}
			clean, want := print(t, mode.cfg, source("", "out('touched ' + touched)"))
			if clean.Status != v8.Completed || len(want) < 100 {
				t.Fatalf("without poison: %v %s, %d messages", clean.Status, textOf(clean), len(want))
			}
			dirty, got := print(t, mode.cfg, source("const poisoned = poison(); if (poisoned < 600) throw `only ${poisoned} poisoned`", "out('touched ' + touched)"))
			if dirty.Status != v8.Completed {
				t.Errorf("status %v, %s", dirty.Status, textOf(dirty))
			}
			for n := range want {
				if n >= len(got) || got[n] != want[n] {
					t.Fatalf("message %d\n got %q\nwant %q", n, append(got, message{})[min(n, len(got))], want[n])
				}
			}
		})
	}
}

// Results and errors of a run are the same after such a script.
func TestPoisonedResults(t *testing.T) {
	for _, test := range []struct{ value, want string }{
		{"({ a: [1, 'x', null], b: { c: true } })", `{"a":[1,"x",null],"b":{"c":true}}`},
		{"[1, 2]", "[1,2]"},
		{"'text'", "text"},
		{"5n", "5n"},
		{"held", "Map(1) { 1 => 2 }"},
		{"self", "<ref *1> { self: [Circular *1] }"},
		{"fulfilled", "[3]"},
		{"(() => { throw thrown })()", "Error: thrown"},
		{"(() => { throw plain })()", "Uncaught { code: 1 }"},
		{"refused", "Uncaught { code: 1 }"},
	} {
		for _, mode := range modes {
			source := poisonEverything + `const held = new Map([[1, 2]]), self = {}, fulfilled = Promise.resolve([3]), plain = { code: 1 }, refused = Promise.reject(plain);
				refused.catch(() => {});
				Error.stackTraceLimit = 0; const thrown = new Error('thrown');
				self.self = self; poison(); ` + test.value
			if r, _ := print(t, mode.cfg, source); textOf(r) != test.want {
				t.Errorf("%s (%s): %v %q, want %q", test.value, mode.name, r.Status, textOf(r), test.want)
			}
		}
	}
}

// Printing a value runs no code of the value except what the contract names.
func TestInspectionRunsNoUserCode(t *testing.T) {
	const source = `
		const ran = [];
		const note = name => function () { ran.push(name); return 1 };
		const traps = {};
		for (const name of Object.getOwnPropertyNames(Reflect)) traps[name] = note('trap ' + name);
		const tricky = {
			get getter() { ran.push('getter') }, set setter(v) { ran.push('setter') },
			toString: note('toString'), valueOf: note('valueOf'), toJSON: note('toJSON'), then: note('then'), inspect: note('inspect'),
			[Symbol.toPrimitive]: note('toPrimitive'), [Symbol.iterator]: note('iterator'), [Symbol.hasInstance]: note('hasInstance'),
		};
		const list = [1, 2]; Object.defineProperty(list, 0, { get: note('element'), enumerable: true });
		class Watched { get inherited() { ran.push('inherited') } static get member() { ran.push('static') } static [Symbol.hasInstance]() { ran.push('hasInstance') } }
		const map = new Map([[1, 2]]); map.entries = note('entries'); map.get = note('get'); map[Symbol.iterator] = note('map iterator');
		const date = new Date(0); date.toISOString = note('toISOString'); date.getTime = note('getTime');
		const pattern = /x/g; pattern.toString = note('pattern'); Object.defineProperty(pattern, 'flags', { get: note('flags') }); pattern.exec = note('exec');
		const bytes = new Uint8Array(2); Object.defineProperty(bytes, 'length', { get: note('length') });
		const promise = Promise.resolve(1); promise.then = note('promise then');
		const proxies = [new Proxy({ a: 1 }, traps), new Proxy([1], traps), new Proxy(function f() {}, traps), new Proxy(new Map, traps), new Proxy(new Proxy({}, traps), traps)];
		const failed = new Error('failed'); Object.defineProperty(failed, 'extra', { get: note('extra'), enumerable: true });
		const all = [tricky, list, new Watched, Watched, map, date, pattern, bytes, promise, failed, { nested: tricky }, [tricky], new Map([[tricky, tricky]]), new Set([tricky]), ...proxies];
		for (const value of all) {
			console.log(value); console.log('%o %O', value, value); console.error('x', value); console.dir(value, { showHidden: true, depth: 5 }); console.dir(value, { showProxy: true });
			console.assert(false, 'failed', value); console.group(value); console.groupEnd();
		}
		console.table([[tricky, proxies[0]]].map(row => row.map(() => 1)));
		VALUE;
	`
	for _, value := range []string{"console.log('ran: ' + ran)", "setTimeout(() => console.log('ran: ' + ran), 1); tricky", "setTimeout(() => console.log('ran: ' + ran), 1); proxies"} {
		for _, mode := range modes {
			r, got := print(t, mode.cfg, strings.Replace(source, "VALUE", value, 1))
			if r.Status != v8.Completed || len(got) == 0 || got[len(got)-1].Text != "ran: " {
				t.Errorf("%s (%s): %v %s, last message %q", value, mode.name, r.Status, textOf(r), got[max(0, len(got)-1):])
			}
		}
	}
}

// Printing a value without an end produces a limited text.
func TestInspectionTerminates(t *testing.T) {
	for i, test := range []struct {
		name, source string
		most         int // bytes printed
	}{
		{"deep object", "let o = {}; for (let i = 0; i < 1e5; i++) o = { o }; console.log(o); console.dir(o, { depth: null })", 1 << 26},
		{"deep array as a result", "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; console.log(a); a", 1 << 20},
		{"deep map and set", "let m = new Map; for (let i = 0; i < 1e5; i++) m = new Map([[new Set([m]), m]]); console.log(m)", 1 << 20},
		{"chain of causes", "let e = new Error('0'); for (let i = 0; i < 1e4; i++) e = new Error('e', { cause: e }); console.log(e)", 1 << 20},
		{"chain of prototypes", "let p = {}; for (let i = 0; i < 1e5; i++) p = Object.create(p); console.log(p)", 1 << 20},
		{"chain of proxies", "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); console.log(p)", 1 << 20},
		{"endless prototypes", "const p = new Proxy({}, { getPrototypeOf() { return p } }); console.log(Object.create(p), 'printed')", 1 << 20},
		{"shared parts", "let s = [1]; for (let i = 0; i < 40; i++) s = [s, s]; console.log(s); console.dir(s, { depth: null })", 1 << 27},
		{"long array", "console.log(Array.from({ length: 1e6 }, (_, i) => i))", 1 << 20},
		{"long array of holes", "const a = []; a.length = 4294967295; a[4e9] = 1; console.log(a)", 1 << 20},
		{"long typed array", "console.log(new Uint8Array(2e7))", 1 << 20},
		{"long buffer", "console.log(new ArrayBuffer(2e7))", 1 << 20},
		{"long string in a list", "console.log(['x'.repeat(1e7)])", 1 << 20},
		{"long text of lines", "console.log(['line\\n'.repeat(1e6)])", 1 << 22},
		{"many keys", "const o = {}; for (let i = 0; i < 1e5; i++) o['k' + i] = i; console.log(o)", 1 << 24},
		{"wide and deep", "const w = n => n ? Array.from({ length: 100 }, () => w(n - 1)) : 1; console.log(w(3))", 1 << 25},
		{"many references", "const o = {}; o.list = Array.from({ length: 2e4 }, (_, i) => ({ o })); console.log(o)", 1 << 20},
	} {
		for j, mode := range modes {
			if i%len(modes) != j && !tier.Nightly() {
				continue // the normal tier has one mode for each
			}
			t.Run(test.name+"/"+mode.name, func(t *testing.T) {
				cfg := mode.cfg
				cfg.HeapLimit = 256 << 20
				r, got := print(t, cfg, test.source)
				size := 0
				for _, m := range got {
					size += len(m.Text)
				}
				if r.Status != v8.Completed || len(got) == 0 || size > test.most {
					t.Errorf("status %v, %.200s, %d messages of %d bytes", r.Status, textOf(r), len(got), size)
				}
			})
		}
	}
}

// User code can reach only the public functions of the prelude.
func TestPreludeIsOutOfReach(t *testing.T) {
	const search = `
		const found = [], seen = new Set(), queue = [[globalThis, 'globalThis']];
		const natives = ['write', 'fillRandom', 'kindOf', 'promiseDetails', 'proxyDetails', 'previewEntries', 'constructorName', 'nextDue', 'setMode', 'fire', 'prepareStack', 'cancelTimers', 'forgetCalls', 'inspectHeap', 'noteNames', 'explainSyntaxError'];
		const add = (value, path) => { if ((typeof value === 'object' || typeof value === 'function') && value !== null && !seen.has(value)) { seen.add(value); queue.push([value, path]) } };
		const sites = [];
		Error.prepareStackTrace = (error, frames) => { for (const f of frames) { sites.push(f.getThis(), f.getFunction(), f.getEvalOrigin()); } add(frames, 'frames'); return 'own ' + error };
		const grab = () => { new Error().stack; const e = {}; Error.captureStackTrace(e); e.stack };
		function sloppy() {
			try { add(sloppy.arguments, 'arguments'); add(sloppy.caller, 'caller') } catch (e) { add(e, 'refused') }
			try { for (let f = sloppy; f; f = f.caller) add(f, 'callers') } catch (e) { add(e, 'refused') }
			add(this, 'this'); grab(); return 'x';
		}
		const custom = Symbol.for('nodejs.util.inspect.custom');
		console.log({ [custom](...args) { add(args, 'custom'); sloppy.apply(this, args); return 'x' } });
		console.log('%s %d', { toString: sloppy }, { valueOf: sloppy });
		console.log({ get constructor() { return sloppy() }, get [Symbol.toStringTag]() { sloppy(); return 'T' } });
		console.dir({ a: 1, get g() { return sloppy() } }, { getters: true, sorted(...args) { sloppy.apply(this, args); return 0 }, stylize(...args) { sloppy.apply(this, args); add(this, 'stylize'); return args[0] } });
		console.dir({ get depth() { sloppy() } }, { get depth() { return sloppy() } });
		console.count({ toString: sloppy }); console.table([{ get a() { return sloppy() } }], ['a', { toString: sloppy }]);
		console.trace({ [custom]: sloppy });
		try { setTimeout('x') } catch (e) { add(e, 'error'); e.stack }
		setTimeout(function () { sloppy.apply(this, arguments); add(this, 'timer') }, { valueOf: sloppy }, 1); setImmediate(function () { sloppy.apply(this, arguments) }); queueMicrotask(sloppy);
		setTimeout(0..constructor.prototype.toString.bind(5), 1);
		try { crypto.getRandomValues(new Proxy(new Uint8Array(1), { get: sloppy, getPrototypeOf: sloppy })) } catch (e) { add(e, 'crypto') }
		try { new Intl.NumberFormat('en', new Proxy({}, { get(t, k, receiver) { add(receiver, 'receiver'); sloppy(); return undefined } })).format({ valueOf: sloppy }) } catch (e) { add(e, 'intl') }
		try { (function f() { console.log({ [custom]: f }) ; f() })() } catch (e) { add(e, 'overflow') }
		for (const name of Object.getOwnPropertyNames(console)) { try { console[name].call(sloppy, { [custom]: sloppy }, { toString: sloppy }) } catch (e) { add(e, name) } }
		await new Promise(done => setTimeout(done, 4));
		for (const site of sites) add(site, 'site');
		while (queue.length > 0) {
			const [object, path] = queue.pop();
			let keys = [];
			try { keys = Reflect.ownKeys(object); add(Object.getPrototypeOf(object), path + '.__proto__') } catch { continue }
			const wanted = keys.filter(key => natives.includes(key) && object !== natives);
			if (wanted.length > 0) found.push(path + ': ' + wanted);
			for (const key of keys) {
				let d; try { d = Object.getOwnPropertyDescriptor(object, key) } catch { continue }
				if (d === undefined) continue;
				for (const part of ['value', 'get', 'set']) add(d[part], path + '.' + String(key));
			}
		}
		if (seen.size < 1000) found.push('searched only ' + seen.size);
		found.join('; ')`
	for _, mode := range modes {
		if r, _ := print(t, mode.cfg, search); r.Status != v8.Completed || textOf(r) != "" {
			t.Errorf("%s: %v, found %s", mode.name, r.Status, textOf(r))
		}
	}
	// No function of the prelude reveals its caller and its arguments.
	for _, mode := range modes {
		r, _ := print(t, mode.cfg, `const shown = [];
			for (const f of [console.log, setTimeout, Date, crypto.randomUUID, performance.now, Math.random, Intl.NumberFormat]) for (const key of ['caller', 'arguments'])
				try { if (f[key] !== null) shown.push(f.name + '.' + key) } catch (e) { if (!(e instanceof TypeError)) shown.push(String(e)) }
			shown.join()`)
		if textOf(r) != "" {
			t.Errorf("%s: %s", mode.name, textOf(r))
		}
	}
}

// A script that replaces the console, the clock or timers affects only runs from its own heap.
func TestPoisonSurvivesInTheHeap(t *testing.T) {
	first := run(t, v8.Config{}, poisonEverything+"let log = console.log, later = setTimeout, map = new Map([[1, 2]]); poison(); 'ok'")
	if first.text != "ok" {
		t.Fatalf("first run: %v %s", first.Status, first.text)
	}
	then := run(t, v8.Config{Heap: first.heap}, "log({ a: [1, 'x'] }, map); later(log, 3, 'timer'); ({ n: [1] })")
	want := []string{"0@0 { a: [ 1, 'x' ] } Map(1) { 1 => 2 }", "0@3 timer"}
	if fmt.Sprint(then.out) != fmt.Sprint(want) || then.text != `{"n":[1]}` {
		t.Errorf("second run: %v %q, output %q, want %q", then.Status, then.text, then.out, want)
	}
}
