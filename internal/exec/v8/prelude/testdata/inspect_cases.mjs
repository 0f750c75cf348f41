// Expressions whose inspection is recorded. Each must be free of side effects on
// the realm: the tests evaluate all of them in one.

const tag = String.raw;

const primitives = [
  "undefined", "null", "true", "false", "0", "-0", "1", "-1.5", "1e21", "1e-7", "123456789.123", "NaN", "Infinity", "-Infinity",
  "0n", "-5n", "123456789012345678901234567890n", "Symbol()", "Symbol('d')", "Symbol.iterator", "Symbol.for('reg')", "Symbol('with space')",
  tag`Symbol('quote\'s and \n newline')`,
];

const strings = [
  "''", "'plain'", tag`"it's"`, tag`'say "hi"'`, tag`'both \' and "'`, tag`"all ' \" \``, tag`'\' " \${x}'`, tag`'line\nbreak'`, tag`'tab\tcr\rnul\0bell\x07'`,
  tag`'back\\slash'`, tag`'\x1b[31mred\x1b[0m'`, tag`'\x7f\x80\x9f'`, tag`'\ud800'`, tag`'\udc00x'`, tag`'\u{1f600}'`, "'h\u00e9llo w\u00f6rld \u65e5\u672c\u8a9e'",
  "'x'.repeat(20000)", "'y'.repeat(10001)", "['x'.repeat(20000)]", tag`'a\n'.repeat(3)`, tag`['one line\nanother line\nand a third line that is quite long, longer than the rest']`,
  tag`{ text: 'first line of some length here\nsecond line of some length here\nthird line of some length here' }`, tag`['short\ntext']`,
  tag`{ deep: { deeper: 'some text that is long enough to be broken\ninto several lines when it is nested like this one\n' } }`,
  tag`['\u2028\u2029']`, tag`'\ufeffbom'`, tag`{ 'a\nb': 1, "it's": 2, 'a-b': 3, '1a': 4, 'é': 5, '': 6, $: 7, _x: 8 }`,
].map((s) => (s.endsWith("`") && s.startsWith('"all') ? "\"all ' \\\" `\"" : s));

const objects = [
  "{}", "{ a: 1 }", "{ a: 1, b: 'two', c: [3] }", "{ a: { b: { c: {} } } }", "{ a: { b: { c: { d: 1 } } } }", "{ a: { b: { c: [] } } }", "{ a: { b: { c: [1] } } }",
  "{ a: undefined, b: null, c: -0 }", "[[[[]]]]", "[[[[1]]]]", "[[[{}]]]", "[[[{ a: 1 }]]]", "{ a: [{ b: [{ c: 1 }] }] }",
  "{ 1: 'a', 0: 'b', '-1': 'c', '01': 'd' }", "{ [Symbol('s')]: 1, [Symbol()]: 2, [Symbol.iterator]: 3 }",
  "{ ['__proto__']: 1 }", "Object.create(null)", "Object.assign(Object.create(null), { a: 1 })", "Object.create({})", "Object.create({ inherited: 1 })", "Object.create(Object.create(null))",
  "{ __proto__: { constructor: { name: 'Fake' } }, a: 1 }", "{ constructor: 'own' }", "{ constructor: { name: 'Own' } }",
  "{ aaaaaaaaaaaaaaaaaaaa: 1, bbbbbbbbbbbbbbbbbbbb: 2, cccccccccccccccccccc: 3, ddddddddd: 4 }",
  "{ aaaaaaaaaaaaaaaaaaaa: 1, bbbbbbbbbbbbbbbbbbbb: 2, cccccccccccccccccccc: 3, dddddddddd: 4 }",
  "{ aaaaaaaaaaaaaaaaaaaa: 1, bbbbbbbbbbbbbbbbbbbb: 2, cccccccccccccccccccc: 3, ddddddddddd: 4 }",
  "{ a: { x: 1, y: { z: 2 } }, b: { x: 1, y: { z: 2 } }, c: [1, 2, [3, [4]]] }",
  "{ name: 'daybook', tags: ['a', 'b'], nested: { count: 12, list: [{ id: 1, ok: true }, { id: 2, ok: false }] } }",
  "Object.fromEntries(Array.from({ length: 30 }, (_, i) => ['key' + i, i]))", "Object.fromEntries(Array.from({ length: 120 }, (_, i) => ['k' + i, i]))",
  "{ get a() { throw 1 } }", "{ set a(v) {} }", "{ get a() { return 1 }, set a(v) {} }", "Object.defineProperty({}, 'hidden', { value: 1 })",
  "Object.defineProperty({}, 'shown', { value: 1, enumerable: true })", "Object.defineProperty({ a: 1 }, Symbol('hidden'), { value: 1 })", "Object.freeze({ a: 1 })", "Object.seal([1])",
  "[{ a: 1, b: 2 }, { a: 3, b: 4 }]", "{ f() {}, g: () => {}, h: class {}, async i() {}, *j() {} }",
  "{ a: 'x'.repeat(70) }", "{ a: 'x'.repeat(80), b: 1 }", "{ a: 1, toString() { throw 1 }, valueOf() { throw 2 }, toJSON() { throw 3 } }", "globalThis.undefinedThing === undefined ? { ok: 1 } : 0",
  "JSON", "Math", "Reflect", "Atomics",
];

