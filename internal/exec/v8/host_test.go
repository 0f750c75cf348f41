package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// openPrelude is a prelude that passes the host object to the script and prints results as strings.
const openPrelude = `(function (host) {
	globalThis.host = host;
	return {
		begin() {}, end() {}, prepareStack(e) { return String(e) }, setMode() {}, fire() {}, cancelTimers() { return 0 }, forgetCalls() {}, noteNames() {}, explainSyntaxError(s) { return s }, nextDue() { return -1 },
		result(v) { return v === undefined ? null : String(v) },
		error(e) { return String(e) },
	};
})`

func open(tb testing.TB, plain bool, out v8.Output, source string) v8.Result {
	tb.Helper()
	i, err := v8.NewWithPrelude(v8.Config{Plain: plain, Start: start, Output: out}, openPrelude)
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	r, err := i.Run(v8.Script{Source: []byte(source)})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestHostKindOf(t *testing.T) {
	var script strings.Builder
	script.WriteString("let trapped = 0, bad = []; const trap = new Proxy({}, {get() { trapped++ }});\n")
	for _, test := range []struct{ value, want string }{
		{"undefined", "undefined"}, {"null", "object"}, {"true", "boolean"}, {"1", "number"}, {"1n", "bigint"}, {"'s'", "string"}, {"Symbol()", "symbol"},
		{"new Proxy({}, trap)", "proxy"}, {"new Proxy(() => {}, trap)", "proxy"}, {"Promise.resolve()", "promise"},
		{"new Map", "map"}, {"new Set", "set"}, {"new Map().entries()", "mapIterator"}, {"new Set().values()", "setIterator"},
		{"new WeakMap", "weakMap"}, {"new WeakSet", "weakSet"}, {"new WeakRef({})", "weakRef"}, {"new Date", "date"}, {"/x/", "regexp"},
		{"new TypeError", "error"}, {"(function () { return arguments })()", "arguments"}, {"(function* () {})()", "generator"},
		{"async () => {}", "asyncFunction"}, {"function* () {}", "generatorFunction"}, {"async function* () {}", "asyncGeneratorFunction"},
		{"() => {}", "function"}, {"class {}", "function"}, {"new ArrayBuffer(1)", "arrayBuffer"}, {"new DataView(new ArrayBuffer(1))", "dataView"},
		{"new Uint8Array(1)", "typedArray"}, {"Object(1)", "boxedNumber"}, {"Object('s')", "boxedString"}, {"Object(true)", "boxedBoolean"},
		{"Object(1n)", "boxedBigInt"}, {"Object(Symbol())", "boxedSymbol"}, {"[]", "array"}, {"{}", "object"}, {"Object.create(null)", "object"},
		{"new SharedArrayBuffer(1)", "sharedArrayBuffer"}, {"new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))", "wasmModule"},
	} {
		script.WriteString("{ const got = host.kindOf((" + test.value + ")); if (got !== '" + test.want + "') bad.push(`" + test.value + ": ${got}`) }\n")
	}
	script.WriteString("bad.concat(trapped ? 'trapped' : []).join('; ')")
	if r := open(t, true, nil, script.String()); r.Status != v8.Completed || *r.Text != "" {
		t.Errorf("%v: %s", r.Status, *r.Text)
	}
}

func TestHostFunctions(t *testing.T) {
	for _, test := range []struct{ name, source, want string }{
		{"promise details", "const p = x => JSON.stringify(host.promiseDetails(x)); const rej = Promise.reject(3); rej.catch(() => {}); p(new Promise(() => {})) + p(Promise.resolve(2)) + p(rej)", "[0][1,2][2,3]"},
		{"proxy details", "const t = {a: 1}, h = {}; const d = host.proxyDetails(new Proxy(t, h)); const r = Proxy.revocable({}, {}); r.revoke(); (d[0] === t) + ',' + (d[1] === h) + ',' + JSON.stringify(host.proxyDetails(r.proxy))", "true,true,[null,null]"},
		{"preview of a map", "JSON.stringify(host.previewEntries(new Map([[1, 2]])))", "[[1,2],true]"},
		{"preview of a set iterator", "const it = new Set([5, 6, 7]).values(); it.next(); JSON.stringify(host.previewEntries(it)) + it.next().value", "[[6,7],false]6"},
		{"preview of a weak map", "const k = {}; JSON.stringify(host.previewEntries(new WeakMap([[k, 1]])))", "[[{},1],true]"},
		{"constructor name", "class Foo {} host.constructorName(new Foo) + host.constructorName({}) + host.constructorName(Object.create(null))", "FooObjectObject"},
		{"keys beside the elements", "const a = Object.assign([1, , 2], {x: 1, [Symbol('s')]: 2}); host.ownNonIndexKeys(a, true).map(String) + ';' + host.ownNonIndexKeys(a, false).map(String) + ';' + host.ownNonIndexKeys(new Uint8Array(3), false)", "x,Symbol(s);length,x,Symbol(s);"},
		{"now", "host.now() === 1700000000000", "true"},
		{"random is in range", "let ok = true; for (let i = 0; i < 1e4; i++) { const r = host.random(); ok &&= r >= 0 && r < 1 } ok", "true"},
		{"fill random respects the view", "const b = new Uint8Array(100); host.fillRandom(b.subarray(10, 90)); b.slice(0, 10).every(x => x === 0) && b.slice(90).every(x => x === 0) && b.some(x => x)", "true"},
		{"fill random of nothing", "host.fillRandom(new Uint8Array(0))", ""},
		{"no such function to compute", "host.compute('nothing', 'a', new Uint8Array(1)) + host.takeText()", "-2TypeError\nthe platform has no function \"nothing\""},
		{"a result is taken once", "host.compute('nothing'); host.takeText(); host.takeText()", ""},
		{"no such part", "try { host.load('nothing') } catch (e) { e.name }", "TypeError"},
		{"not constructors", "try { new host.now(); 'made' } catch (e) { e.name }", "TypeError"},
		{"bad arguments", "['write', 'fillRandom', 'promiseDetails', 'proxyDetails', 'previewEntries', 'constructorName', 'ownNonIndexKeys', 'load', 'compute', 'takeBytes'].filter(n => { try { host[n]({}.x); return true } catch (e) { return e.name !== 'TypeError' } }).join()", ""},
		{"reported error", "host.reportError(new Error('first')); host.reportError(new Error('second')); 1", "Error: first"},
		{"reported undefined", "host.reportError(undefined); 1", "undefined"},
	} {
		for _, plain := range []bool{false, true} {
			r := open(t, plain, nil, test.source)
			got := ""
			if r.Text != nil {
				got = *r.Text
			}
			if got != test.want {
				t.Errorf("%s (plain %t): %q, want %q", test.name, plain, got, test.want)
			}
		}
	}
}

func TestHostWrite(t *testing.T) {
	var tr transcript
	open(t, false, &tr, `host.write(4, "a\nb\ud800"); host.write(0, ""); host.write(2, "x".repeat(3) + "\u4e16")`)
	want := []string{"4@0 a\nb\ufffd", "0@0 ", "2@0 xxx\u4e16"}
	if strings.Join(tr.lines, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", tr.lines, want)
	}
}

// The base heap has the features that V8 leaves out of contexts for snapshots, so the base context
// was created while they were enabled; see feature_window.h.
func TestBaseHasEveryFeature(t *testing.T) {
	r := open(t, false, nil, "['try' in Promise, 'escape' in RegExp, 'isError' in Error, typeof WebAssembly, typeof SharedArrayBuffer].join()")
	if want := "true,true,true,object,function"; *r.Text != want {
		t.Errorf("got %s, want %s", *r.Text, want)
	}
}

func TestInternalsAreOutOfReach(t *testing.T) {
	o := run(t, v8.Config{}, "[typeof host, typeof entry, Object.getOwnPropertyNames(globalThis).filter(n => /host|entry|daybook/i.test(n) && n !== 'PerformanceEntry').length, typeof WebAssembly, typeof SharedArrayBuffer].join()")
	if want := "undefined,undefined,0,undefined,undefined"; o.text != want {
		t.Errorf("got %s, want %s", o.text, want)
	}
}

func TestPlainIsolateHasEverything(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"[typeof WebAssembly, typeof SharedArrayBuffer, typeof Promise.try, typeof RegExp.escape, typeof Error.isError, typeof Atomics.pause, Error.stackTraceLimit].join()", "object,function,function,function,function,function,10"},
		{"new WebAssembly.Memory({initial: 1}).buffer.byteLength", "65536"},
		{"const f = new Intl.NumberFormat('de'); f.format(1234.5)", "1.234,5"},
		{"(() => { try { null.x } catch (e) { return e.stack.split('\\n').length > 1 } })()", "true"},
		{"class A { #x = 1; get x() { return this.#x } } new A().x + [3, 1, 2].toSorted().join('') + Object.groupBy([1], String)[1]", "11231"},
		{"(await WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))) instanceof WebAssembly.Module", "true"},
	} {
		if o := run(t, v8.Config{Plain: true}, test.source); o.Status != v8.Completed || o.text != test.want {
			t.Errorf("%s: %v %q, want %q", test.source, o.Status, o.text, test.want)
		}
	}
	o := run(t, v8.Config{Plain: true}, "console.log(new SharedArrayBuffer(2)); console.log(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])))")
	want := "0@0 SharedArrayBuffer { [Uint8Contents]: <00 00>, byteLength: 2 }\n0@0 Module [WebAssembly.Module] {}"
	if got := strings.Join(o.out, "\n"); got != want {
		t.Errorf("printed %q (%s), want %q", got, o.text, want)
	}
}

func TestBrokenPreludeIsAnError(t *testing.T) {
	for _, prelude := range []string{"(", "1", "(function () { throw new Error('no') })", "(function () { return 1 })"} {
		if i, err := v8.NewWithPrelude(v8.Config{Start: start}, prelude); err == nil {
			i.Dispose()
			t.Errorf("%q was accepted", prelude)
		} else {
			t.Log(err)
		}
	}
}
