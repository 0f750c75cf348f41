package v8_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// globalsOf returns the globals of a heap.
func globalsOf(tb testing.TB, heap []byte) v8.Globals {
	tb.Helper()
	before := slices.Clone(heap)
	i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	all, err := i.Globals(0, 1000)
	if err != nil {
		tb.Fatal(err)
	}
	if !slices.Equal(heap, before) {
		tb.Error("the heap was changed")
	}
	return all
}

// oneLine describes a global without its hash.
func oneLine(g v8.Global) string {
	size := ""
	if g.Size != nil {
		size = fmt.Sprint(*g.Size)
	}
	text := fmt.Sprintf("%s|%s|%s|%s|%s|%s", g.Name, g.Kind, g.Type, g.Class, size, g.Preview)
	if g.Partial {
		text += "|partial"
	}
	return text
}

func TestListGlobals(t *testing.T) {
	all := globalsOf(t, saved(t, `
		let a = 1, und; const text = 'text', sym = Symbol('x'), big = 10n, yes = true; class C { static s = 1; m() {} } function f(x) { return x }
		var list = [1, 2, 3], nothing = null;
		let map = new Map([[1, { a: { b: { c: { d: 1 } } } }]]), set = new Set([1]), buf = new ArrayBuffer(2), ints = new Uint16Array(4), view = new DataView(buf);
		globalThis.plain = { x: 1, y: [1] }; globalThis[Symbol('key')] = 1; globalThis[7] = 1; globalThis['a b'] = 1;
		Object.defineProperty(globalThis, 'get', { get() { throw 1 } }); Object.defineProperty(globalThis, 'set_', { set() { throw 1 } });
		Object.defineProperty(globalThis, 'both', { get() { throw 1 }, set() {} }); Object.defineProperty(globalThis, 'hidden', { value: 1 });
		let inst = new C(), nul = Object.create(null), arrow = async () => 1, date = new Date(0), re = /a/g, prox = new Proxy({ a: 1 }, {});
		void (Error.stackTraceLimit = 0); let err = new TypeError('bad', { cause: new Error('in') }), lone = 'a\ud800';
	`, "let second = 1; var second2 = 2; a = 2", "let tdz = (() => { throw new Error('stop') })()"))
	want := []string{
		"7|property|number|||1", "C|lexical|function|Function||[class C] { s: 1 }", "Symbol(key)|property|number|||1", "a|lexical|number|||2", "a b|property|number|||1",
		"arrow|lexical|function|AsyncFunction||[AsyncFunction: arrow]", "big|lexical|bigint|||10n", "both|accessor||||[Getter/Setter]",
		"buf|lexical|object|ArrayBuffer|2|ArrayBuffer { [Uint8Contents]: <00 00>, byteLength: 2 }", "date|lexical|object|Date||1970-01-01T00:00:00.000Z",
		"err|lexical|object|TypeError||[TypeError: bad] { [cause]: [Error: in] }", "f|property|function|Function||[Function: f]", "get|accessor||||[Getter]", "hidden|property|number|||1",
		"inst|lexical|object|C|0|C {}", "ints|lexical|object|Uint16Array|8|Uint16Array(4) [ 0, 0, 0, 0 ]", "list|property|object|Array|3|[ 1, 2, 3 ]", `lone|lexical|string||2|'a\ud800'`,
		"map|lexical|object|Map|1|Map(1) { 1 => { a: { b: [Object] } } }", "nothing|property|null|||null", "nul|lexical|object||0|[Object: null prototype] {}",
		"plain|property|object|Object|2|{ x: 1, y: [ 1 ] }", "prox|lexical|object|Proxy||{ a: 1 }", "re|lexical|object|RegExp||/a/g", "second|lexical|number|||1", "second2|property|number|||2",
		"set|lexical|object|Set|1|Set(1) { 1 }", "set_|accessor||||[Setter]", "sym|lexical|symbol|||Symbol(x)", "tdz|lexical|uninitialized|||<uninitialized>", "text|lexical|string||4|'text'",
		"und|lexical|undefined|||undefined", "view|lexical|object|DataView|2|DataView {\n  byteLength: 2,\n  byteOffset: 0,\n  buffer: ArrayBuffer { [Uint8Contents]: <00 00>, byteLength: 2 }\n}",
		"yes|lexical|boolean|||true",
	}
	slices.Sort(want)
	var got []string
	for _, g := range all.List {
		got = append(got, oneLine(g))
	}
	if !slices.IsSortedFunc(all.List, func(a, b v8.Global) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("not in the order of names: %q", got)
	}
	slices.Sort(got)
	for n := range max(len(got), len(want)) {
		if n >= len(got) || n >= len(want) || got[n] != want[n] {
			t.Fatalf("global %d:\n got %q\nwant %q", n, got[min(n, len(got)):], want[min(n, len(want)):])
		}
	}
}