const tagged = [
  "{ [Symbol.toStringTag]: 'Tagged' }", "Object.create({ [Symbol.toStringTag]: 'Inherited' })", "Object.defineProperty({}, Symbol.toStringTag, { value: 'Hidden' })",
  "Object.defineProperty({ a: 1 }, Symbol.toStringTag, { value: '' })", "Object.defineProperty(Object.create(null), Symbol.toStringTag, { value: 'NullTag' })",
  "new (class Foo { get [Symbol.toStringTag]() { return 'Bar' } })", "new (class Foo { get [Symbol.toStringTag]() { return 'Foo' } })", "new (class Foo extends Map { get [Symbol.toStringTag]() { return 'Bar' } })",
  "new (class extends Array { get [Symbol.toStringTag]() { return 'T' } })(3)", "new (class Foo { get [Symbol.toStringTag]() { return 5 } })",
  "Object.assign(new (class Foo { get [Symbol.toStringTag]() { return 'Bar' } }), { a: 1, b: { c: 2 } })",
  "Object.defineProperty(function f() {}, Symbol.toStringTag, { value: 'FnTag' })", "Object.defineProperty(class K {}, Symbol.toStringTag, { value: 'ClassTag' })",
  "Object.defineProperty(new Date(0), Symbol.toStringTag, { value: 'DateTag' })", "Object.defineProperty(/x/, Symbol.toStringTag, { value: 'RxTag' })",
  "Object.defineProperty([1], Symbol.toStringTag, { value: 'ArrTag' })", "Object.defineProperty(new Error('x'), Symbol.toStringTag, { value: 'ErrTag' })",
  "Object.defineProperty(Object(5), Symbol.toStringTag, { value: 'BoxTag' })", "Object.defineProperty(Promise.resolve(1), Symbol.toStringTag, { value: 'PTag' })",
];

