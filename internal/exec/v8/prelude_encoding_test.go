package v8_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// each evaluates expressions in isolates of both kinds and compares what they print. A thrown error
// is printed as its name and code.
func each(t *testing.T, cases [][2]string) {
	t.Helper()
	var script strings.Builder
	script.WriteString("const caught = f => { try { return f() } catch (e) { return `${e.name} ${e.code}` } };\n")
	for _, c := range cases {
		fmt.Fprintf(&script, "console.log(caught(() => (%s)));\n", c[0])
	}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			r, got := print(t, mode.cfg, script.String())
			if len(got) != len(cases) {
				t.Fatalf("status %v, %s, %d messages for %d cases", r.Status, textOf(r), len(got), len(cases))
			}
			for n, c := range cases {
				if got[n].Text != c[1] {
					t.Errorf("%s\n got %q\nwant %q", c[0], got[n].Text, c[1])
				}
			}
		})
	}
}

func TestTextEncoding(t *testing.T) {
	each(t, [][2]string{
		{"[...new TextEncoder().encode('aé漢😀')].join(' ')", "97 195 169 230 188 162 240 159 152 128"},
		{`[...new TextEncoder().encode('\ud800x\udc00')].join(' ')`, "239 191 189 120 239 191 189"},
		{"new TextEncoder().encode().length", "0"},
		{"(() => { const b = new Uint8Array(4); const r = new TextEncoder().encodeInto('aé漢', b); return [r.read, r.written, ...b].join(' ') })()", "2 3 97 195 169 0"},
		{"new TextEncoder().encodeInto('a', [])", "TypeError ERR_INVALID_ARG_TYPE"},
		{"new TextDecoder().decode(Uint8Array.of(97, 195, 169, 240, 159, 152, 128))", "aé😀"},
		{"new TextDecoder('UTF8 ').encoding", "utf-8"},
		{"new TextDecoder('latin1').encoding", "windows-1252"},
		{"new TextDecoder('latin1').decode(Uint8Array.of(0xe9, 0x80))", "\u00e9\u20ac"},
		{"new TextDecoder('utf-16', { fatal: true }).decode(Uint8Array.of(0, 0xd8))", "TypeError ERR_ENCODING_INVALID_ENCODED_DATA"},
		{"new TextDecoder('utf-16le')", "TextDecoder { encoding: 'utf-16le', fatal: false, ignoreBOM: false }"},
		{"new (class D extends TextDecoder {})", "D { encoding: 'utf-8', fatal: false, ignoreBOM: false }"},
		{"TextDecoder.prototype.decode.call({})", "TypeError ERR_INVALID_THIS"},
		{"new TextDecoder('none')", "RangeError ERR_ENCODING_NOT_SUPPORTED"},
		// Each longest valid prefix has one replacement. Overlong forms and surrogates are not
		// valid.
		{"new TextDecoder().decode(Uint8Array.of(0xf0, 0x9f, 0x98, 65))", "\ufffdA"},
		{"new TextDecoder().decode(Uint8Array.of(0xc0, 0x80))", "\ufffd\ufffd"},
		{"new TextDecoder().decode(Uint8Array.of(0xed, 0xa0, 0x80))", "\ufffd\ufffd\ufffd"},
		{"new TextDecoder().decode(Uint8Array.of(0xf4, 0x90, 0x80, 0x80)).length", "4"},
		{"new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.of(0xff))", "TypeError ERR_ENCODING_INVALID_ENCODED_DATA"},
		{"new TextDecoder().decode(Uint8Array.of(0xef, 0xbb, 0xbf, 65)).length", "1"},
		{"new TextDecoder('utf-8', { ignoreBOM: true }).decode(Uint8Array.of(0xef, 0xbb, 0xbf, 65)).length", "2"},
		{"(() => { const d = new TextDecoder(); return [d.decode(Uint8Array.of(0xe6, 0xbc), { stream: true }), d.decode(Uint8Array.of(0xa2), { stream: true }), d.decode()].join('|') })()", "|漢|"},
		{"new TextDecoder().decode(new DataView(Uint8Array.of(1, 65, 66, 1).buffer, 1, 2))", "AB"},
		{"new TextDecoder().decode('text')", "TypeError ERR_INVALID_ARG_TYPE"},
		{"new TextDecoder().decode(new TextEncoder().encode('漢'.repeat(100000))) === '漢'.repeat(100000)", "true"},
	})
}

