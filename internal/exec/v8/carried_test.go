package v8_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// saved runs scripts one after the other, each from the heap of the previous one, and returns the
// last heap.
func saved(tb testing.TB, scripts ...string) []byte {
	tb.Helper()
	var heap []byte
	for _, source := range scripts {
		i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
		if err != nil {
			tb.Fatal(err)
		}
		if r, err := i.Run(v8.Script{Source: []byte(source)}); err != nil || r.Status == v8.SyntaxError {
			tb.Fatalf("%.200s: %v %s", source, err, textOf(r))
		}
		blob, err := i.Snapshot()
		if err != nil {
			tb.Fatal(err)
		}
		heap = slices.Clone(blob)
		i.Dispose()
	}
	return heap
}

// inspect returns what Inspect reports of a heap.
func inspect(tb testing.TB, heap []byte) v8.Carried {
	tb.Helper()
	i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	c, err := i.Inspect()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// ordinary has scripts that change no built-in object.
var ordinary = []string{
	"1",
	"var total = 0; function add(n) { total += n } class Point extends Array { at(i) { return super.at(i) } } let list = [1, 2]; const K = 5; add(3)",
	"var e = new Error('kept'); void e.stack; var r = /a(b)/.exec('ab'); RegExp.$1; [3, 1, 2].sort().map(x => x * 2).join()",
	"var m = new Map([[1, { a: 1 }]]); for (const [k, v] of m) console.log(k, v); console.count(); console.time(); console.table([{ a: 1 }])",
	"var t = setInterval(() => {}, 1000).unref(); await new Promise(r => setTimeout(r, 1)); queueMicrotask(() => {}); setImmediate(() => {})",
	"new Date().toLocaleString('de'); new Intl.NumberFormat('de').format(1.5); [...new Intl.Segmenter().segment('a b')]; 'a'.localeCompare('b')",
	"async function* g() { yield 1 } for await (const x of g()) console.log(x); var it = g(); function* h() { yield 1 } [...h()]",
	"structuredClone({ a: new Map }); new TextEncoder().encode('x'); atob(btoa('x')); crypto.randomUUID(); performance.now(); Math.random()",
	"var w = new WeakRef({}); new FinalizationRegistry(() => {}).register({}, 1); Atomics.waitAsync(new Int32Array(new ArrayBuffer(8)), 0, 1)",
	"globalThis.helper = () => 1; Object.freeze(list); delete globalThis.helper; var o = Object.create(Array.prototype); o.x = 1",
	"with ({ a: 1 }) { a } eval('var viaEval = 1'); new Function('return 1')(); `${list}`; var tag = String.raw`x`",
	"mcp; Object.prototype.toString.call(mcp); Reflect.ownKeys(globalThis).length; JSON.parse('{\"a\":1}', (k, v) => v)",
}

func TestOrdinaryHeapsArePristine(t *testing.T) {
	for n, source := range ordinary {
		if n > 0 && strings.HasPrefix(source, "globalThis.helper") {
			continue // it uses declarations of another script
		}
		if c := inspect(t, saved(t, "var list = []", strings.ReplaceAll(source, "let list = [1, 2]; ", ""))); !c.Checked || c.Changes != 0 {
			t.Errorf("%s: %+v", source, c)
		}
	}
	if c := inspect(t, saved(t, ordinary[:2]...)); !c.Checked || c.Changes != 0 {
		t.Errorf("%+v", c)
	}
}

// sweep is a script that visits everything that a script can reach of the built-in objects, and makes
// one kind of change to a part of them. It does not use the code of the prelude for that.
const sweep = `
const { ownKeys, getOwnPropertyDescriptor: descriptorOf, defineProperty, getPrototypeOf, setPrototypeOf, isExtensible, preventExtensions } = Reflect;
function* generator() {} async function* asyncGenerator() {}
let callSites; Error.prepareStackTrace = (_, sites) => sites; callSites = new Error('x').stack; delete Error.prepareStackTrace;
const timeout = setTimeout(() => {}), immediate = setImmediate(() => {}); clearTimeout(timeout); clearImmediate(immediate);
const queue = [globalThis, generator, generator(), asyncGenerator, asyncGenerator(), async () => {}, [].values(), new Map().entries(), new Set().values(), ''[Symbol.iterator](),
	'a'.matchAll(/a/g), new Uint8Array(1), [].values().take(1), Iterator.from({ next() {} }), timeout, immediate, callSites[0],
	new Intl.Segmenter().segment('a'), new Intl.Segmenter().segment('a')[Symbol.iterator]()];
const own = new Set(queue.slice(1).concat(generator.prototype, asyncGenerator.prototype)); // not built-in themselves, only their prototypes are
queue.push(descriptorOf((function () { 'use strict'; return arguments })(), 'callee').get);
const found = new Set(), properties = [], everything = [];
for (let i = 0; i < queue.length; i++) {
	const object = queue[i];
	if ((typeof object !== 'object' && typeof object !== 'function') || object === null || found.has(object)) continue;
	queue.push(getPrototypeOf(object));
	if (own.has(object)) continue;
	found.add(object);
	for (const key of ownKeys(object)) {
		const d = descriptorOf(object, key);
		if (d.value === generator || d.value === asyncGenerator) continue;
		queue.push(d.value, d.get, d.set); everything.push(d);
		// Plain names and lengths of functions without other properties are not compared.
		if (typeof object === 'function' && (key === 'name' || key === 'length') && ownKeys(object).length === 2) continue;
		if (d.configurable || d.writable) properties.push({ object, key, d });
	}
}
// A method has no entry of its own: a change of it shows wherever it is held.
const isMethod = f => typeof f === 'function' && getPrototypeOf(f) === Function.prototype && ownKeys(f).length === 2 && ownKeys(f)[1] === 'name';
const methods = new Set([...found].filter(isMethod)), held = new Map();
for (const d of everything) for (const f of new Set([d.value, d.get, d.set])) if (methods.has(f)) held.set(f, (held.get(f) ?? 0) + 1);
const objects = [...found].filter(o => o !== Object.prototype && isExtensible(o) && (!methods.has(o) || held.get(o) === 1));
const paired = new Set(properties.map(p => p.d).filter(d => d.get && d.set).map(d => d.set));
const single = objects.filter(o => !paired.has(o));
if (methods.size - held.size > 0) throw 'nobody holds ' + [...methods].filter(f => !held.has(f)).map(f => f.name);
let changed = 0;
const change = {
	value({ object, key, d }) { return defineProperty(object, key, d.configurable || 'value' in d ? { value: () => 'evil' } : {}) },
	attribute({ object, key, d }) { return d.configurable && defineProperty(object, key, { enumerable: !d.enumerable }) },
	accessor({ object, key, d }) { return d.configurable && defineProperty(object, key, { get: () => 'evil', set: d.set }) },
	remove({ object, key, d }) { return d.configurable && delete object[key] },
	add(object) { return defineProperty(object, 'evil', { value: 1 }) },
	prototype(object) { return setPrototypeOf(object, { __proto__: getPrototypeOf(object) }) },
	freeze(object) { return preventExtensions(object) },
}, list = { value: properties, attribute: properties, accessor: properties, remove: properties, add: single.filter(o => o !== globalThis), prototype: single, freeze: single };
const all = list.KIND;
for (let i = PART; i < all.length; i += PARTS) try { if (change.KIND(all[i])) changed++ } catch {}
` + "`${changed} of ${all.length}`"

// Every change that a script can make to a built-in object is found.
func TestEveryChangeIsFound(t *testing.T) {
	const parts = 3
	for _, test := range []struct {
		kind string
		most int // minimum number of changes
	}{{"value", 880}, {"attribute", 850}, {"accessor", 850}, {"remove", 850}, {"add", 700}, {"prototype", 700}, {"freeze", 700}} {
		total := 0
		for part := range parts {
			i, err := v8.New(v8.Config{Start: start, HeapLimit: 64 << 20})
			if err != nil {
				t.Fatal(err)
			}
			source := strings.NewReplacer("KIND", test.kind, "PARTS", fmt.Sprint(parts), "PART", fmt.Sprint(part)).Replace(sweep)
			r, err := i.Run(v8.Script{Source: []byte(source)})
			if err != nil || r.Status != v8.Completed {
				i.Dispose()
				t.Fatalf("%s: %v %s", test.kind, err, textOf(r))
			}
			var changed, all int
			if _, err := fmt.Sscanf(textOf(r), "%d of %d", &changed, &all); err != nil {
				t.Fatal(err)
			}
			c, err := i.Inspect() // before the heap is saved, which makes no difference
			i.Dispose()
			if err != nil {
				t.Fatal(err)
			}
			if c.Changes < changed || c.Changes > changed+2 { // a class that loses its last property becomes a method
				t.Errorf("%s, part %d: %d changes of %d, %d found: %v", test.kind, part, changed, all, c.Changes, c.Changed)
			}
			total += changed
		}
		if total < test.most {
			t.Errorf("%s: only %d changes were made", test.kind, total)
		}
	}
}