const classes = [
  "new (class Foo {})", "new (class Foo { x = 1; #secret = 2; static s = 3 })", "new (class Foo extends (class Bar {}) {})", "new (class {})",
  "new (class Foo { constructor() { this.a = { b: { c: { d: 1 } } } } })", "new (class Foo { get accessor() { return 1 } })", "{ a: { b: { c: new (class Deep { x = 1 }) } } }", "{ a: { b: { c: new (class Deep {}) } } }",
  "class {}", "class Foo {}", "class Foo extends Map {}", "class Foo extends null {}", "class extends Array {}", "class Foo { static a = 1; static b() {} }", "class Foo { static name = 'Other' }", "class Foo { static name = 5 }",
  "new (class Foo extends Map {})([[1, 2]])", "new (class Foo extends Set {})([1])", "new (class Foo extends Array {})(1, 2)", "new (class Foo extends Promise {})(() => {})", "new (class Foo extends Date {})(0)",
  "new (class Foo extends RegExp {})('x', 'g')", "new (class Foo extends Uint8Array {})(2)", "new (class Foo extends ArrayBuffer {})(2)", "new (class Foo extends Function {})('return 1')", "new (class Foo extends String {})('s')", "new (class Foo extends Number {})(5)",
  "new (class Foo extends WeakMap {})", "new (class Foo extends Object {})", "(() => { class A {} A.prototype.constructor = undefined; return new A })()",
  "(() => { class A {} Object.setPrototypeOf(A.prototype, null); return new A })()", "(() => { function Old() { this.v = 1 } return new Old })()", "(() => { function Old() {} Old.prototype = { a: 1 }; return new Old })()",
  "(() => { const o = new (class Foo { x = 1 }); Object.setPrototypeOf(o, null); return o })()", "Object.setPrototypeOf(new Map([[1, 2]]), null)", "Object.setPrototypeOf(new Set([1]), null)",
  "Object.setPrototypeOf([1, 2], null)", "Object.setPrototypeOf(new Date(0), null)", "Object.setPrototypeOf(/x/g, null)", "Object.setPrototypeOf(Promise.resolve(1), null)", "Object.setPrototypeOf(new Uint8Array(2), null)",
  "Object.setPrototypeOf(function f() {}, {})", "Object.setPrototypeOf(new ArrayBuffer(2), {})", "{ a: { b: { c: Object.setPrototypeOf([1], null) } } }", "{ a: { b: { c: Object.setPrototypeOf(new Map([[1, 2]]), null) } } }", "{ a: { b: { c: Object.assign(Object.create(null), { x: 1 }) } } }", "Object.setPrototypeOf(function f() {}, null)", "Object.setPrototypeOf(class F {}, null)", "Object.setPrototypeOf(new Error('e'), null)", "Object.setPrototypeOf(new TypeError('e'), null)", "Object.setPrototypeOf(Object(1), null)", "Object.setPrototypeOf(new WeakSet, null)",
  "Object.setPrototypeOf([1], {})", "Object.setPrototypeOf(new Map, Set.prototype)", "Object.setPrototypeOf({ a: 1 }, Array.prototype)", "Object.setPrototypeOf({}, Error.prototype)", "Object.create(Error.prototype)", "Object.create(Date.prototype)", "Object.create(Map.prototype)",
  "(class A {}).prototype", "(class B extends (class A {}) {}).prototype", "(function F() {}).prototype", "Map.prototype", "Set.prototype", "Array.prototype", "Promise.prototype", "Date.prototype", "RegExp.prototype", "Error.prototype", "TypeError.prototype", "Function.prototype", "Symbol.prototype", "Number.prototype", "String.prototype", "Boolean.prototype", "BigInt.prototype", "Object.prototype", "WeakMap.prototype", "ArrayBuffer.prototype", "DataView.prototype",
];

const arrays = [
  "[]", "[1, 2, 3]", "['a', 'b']", "[undefined, null]", "[,]", "[, 1]", "[1, , 3]", "[, , , 1, , ]", "new Array(5)", "new Array(101)", "Array(3).fill()", "[1, , , ,]",
  "Array.from({ length: 6 }, (_, i) => i)", "Array.from({ length: 7 }, (_, i) => i)", "Array.from({ length: 27 }, (_, i) => i * 7)", "Array.from({ length: 100 }, (_, i) => i)", "Array.from({ length: 101 }, (_, i) => i)", "Array.from({ length: 102 }, (_, i) => i)", "Array.from({ length: 250 }, (_, i) => i * i)",
  "Array.from({ length: 26 }, (_, i) => String.fromCharCode(97 + i))", "Array.from({ length: 30 }, (_, i) => 'word' + 'x'.repeat(i % 7))", "Array.from({ length: 10 }, (_, i) => 'x'.repeat(i * 3))", "Array.from({ length: 20 }, (_, i) => ({ i }))", "Array.from({ length: 8 }, (_, i) => [i])", "Array.from({ length: 40 }, (_, i) => -i / 3)", "Array.from({ length: 16 }, (_, i) => BigInt(i) ** 5n)",
  "Array.from({ length: 12 }, (_, i) => i % 2 ? i : 's' + i)", "Array.from({ length: 9 }, () => '\\u65e5\\u672c')", "Array.from({ length: 9 }, (_, i) => '\\u{1f600}'.repeat(i % 3 + 1))", "Array.from({ length: 9 }, (_, i) => 'e\\u0301'.repeat(i % 3 + 1))", "Array.from({ length: 7 }, () => true)", "Array.from({ length: 7 }, () => undefined)", "Array.from({ length: 7 }, () => Symbol('s'))",
  "Object.assign([1, 2], { extra: 'x' })", "Object.assign([], { '-1': 1, a: 2 })", "Object.assign([1, , 3], { k: 1 })", "Object.assign(Array.from({ length: 120 }, (_, i) => i), { k: 1 })", "(() => { const a = []; a[200] = 1; a[300] = 2; return a })()", "(() => { const a = []; a[4294967294] = 1; return a })()", "(() => { const a = Array.from({ length: 99 }, (_, i) => i); a[150] = 1; a[200] = 2; return a })()",
  "(() => { const a = [1, 2]; Object.defineProperty(a, 0, { get() { throw 1 } }); return a })()", "(() => { const a = [1, 2]; Object.defineProperty(a, 1, { enumerable: false }); return a })()", "Object.defineProperty([1], 'h', { value: 1 })", "[[1, 2, [3, 4, [5, [6]]]], { a: { b: { c: { d: 1 } } } }]",
  "[1.5, 2.25, -3, 100, 20000, 1e21, NaN]", "['a'.repeat(30), 'b'.repeat(30), 'c'.repeat(30)]", "[['a', 1], ['b', 2], ['c', 3]]", "Array.from({ length: 7 }, (_, i) => ['row' + i, i])", "[[], {}, [[]], [{}]]", "[function () {}, class {}, Symbol('x'), 1n]", "Array.from({ length: 3 }, () => Array.from({ length: 10 }, (_, i) => i))",
  "{ matrix: Array.from({ length: 3 }, () => Array.from({ length: 10 }, (_, i) => i)) }", "Array.from({ length: 110 }, (_, i) => 'item number ' + i)",
];