func TestBase64(t *testing.T) {
	each(t, [][2]string{
		{"btoa('')", ""}, {"btoa('a')", "YQ=="}, {"btoa('ab')", "YWI="}, {"btoa('abc')", "YWJj"}, {`btoa('\xff\xfe')`, "//4="}, {"btoa('é漢')", "InvalidCharacterError 5"},
		{"btoa()", "TypeError ERR_MISSING_ARGS"}, {"btoa(null)", "bnVsbA=="},
		{"atob('YQ==')", "a"}, {"atob('YWI')", "ab"}, {"atob(' Y\\nWJ j ')", "abc"}, {`[...atob('//4=')].map(c => c.charCodeAt()).join(' ')`, "255 254"},
		{"atob('Y')", "InvalidCharacterError 5"}, {"atob('YQ=')", "InvalidCharacterError 5"}, {"atob('YQ===')", "InvalidCharacterError 5"}, {"atob('Y=Q=')", "InvalidCharacterError 5"},
		{"atob('Y*==')", "InvalidCharacterError 5"}, {"atob('YWJj====')", "InvalidCharacterError 5"},
	})
}

func TestStructuredClone(t *testing.T) {
	each(t, [][2]string{
		{"structuredClone({ a: [1, , { b: 2n }], c: new Date(0), d: /x/g, e: new Map([[1, new Set([2])]]), f: Object('s') })",
			"{\n  a: [ 1, <1 empty item>, { b: 2n } ],\n  c: 1970-01-01T00:00:00.000Z,\n  d: /x/g,\n  e: Map(1) { 1 => Set(1) { 2 } },\n  f: [String: 's']\n}"},
		{"(() => { const a = { m: new Map() }; a.self = a; a.m.set(a, a.m); const c = structuredClone(a); return c !== a && c.self === c && c.m.get(c) === c.m })()", "true"},
		{"structuredClone(new (class A { x = 1; #y = 2 }))", "{ x: 1 }"},
		{"structuredClone({ get a() { return 1 } })", "{ a: 1 }"},
		{"structuredClone(Object.assign(/x/g, { lastIndex: 5 })).lastIndex", "0"},
		{"(() => { const e = structuredClone(Object.assign(new RangeError('m', { cause: { a: 1 } }), { x: 1 })); return [e instanceof RangeError, e.message, e.cause.a, e.x, Object.keys(e).length].join(' ') })()", "true m 1  0"},
		{"(() => { const b = new ArrayBuffer(8); const c = structuredClone([new Uint8Array(b, 2, 3), new Uint16Array(b), b, new DataView(b, 1)]); return c[0].buffer === c[2] && c[1].buffer === c[2] && c[3].buffer === c[2] && c[2] !== b && [c[0].byteOffset, c[0].length, c[1].length, c[3].byteLength].join(' ') })()", "2 3 4 7"},
		{"(() => { const b = new ArrayBuffer(2, { maxByteLength: 9 }); return structuredClone(b).maxByteLength })()", "9"},
		{"(() => { const u = Uint8Array.of(1, 2, 3); const c = structuredClone({ u }, { transfer: [u.buffer] }); return [u.length, u.buffer.detached, ...c.u].join(' ') })()", "0 true 1 2 3"},
		// If a value cannot be cloned, the buffers to transfer stay attached.
		{"(() => { const b = new ArrayBuffer(2); try { structuredClone(() => 1, { transfer: [b] }) } catch (e) { return `${e.message} ${b.detached}` } })()", "() => 1 could not be cloned. false"},
		{"(() => { const b = new ArrayBuffer(2); return structuredClone(1, { transfer: [b, b] }) })()", "DataCloneError 25"},
		{"(() => { const b = new ArrayBuffer(2); b.transfer(); return structuredClone(b) })()", "DataCloneError 25"},
		{"structuredClone(1, { transfer: [{}] })", "TypeError ERR_INVALID_TRANSFER_OBJECT"},
		{"structuredClone()", "TypeError ERR_MISSING_ARGS"},
		{"['Symbol()', '() => 1', '(class A {})', 'new WeakMap', 'new WeakRef({})', 'Promise.resolve()', 'new Proxy({}, {})', '(function* () {})()', 'new FinalizationRegistry(() => {})', '[].values()', '\"\"[Symbol.iterator]()', 'new Map().keys()', '(function () { return arguments })()', '[Symbol()]', 'Object(Symbol())'].map(x => caught(() => structuredClone(eval(x)))).filter(x => x !== 'DataCloneError 25')", "[]"},
	})
}