// A heap in which no script declared anything has no globals, whatever built-in objects its runs
// changed.
func TestNoGlobals(t *testing.T) {
	for _, source := range []string{"1", "console.log(1); Math.max = 1; delete globalThis.escape; Array.prototype.x = 1", "{ let a = 1 } (() => { var b = 1 })()"} {
		if all := globalsOf(t, saved(t, source)); len(all.List) != 0 || all.More != 0 {
			t.Errorf("%s: %+v", source, all)
		}
	}
}

// Previews are what util.inspect of Node prints, unless that calls code of the script.
func TestPreviewsAsNode(t *testing.T) {
	cases := recorded[struct{ Expr, Want string }](t, "inspect.json")
	differ, compared := 0, 0
	for batch := range slices.Chunk(cases, 900) {
		var script strings.Builder
		script.WriteString(withoutFrames)
		for n, c := range batch {
			fmt.Fprintf(&script, "try { globalThis['v%03d'] = (() => (%s))() } catch {}\n", n, c.Expr)
		}
		i, err := v8.New(v8.Config{Start: start, HeapLimit: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := i.Run(v8.Script{Source: []byte(script.String())}); err != nil || r.Status != v8.Completed {
			t.Fatal(err, textOf(r))
		}
		all, err := i.Globals(0, 1000)
		i.Dispose()
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range all.List {
			var n int
			if _, err := fmt.Sscanf(g.Name, "v%03d", &n); err != nil {
				continue
			}
			c := batch[n]
			preview, isCut := strings.CutSuffix(g.Preview, "…")
			if compared++; preview != c.Want && (!isCut || !strings.HasPrefix(c.Want, preview)) && !isKnownPreview(c.Expr) {
				differ++
				t.Errorf("%s\n got %q\nwant %q", c.Expr, g.Preview, c.Want)
			}
		}
	}
	t.Logf("%d of %d previews differ", differ, compared)
}

// isKnownPreview reports whether a preview may differ from what Node prints, because Node calls
// code of the script.
func isKnownPreview(expr string) bool {
	return strings.Contains(expr, "nodejs.util.inspect.custom") || strings.Contains(expr, "get [Symbol.toStringTag]") || strings.Contains(expr, "get name()") ||
		expr == "Object.create(new Proxy({ a: 1 }, {}))"
}

// No code of a script runs, whatever it left. Each script counts in zRan when its code runs, after
// it has declared the global x.
func TestGlobalsRunNoCode(t *testing.T) {
	const helpers = "var zRan = 0; function ran() { zRan++; return 'evil' }\n"
	all := `{ get: ran, set: ran, has: ran, deleteProperty: ran, ownKeys: ran, getOwnPropertyDescriptor: ran, defineProperty: ran, getPrototypeOf: ran, setPrototypeOf: ran, isExtensible: ran, preventExtensions: ran, apply: ran, construct: ran }`
	for _, test := range []struct{ name, source, want string }{
		{"accessor", "Object.defineProperty(globalThis, 'x', { get: ran, set: ran })", "x|accessor||||[Getter/Setter]"},
		{"counter in a getter", "var x = { get count() { return ran() } }", "{ count: [Getter] }"},
		{"proxy", "var x = new Proxy({ a: 1 }, " + all + ")", "{ a: 1 }"},
		{"proxy of a function", "var x = new Proxy(function f() {}, " + all + ")", "[Function: f]"},
		{"proxy of a class", "let x = new Proxy(class K {}, " + all + ")", "[class K]"},
		{"proxy of a proxy", "var x = new Proxy(new Proxy([1], " + all + "), " + all + ")", "[ 1 ]"},
		{"proxy in an object", "var x = { p: new Proxy({ a: 1 }, " + all + ") }", "{ p: { a: 1 } }"},
		{"proxy as a prototype", "var x = Object.create(new Proxy({}, " + all + "))", "[Object: null prototype] {}"},
		{"proxy far up the chain", "var x = Object.create(Object.create(new Proxy({}, " + all + ")))", ""},
		{"proxy as the prototype of an error", "var x = new Error('m'); void x.stack; Object.setPrototypeOf(x, new Proxy({}, " + all + "))", ""},
		{"proxy as the prototype of an unread error", "var x = new Error('m'); Object.setPrototypeOf(x, new Proxy({}, " + all + "))", ""},
		{"proxy as a constructor", "var x = { constructor: new Proxy(class K {}, " + all + ") }", ""},
		{"proxy as the parent of a class", "class P {} class Q extends P {} Object.setPrototypeOf(Q, new Proxy(P, " + all + ")); var x = [Q, new Q]", ""},
		{"proxy as a cause", "var x = new Error('m', { cause: new Proxy(new Error('c'), " + all + ") })", ""},
		{"revoked proxy", "var r = Proxy.revocable({}, {}); var x = [r.proxy]; r.revoke()", "[ <Revoked Proxy> ]"},
		{"proxy in the chain of globalThis", "Object.setPrototypeOf(Object.prototype, null); var x = 1; try { Object.setPrototypeOf(globalThis, new Proxy({}, " + all + ")) } catch {}", "1"},
		{"getter of an index", "var x = [1, 2, 3]; Object.defineProperty(x, 1, { get: ran })", "[ 1, [Getter], 3 ]"},
		{"getter of an index of a hole", "var x = [1, , 3]; Object.defineProperty(Array.prototype, 1, { get: ran, configurable: true })", "[ 1, <1 empty item>, 3 ]"},
		{"class with a static getter name", "class K { static get name() { return ran() } } var x = [K, new K]", ""},
		{"class with a static method name", "class K { static name() { return ran() } } var x = [K, new K]", ""},
		{"function with a name that converts", "function f() {} Object.defineProperty(f, 'name', { value: { toString: ran, [Symbol.toPrimitive]: ran } }); function G() {} G.prototype.constructor = f; var x = [f, new G, Object.create({ constructor: f })]", ""},
		{"constructor getter", "var x = { get constructor() { return ran() } }", "{ constructor: [Getter] }"},
		{"constructor with an accessor prototype", "const arrow = () => 1; Object.defineProperty(arrow, 'prototype', { get: ran }); var x = Object.create({ constructor: arrow })", ""},
		{"bound constructor", "function B() {} Object.defineProperty(B, Symbol.hasInstance, { value: ran }); var x = Object.create({ constructor: B.bind(null) })", ""},
		{"hasInstance", "class K { static [Symbol.hasInstance]() { return ran() } } var x = new K", "K {}"},
		{"toStringTag getter", "class K { get [Symbol.toStringTag]() { return ran() } } var x = new K", "K {}"},
		{"own toStringTag getter", "var x = { get [Symbol.toStringTag]() { return ran() } }", ""},
		{"toString, valueOf and toJSON", "var x = { toString: ran, valueOf: ran, toJSON: ran, [Symbol.toPrimitive]: ran }", ""},
		{"date with own conversions", "var x = new Date(0); x.toISOString = x.toString = x.getTime = x[Symbol.toPrimitive] = ran", ""},
		{"boxed values with own conversions", "var x = [new Number(1), new String('s'), new Boolean(true), Object(1n), Object(Symbol())]; for (const b of x) b.valueOf = b.toString = ran", ""},
		{"regular expression with own getters", "class R extends RegExp { get source() { return ran() } get flags() { return ran() } get global() { return ran() } exec() { return ran() } } var x = new R('a', 'g')", "R /a/g"},
		{"map with its own iterator", "class M extends Map { *entries() { yield ran() } *[Symbol.iterator]() { yield ran() } get size() { return ran() } get() { return ran() } forEach() { ran() } } var x = new M([[1, 2]].slice()); Map.prototype.entries = ran", "M(1) [Map] { 1 => 2 }"},
		{"set with its own iterator", "class S extends Set { *values() { yield ran() } *[Symbol.iterator]() { yield ran() } get size() { return ran() } } var x = new S(); Set.prototype.add.call(x, 1); Set.prototype.values = ran", "S(1) [Set] { 1 }"},
		{"array with its own iterator", "class A extends Array { *[Symbol.iterator]() { yield ran() } } var x = A.of(1, 2)", "A(2) [ 1, 2 ]"},
		{"typed array with accessors", "class T extends Uint8Array { get length() { return ran() } get byteLength() { return ran() } get buffer() { return ran() } get [Symbol.toStringTag]() { return ran() } *[Symbol.iterator]() { yield ran() } } var x = new T(2)", "T(2) [Uint8Array] [ 0, 0 ]"},
		{"buffer with accessors", "class B extends ArrayBuffer { get byteLength() { return ran() } slice() { return ran() } static get [Symbol.species]() { return ran } } var x = [new B(1), new DataView(new B(1))]; Object.defineProperty(DataView.prototype, 'byteLength', { get: ran })", ""},
		{"error with a getter stack", "var x = new Error('m'); Object.defineProperty(x, 'stack', { get: ran })", "[Error: m]"},
		{"error with an inherited stack", "class E extends Error { get stack() { return ran() } get name() { return ran() } get message() { return ran() } get cause() { return ran() } get errors() { return ran() } } var x = new E('m')", ""},
		{"error with a stack that converts", "var x = new Error('m'); Object.defineProperty(x, 'stack', { value: { toString: ran, [Symbol.toPrimitive]: ran } })", "[Error: m]"},
		{"error with a name that converts", "var x = new Error('m'); x.name = { toString: ran }; x.message = { toString: ran }; x.cause = 1; x.errors = { length: 1 }", ""},
		{"unread error with a name that converts", "Error.stackTraceLimit = 10; var x = new Error('m'); x.name = { toString: ran }; Object.defineProperty(x, 'message', { get: ran })", ""},
		{"error with a cause getter", "var x = new Error('m'); Object.defineProperty(x, 'cause', { get: ran, enumerable: true }); Object.defineProperty(x, 'errors', { get: ran, enumerable: true })", ""},
		{"aggregate error", "var x = new AggregateError([{ get a() { return ran() } }], 'm')", ""},
		{"prepareStackTrace", "Error.stackTraceLimit = 10; var x = new Error('m'); Error.prepareStackTrace = ran", ""},
		{"prepareStackTrace getter", "Error.stackTraceLimit = 10; var x = new Error('m'); Object.defineProperty(Error, 'prepareStackTrace', { get: ran })", ""},
		{"frames of objects with names that run code", "Error.stackTraceLimit = 10; var x; class K { static get name() { return ran() } get [Symbol.toStringTag]() { return ran() } m() { x = new Error('m') } } new K().m(); new Proxy(new K, {}).m()", ""},
		{"custom inspection", "var x = { [Symbol.for('nodejs.util.inspect.custom')]: ran }; class K { [Symbol.for('nodejs.util.inspect.custom')]() { return ran() } } var y = new K", ""},
		{"custom inspection of all", "var x = { a: 1 }; Object.prototype[Symbol.for('nodejs.util.inspect.custom')] = ran", "{ a: 1 }"},
		{"prototype that converts", "class K { valueOf() { return ran() } toString() { return ran() } } var x = new K; Object.setPrototypeOf(K.prototype, null)", ""},
		{"long prototype chain", "var x = {}; for (let i = 0; i < 5000; i++) x = Object.create(x)", ""},
		{"prototype cycle through a proxy", "const p = new Proxy({}, { getPrototypeOf() { ran(); return p } }); var x = Object.create(p)", ""},
		{"traps on Object.prototype", "var x = [{ a: 1 }, [1], new Map([[1, 2]]), new Error('m'), () => 1]; for (const k of ['value', 'get', 'set', 'writable', 'enumerable', 'configurable', 'left', 'sources', 'isPartial', 'depth', 'stack', 'cause', 'errors', 'name', 'message', 'length', '0', 'done', 'toJSON', 'next', 'then', 'kind', 'type', 'size', 'prototype', 'constructor']) Object.defineProperty(Object.prototype, k, { get: ran, set: ran, configurable: true })", ""},
		{"poisoned Array.prototype", "var x = [1, 2]; for (const k of Object.getOwnPropertyNames(Array.prototype)) if (k !== 'length') Array.prototype[k] = ran; for (const i of [0, 1, 2, 3]) Object.defineProperty(Array.prototype, i, { get: ran, set: ran }); Array.prototype[Symbol.iterator] = ran", ""},
		{"poisoned constructors", "var x = [new Map([[1, 2]]), [1], new Uint8Array(1), new ArrayBuffer(1)]; for (const C of [Array, Map, Set, Uint8Array, ArrayBuffer, Promise, RegExp]) { Object.defineProperty(C, Symbol.species, { get: ran }); Object.defineProperty(C, Symbol.hasInstance, { value: ran }) } globalThis.Uint8Array = globalThis.Map = globalThis.JSON = globalThis.Object = globalThis.String = globalThis.Symbol = ran", ""},
		{"poisoned reflection", "var x = { a: [1] }; for (const o of [Object, Reflect, JSON, Math, Function.prototype, String.prototype, RegExp.prototype, Map.prototype, Set.prototype, Symbol.prototype, Number.prototype, Error.prototype]) for (const k of Reflect.ownKeys(o)) try { Object.getOwnPropertyDescriptor(o, k).configurable && k !== 'ownKeys' && k !== 'getOwnPropertyDescriptor' && k !== 'defineProperty' && k !== 'prototype' && (o[k] = ran) } catch {}", ""},
		{"dead zone", "let x = ran(), y = (() => { zRan = 0; throw 1 })()", "'evil'"},
		{"pending timers and jobs", "setTimeout(ran, 1).unref(); setInterval(ran, 1).unref(); var x = Promise.reject(1); x.catch(() => {}); new FinalizationRegistry(ran).register({}, 1)", ""},
		{"thenable", "var x = { then: ran }", "{ then: [Function: ran] }"},
		{"generator", "var x = (function* () { ran() })(); var y = [1][Symbol.iterator](), z = new Map([[1, 2]]).entries()", "Object [Generator] {}"},
		{"weak references", "var k = {}; var x = [new WeakMap([[k, 1]]), new WeakSet([k]), new WeakRef(k)]", ""},
		{"keys that convert", "var x = { ['__proto__']: 1, [Symbol.toPrimitive]: ran, [Symbol.iterator]: ran, [Symbol.asyncIterator]: ran, [Symbol.isConcatSpreadable]: true, [Symbol.match]: ran, [Symbol.replace]: ran, [Symbol.unscopables]: { get x() { return ran() } } }", ""},
		{"lexical names of all kinds", "let async = 1, of = 2, get = 3, \\u0061bc = 4, ünï = 5, $ = 6, _ = 7, yield_ = 8; var x = 1; Object.defineProperty(globalThis, 'hide', { get: ran })", "1"},
		{"global hidden by a declaration", "Object.defineProperty(globalThis, 'late', { get: ran, configurable: true }); let late = 1; var x = 1", "1"},
		{"with and eval", "with ({ get a() { return 1 } }) { eval('var x = a') }", "1"},
	} {
		heap := saved(t, helpers+test.source)
		before, _ := print(t, v8.Config{Heap: heap}, "zRan")
		i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		all, err := i.Globals(0, 1000)
		i.Dispose()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		counted := false
		for _, g := range all.List {
			switch {
			case g.Name == "zRan":
				counted = true
				if g.Preview != textOf(before) {
					t.Errorf("%s: the counter is %s, and was %s", test.name, g.Preview, textOf(before))
				}
			case g.Name == "x" && test.want != "" && g.Preview != test.want && oneLine(g) != test.want:
				t.Errorf("%s: %s, want %s", test.name, oneLine(g), test.want)
			}
		}
		if !counted || !slices.ContainsFunc(all.List, func(g v8.Global) bool { return g.Name == "x" }) {
			t.Errorf("%s: x or the counter is missing: %+v", test.name, all.List)
		}
	}
}

// What a script did to the built-in objects changes no preview by running code.
func TestGlobalsOfPoisonedHeaps(t *testing.T) {
	for _, p := range poisons {
		heap := saved(t, "var zList = [1, { a: 1 }], zMap = new Map([[1, 2]]), zText = 'x', zFunction = function named() {}, zDate = new Date(0);", p.source)
		previews := map[string]string{}
		for _, g := range globalsOf(t, heap).List {
			previews[g.Name] = g.Preview
		}
		for name, want := range map[string]string{
			"zList": "[ 1, { a: 1 } ]", "zMap": "Map(1) { 1 => 2 }", "zText": "'x'", "zFunction": "[Function: named]", "zDate": "1970-01-01T00:00:00.000Z",
		} {
			if got := previews[name]; got != want && strings.Contains(got, "evil") && !strings.Contains(p.name, "toStringTag") {
				t.Errorf("%s: %s is %q", p.name, name, got)
			}
		}
	}
}

// The hash is that of the value: it does not depend on other globals or on the run that left the
// value, and it differs where the preview cannot.
func TestGlobalHashes(t *testing.T) {
	hashOf := func(source string) v8.Global {
		all := globalsOf(t, saved(t, source))
		for _, g := range all.List {
			if g.Name == "x" {
				return g
			}
		}
		t.Fatalf("%s: no x", source)
		return v8.Global{}
	}
	for _, test := range []struct {
		a, b    string
		equal   bool
		partial bool
	}{
		{"var x = [1, 2]", "var other = {}; let x = [1]; x.push(2)", true, false},
		{"var x = 1", "var x = '1'", false, false},
		{"var x = 0", "var x = -0", false, false},
		{"var x = { a: { b: { c: { d: 1 } } } }", "var x = { a: { b: { c: { d: 2 } } } }", false, false},
		{"var x = Array(500).fill(1)", "var x = Array(500).fill(1); x[499] = 2", false, false},
		{"var x = 'a'.repeat(2e4)", "var x = 'a'.repeat(2e4 - 1) + 'b'", false, false},
		{"function x() { return 1 }", "function x() { return 2 }", false, false},
		{"var x = { m() { return 1 } }", "var x = { m() { return 2 } }", false, false},
		{"var x = { get m() { return 1 } }", "var x = { get m() { return 2 } }", false, false},
		{"var x = new Uint8Array(1e4)", "var x = new Uint8Array(1e4); x[9999] = 1", false, false},
		{"var x = new ArrayBuffer(1e4)", "var x = new ArrayBuffer(1e4); new Uint8Array(x)[9999] = 1", false, false},
		{"var x = new Map([[{ a: 1 }, 1]])", "var x = new Map([[{ a: 2 }, 1]])", false, false},
		{"var x = 'a'.repeat(1e6)", "var x = 'a'.repeat(1e6 - 1) + 'b'", true, true},
		{"var x = Array(1e6).fill(1)", "var x = Array(1e6).fill(1); x[999999] = 2", true, true},
		{"var x = {}; let y = x; for (let i = 0; i < 20; i++) y = y.a = {}", "var x = {}; let y = x; for (let i = 0; i < 21; i++) y = y.a = {}", true, true},
	} {
		a, b := hashOf(test.a), hashOf(test.b)
		if (a.SHA256 == b.SHA256) != test.equal || a.Partial != test.partial || b.Partial != test.partial {
			t.Errorf("%s and %s: equal %t, partial %t and %t", test.a, test.b, a.SHA256 == b.SHA256, a.Partial, b.Partial)
		}
	}
}

// Values that are far larger in print than in memory are cut, and so is the list.
func TestGlobalsAreBounded(t *testing.T) {
	all := globalsOf(t, saved(t, `
		let x = 'x'.repeat(1 << 18); for (let i = 0; i < 16; i++) x = Array(16).fill(x);
		let y = Array(1000).fill({ ['k'.repeat(1e5)]: 1 }), m = new Map(), s = new Set(), o = {};
		for (let i = 0; i < 3e5; i++) { m.set(i, i); s.add(i); o['k' + i] = i } let b = new Uint8Array(1e7);
		globalThis['n'.repeat(1e5)] = 1;
	`))
	for _, g := range all.List {
		if len(g.Preview) > 1024 || len(g.Name) > 1100 {
			t.Errorf("%.40s: %d bytes of preview, %d of name", g.Name, len(g.Preview), len(g.Name))
		}
		if g.Partial != (g.Type != "number") {
			t.Errorf("%.40s: partial %t", g.Name, g.Partial)
		}
	}
	many := globalsOf(t, saved(t, "for (let i = 0; i < 30000; i++) globalThis['g' + i] = i; let a = 1"))
	if len(many.List) != 1000 || many.More != 29001 || many.List[0].Name != "a" || many.List[1].Name != "g0" || many.List[2].Name != "g1" || many.List[3].Name != "g10" {
		t.Errorf("%d, %d, %+v", len(many.List), many.More, many.List[:4])
	}
}

func TestGlobalsStopped(t *testing.T) {
	heap := saved(t, "let x = 1")
	i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Globals(0, 10); err != nil {
		t.Error(err)
	}
	if r, err := i.Run(v8.Script{Source: []byte("1")}); err != nil || r.Status != v8.Terminated {
		t.Errorf("a script ran after the list: %+v, %v", r, err)
	}
	i.Dispose()
	if _, err := i.Globals(0, 10); !errors.Is(err, v8.ErrDisposed) {
		t.Error(err)
	}
	if i, err = v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	i.Terminate()
	if _, err := i.Globals(0, 10); !errors.Is(err, v8.ErrStopped) {
		t.Errorf("a stopped isolate lists globals: %v", err)
	}
}