const collections = [
  "new Map", "new Map([[1, 2]])", "new Map([['a', { b: 1 }], [{ k: 1 }, [1]]])", "new Map([[new Map([[1, 2]]), new Set([1])]])", "new Map(Array.from({ length: 101 }, (_, i) => [i, i]))", "{ a: { b: { c: new Map([[1, 2]]) } } }", "{ a: { b: { c: new Map } } }", "Object.assign(new Map([[1, 2]]), { x: 1 })",
  "new Set", "new Set([1, 'a', {}])", "new Set(Array.from({ length: 7 }, (_, i) => i))", "new Set(Array.from({ length: 102 }, (_, i) => i))", "Object.assign(new Set([1]), { x: 1 })", "new Set([new Set([new Set([new Set([1])])])])",
  "new Map([[1, 2]]).entries()", "new Map([[1, 2], ['a', 'b']]).keys()", "new Map([[1, { a: 1 }]]).values()", "new Map([[1, 2]])[Symbol.iterator]()", "new Set([1, 2]).values()", "new Set([1, 2]).entries()", "(() => { const i = new Set([1, 2, 3]).values(); i.next(); return i })()", "(() => { const i = new Map([[1, 2]]).entries(); i.next(); i.next(); return i })()", "new Map().entries()", "Object.assign(new Map([[1, 2]]).keys(), { extra: 1 })",
  "new Map(Array.from({ length: 12 }, (_, i) => [i, i])).entries()", "new Map([['long key '.repeat(5), 'long value '.repeat(5)]]).entries()", "new WeakMap", "new WeakMap([[{}, 1]])", "new WeakSet([{}])", "Object.assign(new WeakSet, { a: 1 })", "new WeakRef({ a: 1 })", "[1, 2][Symbol.iterator]()", "'ab'[Symbol.iterator]()", "'ab'.matchAll(/a/g)", "new FinalizationRegistry(() => {})",
  "new Map([['k', new Map([['k', new Map([['k', new Map([['k', 1]])]])]])]])", "[new Map([[1, { a: { b: { c: 1 } } }]])]", "new Map([[null, undefined], [NaN, -0]])",
];

const promises = [
  "Promise.resolve(1)", "Promise.resolve({ a: [1] })", "new Promise(() => {})", "(() => { const p = Promise.reject(new Error('no')); p.catch(() => {}); return p })()", "(() => { const p = Promise.reject(3); p.catch(() => {}); return p })()", "Object.assign(Promise.resolve(1), { extra: 1 })", "[Promise.resolve([Promise.resolve(1)])]", "{ a: { b: { c: Promise.resolve(1) } } }", "(async () => {})()",
  "(async () => { await new Promise(() => {}) })()",
];