// Replaced built-in functions have no effect on these functions. The tag is not replaced, because
// printing reads it, as in Node.
func TestEncodingAmongPatchedBuiltins(t *testing.T) {
	const patch = `{
	const bad = () => { throw new Error('patched') };
	const { defineProperty } = Object, { ownKeys } = Reflect, targets = [];
	for (const target of [Map.prototype, Set.prototype, Object.getPrototypeOf(Uint8Array.prototype), ArrayBuffer.prototype, String.prototype, RegExp.prototype,
		Date.prototype, Reflect, Object, String, Object.getPrototypeOf(new Map().entries()), Array.prototype, Function.prototype])
		for (const key of ownKeys(target)) if (key !== 'constructor' && key !== 'length' && key !== 'name' && key !== Symbol.toStringTag && Object.getOwnPropertyDescriptor(target, key).configurable) targets.push([target, key]);
	for (let i = 0; i < targets.length; i++) defineProperty(targets[i][0], targets[i][1], { __proto__: null, get: bad, set: bad });
	for (let i = 0; i < 9; i++) defineProperty(Array.prototype, i, { __proto__: null, get: bad, set: bad, configurable: true });
}
`
	const source = `const e = new TextEncoder(), d = new TextDecoder(), value = { m: new Map([[1, new Set([2])]]), u: new Uint8Array(2), d: new Date(0), r: /x/gi, a: [1, { b: 2 }] };
` + patch + `console.log(d.decode(e.encode('aé漢😀')) + btoa('abc') + atob('YWJj'));
const copy = structuredClone(value);
console.log(copy.a[1].b, copy.m, copy.d, copy.r, copy.u);`
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			r, got := print(t, mode.cfg, source)
			want := []string{"aé漢😀YWJjabc", "2 Map(1) { 1 => Set(1) { 2 } } 1970-01-01T00:00:00.000Z /x/gi Uint8Array(2) [ 0, 0 ]"}
			for n := range want {
				if n >= len(got) || got[n].Text != want[n] {
					t.Fatalf("%v %s: got %v\nwant %q", r.Status, textOf(r), got, want)
				}
			}
		})
	}
}

// Text coding and Base64 are loaded when a script first uses them. What scripts did before makes no
// difference, in the same run and in the next one: also not if the stack was too full to load them.
func TestTextCodingIsLoadedAfterOtherScripts(t *testing.T) {
	const use = `new TextDecoder().decode(new TextEncoder().encode('é')) + new TextDecoder('latin1').decode(Uint8Array.of(233)) + atob(btoa('x')) + new URL('http://a/é').pathname + await new Blob(['é']).text() +
		[TextEncoder, TextDecoder, atob, btoa].map(f => f.name + f.length + Object.getOwnPropertyNames(f))`
	deep := func(what string) string {
		return "let n = 0; const f = () => { try { f() } catch {} if (n++ < 2500) try { " + what + " } catch {} }; f()"
	}
	want := run(t, v8.Config{}, use).text
	for _, before := range []string{
		deep("TextEncoder"), deep("new TextDecoder('latin1')"), deep("atob"), deep("btoa('x')"), deep("URL"), deep("Blob"),
		"Object.freeze(globalThis)", "Object.freeze(Object.prototype); Object.freeze(Function.prototype)", "delete Function.prototype.call.name; delete Function.prototype.call.length",
		"Error.prepareStackTrace = () => { throw 1 }; Error.stackTraceLimit = 0",
		"globalThis.d = new (class D extends TextDecoder {}); d.decode(Uint8Array.of(0xe6, 0xbc), { stream: true })",
	} {
		for _, mode := range modes {
			if _, got := print(t, mode.cfg, before+"; console.log("+use+")"); len(got) != 1 || got[0].Text != want {
				t.Errorf("%s: %.90s: %v", mode.name, before, got)
			}
		}
		heap := saved(t, before)
		if got := run(t, v8.Config{Heap: heap}, use).text; got != want {
			t.Errorf("after %.90s: %q", before, got)
		}
		if one, both := inspect(t, heap).Changes, inspect(t, saved(t, before, "void ["+use+"]")).Changes; one != both {
			t.Errorf("%.90s: %d changes, and %d when the parts are loaded", before, one, both)
		}
	}
}

// A decoder of a stream in ISO-2022-JP keeps what earlier bytes select, and no bytes: each part
// costs what it is long, however much text came before.
func TestStreamOfISO2022JP(t *testing.T) {
	const decode = `
const part = Uint8Array.from({ length: 1001 }, (_, i) => (i % 2 === 0 ? 0x24 : 0x22));
const decoder = new TextDecoder("iso-2022-jp", { fatal: true });
decoder.decode(Uint8Array.of(0x1b, 0x24, 0x42), { stream: true });
let length = 0;
for (let i = 0; i < parts; i++) length += decoder.decode(part, { stream: true }).length;
length;`
	few := run(t, v8.Config{}, "const parts = 2;"+decode)
	many := run(t, v8.Config{}, "const parts = 2000;"+decode)
	if few.text != "1001" || many.text != "1001000" {
		t.Errorf("decoded %s and %s characters", few.text, many.text)
	}
	if len(many.heap) > len(few.heap)+100_000 {
		t.Errorf("after 2 kB the heap has %d bytes, after 2 MB %d", len(few.heap), len(many.heap))
	}
	if got := run(t, v8.Config{Heap: many.heap}, `decoder.decode(Uint8Array.of(0x24, 0x22, 0x1b, 0x28, 0x42, 0x61))`).text; got != "あa" {
		t.Errorf("the next run decodes %q", got)
	}
}