const proxies = [
  "new Proxy({ a: 1 }, { get() { throw 1 }, ownKeys() { throw 2 } })", "new Proxy([1, 2], {})", "new Proxy(function f() {}, {})", "new Proxy(class K {}, {})", "new Proxy(new Map([[1, 2]]), {})", "new Proxy(new Proxy({ a: 1 }, {}), {})", "(() => { const r = Proxy.revocable({}, {}); r.revoke(); return r.proxy })()", "{ p: new Proxy({ deep: { x: {} } }, {}) }", "new Proxy(new (class Foo { x = 1 }), { getPrototypeOf() { throw 1 } })",
  "Object.create(new Proxy({ a: 1 }, {}))",
];

const binary = [
  "new Uint8Array()", "new Uint8Array([1, 2, 3])", "new Uint8Array(200)", "new Int8Array([-1])", "new Uint8ClampedArray([300])", "new Uint16Array(7)", "new Int32Array([1, -2])", "new Float32Array([1.5])", "new Float64Array([0.1, -0, NaN, Infinity])", "new BigInt64Array([1n, -1n])", "new BigUint64Array(8)", "Object.assign(new Uint8Array(2), { extra: 1 })", "{ a: { b: { c: new Uint8Array(3) } } }",
  "new ArrayBuffer(0)", "new ArrayBuffer(3)", "new Uint8Array([1, 2, 255, 16]).buffer", "new ArrayBuffer(120)", "Object.assign(new ArrayBuffer(2), { x: 1 })", "(() => { const b = new ArrayBuffer(4); structuredCloneDetach(b); return b })()", "new ArrayBuffer(4, { maxByteLength: 8 })", "new DataView(new ArrayBuffer(4), 1, 2)", "Object.assign(new DataView(new ArrayBuffer(1)), { x: 1 })", "[new Uint8Array([1]), new ArrayBuffer(1)]", "new Uint8Array(new ArrayBuffer(8), 2, 3)",
].filter((expr) => !expr.includes("structuredCloneDetach"));

const fixedStack = "(() => { const e = new Error('framed'); e.stack = 'Error: framed\\n    at f (file.js:1:2)\\n    at g (file.js:3:4)'; return e })()";
const withStack = (make, stack, then = "") => `(() => { const e = ${make}; e.stack = ${JSON.stringify(stack)}; ${then} return e })()`;

const errors = [
  "new Error('plain')", "new Error('')", "new Error()", "new TypeError('t')", "new RangeError('r')", "new SyntaxError('s')", "new EvalError('e')", "new Error('two\\nlines')", "[new Error('in array')]", "{ e: new Error('in object') }", "{ a: { b: { c: new Error('deep') } } }",
  "Object.assign(new Error('props'), { code: 'E1', detail: { a: 1 } })", "new Error('outer', { cause: new Error('inner') })", "new Error('outer', { cause: 'text' })", "new Error('outer', { cause: undefined })", "new Error('outer', { cause: { a: 1 } })", "new AggregateError([new Error('a'), 2], 'many')", "new AggregateError([])", "(() => { const e = new Error('self'); e.self = e; return e })()", "(() => { const e = new Error('c'); e.cause = e; return e })()",
  "new (class MyError extends Error {})('custom')", "new (class MyError extends Error { constructor(m) { super(m); this.name = 'MyError' } })('named')", "new (class MyError extends TypeError { name = 'Other' })('named')", "new (class Validation extends Error { get name() { return 'ValidationError' } })('v')", "new (class extends Error {})('anonymous class')", "Object.assign(new Error('renamed'), { name: 'Custom' })", "Object.assign(new Error('x'), { stack: 'only this' })", "Object.assign(new Error('x'), { stack: '' })", "Object.assign(new Error('x'), { stack: 5 })", "Object.assign(new Error('x'), { stack: undefined })", "Object.assign(new Error('x'), { name: 5 })", "Object.assign(new Error('x'), { name: null })",
  "Object.defineProperty(new Error('x'), 'name', { value: 'Hidden' })", "Object.defineProperty(new Error('x'), 'extra', { value: 'hidden' })",
  fixedStack, `[${fixedStack}]`, `{ e: ${fixedStack} }`, `{ a: { b: { e: ${fixedStack} } } }`, `Object.assign(${fixedStack}, { code: 5 })`,
  withStack("new (class MyError extends Error {})('m')", "Error: m\n    at f (x.js:1:1)"), withStack("new TypeError('m')", "TypeError: m\n    at f (x.js:1:1)", "e.name = 'Renamed';"), withStack("new Error('m')", "TypeError [CODE]: m\n    at f (x.js:1:1)", "e.code = 'CODE';"), withStack("new Error('multi\\n    at fake')", "Error: multi\n    at fake\n    at f (x.js:1:1)"),
  withStack("new Error('outer', { cause: Object.assign(new Error('inner'), { stack: 'Error: inner\\n    at i (x.js:9:9)\\n    at a (x.js:1:1)\\n    at b (x.js:2:2)\\n    at c (x.js:3:3)\\n    at d (x.js:4:4)\\n    at e (x.js:5:5)' }) })", "Error: outer\n    at o (x.js:8:8)\n    at a (x.js:1:1)\n    at b (x.js:2:2)\n    at c (x.js:3:3)\n    at d (x.js:4:4)\n    at e (x.js:5:5)"),
  withStack("new Error('outer', { cause: Object.assign(new Error('inner'), { stack: 'Error: inner\\n    at i (x.js:9:9)\\n    at a (x.js:1:1)\\n    at b (x.js:2:2)' }) })", "Error: outer\n    at o (x.js:8:8)\n    at a (x.js:1:1)\n    at b (x.js:2:2)"),
  withStack("new AggregateError([new Error('one')], 'agg')", "AggregateError: agg\n    at f (x.js:1:1)"), withStack("new Error('m')", "no header\n    at f (x.js:1:1)"), withStack("new Error('m')", "    at f (x.js:1:1)"), "new Error('x'.repeat(200))", "[[[new Error('e', { cause: new Error('c', { cause: new Error('d') }) })]]]", "Object.setPrototypeOf(Object.assign(new Error('e'), { a: 1 }), null)", "{ __proto__: Error.prototype, message: 'duck', stack: 'Error: duck\\n    at q' }", "Object.assign(new Error('e'), { errors: [1] })", "Object.assign(new Error('e'), { errors: 1 })",
];

const circular = [
  "(() => { const a = {}; a.self = a; return a })()", "(() => { const a = []; a.push(a); return a })()", "(() => { const a = { b: {} }; a.b.a = a; a.b.b = a.b; return a })()", "(() => { const m = new Map; m.set('m', m); return m })()", "(() => { const s = new Set; s.add(s); return s })()", "(() => { class Node { constructor() { this.me = this } } return new Node })()", "(() => { const f = function f() {}; f.f = f; return f })()", "(() => { const a = { x: 1 }; return [a, a] })()", "(() => { const p = Promise.resolve(1); p.p = p; return p })()", "(() => { const a = { l: {} }; a.l.l = { l: { a } }; return a })()", "(() => { const a = {}, b = { a }; a.b = b; return { a, b } })()", "(() => { const m = new Map; m.set(m, 1); return [m] })()", "(() => { const o = Object.create(null); o.o = o; return o })()",
];

const boxed = [
  "Object(1)", "Object(-0)", "Object('str')", "Object('')", "Object(true)", "Object(1n)", "Object(Symbol('b'))", "Object.assign(Object('ab'), { x: 1 })", "Object.assign(Object(1), { x: 1 })", "[Object('a\\'b')]",
];

const dates = [
  "new Date(0)", "new Date(1700000000123)", "new Date(NaN)", "new Date(8.64e15)", "new Date(-1)", "Object.assign(new Date(0), { x: 1 })", "[new Date(0)]", "{ a: { b: { c: new Date(0) } } }", "Object.assign(new Date(0), { toISOString() { throw 1 } })",
  "/a/", "/a\\/b/gi", "new RegExp('')", "/[/]\\n/dgimsuy", "/x/v", "Object.assign(/x/, { a: 1 })", "{ a: { b: { c: /x/ } } }", "Object.assign(/x/g, { lastIndex: 5 })", "/(?<n>a)(b)?/.exec('a')", "'aXbX'.match(/X/g)", "'x'.match(/(x)/)",
];

const functions = [
  "function () {}", "function named() {}", "() => {}", "async () => {}", "async function af() {}", "function* g() {}", "async function* ag() {}", "Object.assign(function f() {}, { a: 1 })", "Object.assign(() => {}, { a: { b: { c: { d: 1 } } } })", "Object.defineProperty(function f() {}, 'name', { value: '' })", "Object.defineProperty(function f() {}, 'name', { value: 5 })", "Object.defineProperty(function f() {}, 'name', { value: undefined })", "(function f() {}).bind(null)", "Math.max", "Map", "Symbol", "{ method() {} }.method", "Object.getOwnPropertyDescriptor({ get x() { return 1 } }, 'x').get", "Object.getOwnPropertyDescriptor(Map.prototype, 'size').get", "new Function('a', 'return a')", "(function* () {})()", "(async function* () {})()", "Object.assign((function* () {})(), { a: 1 })", "Object.getPrototypeOf(function* () {})", "Object.getPrototypeOf(async () => {})", "{ a: { b: { c: function f() {} } } }", "{ a: { b: { c: Object.assign(function f() {}, { x: 1 }) } } }", "class /* { */ Foo /* ( */ {}", "class A { 'a'() {} }", "function class_() {}", "Object.setPrototypeOf(function f() {}, Object.create(Function.prototype))", "Object.assign(class A {}, { prop: 1 })", "Object.defineProperty(class A {}, 'name', { value: '' })",
  "(function () { return arguments })(1, 2)", "(function () { return arguments })()", "(function () { 'use strict'; return arguments })('a', { b: 1 })", "Object.assign((function () { return arguments })(1), { x: 1 })", "globalThis.eval",
];

const custom = [
  "{ [Symbol.for('nodejs.util.inspect.custom')]() { return 'custom text' } }", "{ [Symbol.for('nodejs.util.inspect.custom')]() { return { replaced: true } } }", "{ [Symbol.for('nodejs.util.inspect.custom')](depth) { return 'depth ' + depth } }", "{ a: { [Symbol.for('nodejs.util.inspect.custom')](depth) { return 'depth ' + depth } } }", "{ [Symbol.for('nodejs.util.inspect.custom')](d, options, inspect) { return 'Box<' + inspect(new Map([[1, 2]]), options) + '>' } }", "{ x: 1, [Symbol.for('nodejs.util.inspect.custom')]() { return this } }", "{ [Symbol.for('nodejs.util.inspect.custom')]() { return 5 } }", "{ [Symbol.for('nodejs.util.inspect.custom')]() { return null } }", "{ [Symbol.for('nodejs.util.inspect.custom')]: 'not a function' }", "[{ [Symbol.for('nodejs.util.inspect.custom')]() { return 'multi\\nline' } }]", "{ k: { [Symbol.for('nodejs.util.inspect.custom')]() { return { a: 'x'.repeat(40), b: 'y'.repeat(40) } } } }", "{ [Symbol.for('nodejs.util.inspect.custom')](d, options) { return Object.keys(options).sort().join() } }", "{ [Symbol.for('nodejs.util.inspect.custom')](d, { stylize }) { return stylize('styled', 'special') } }", "new (class Money { constructor() { this.v = 5 } [Symbol.for('nodejs.util.inspect.custom')](d, o, inspect) { return `Money<${inspect(this.v, o)}>` } })", "(class P { [Symbol.for('nodejs.util.inspect.custom')]() { return 'instance' } }).prototype", "{ inspect() { return 'old style' } }", "new Proxy({ [Symbol.for('nodejs.util.inspect.custom')]() { return 'through' } }, {})", "{ [Symbol.for('nodejs.util.inspect.custom')](d, o, inspect) { return inspect({ a: { b: { c: {} } } }, { ...o, depth: 0 }) } }", "{ [Symbol.for('nodejs.util.inspect.custom')](d, o, inspect) { return inspect('s') + inspect([1], true) + (inspect.custom === Symbol.for('nodejs.util.inspect.custom')) } }",
];

export const inspectCases = [
  ...primitives, ...strings, ...objects, ...tagged, ...classes, ...arrays, ...collections, ...promises, ...proxies, ...binary, ...errors, ...circular, ...boxed, ...dates, ...functions, ...custom,
];
