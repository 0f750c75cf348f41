package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/bundle"
	"daybook/internal/exec/worker"
	"daybook/internal/modules/tarballtest"
	"daybook/runner"
)

// registry provides packages from memory, and makes bundles in workers of a pool.
type registry struct {
	pool     *worker.Pool
	packages []bundle.Package
	asked    [][]string
	bundles  [][]byte
}

func (r *registry) add(name, version string, dependencies map[string]string, files map[string]string) {
	if files["package.json"] == "" {
		files["package.json"] = fmt.Sprintf(`{"name":%q,"version":%q}`, name, version)
	}
	r.packages = append(r.packages, bundle.Package{Name: name, Version: version, Dependencies: dependencies, Tarball: tarballtest.Pack(files)})
}

func (r *registry) Bundle(ctx context.Context, specifiers []string) ([]byte, error) {
	r.asked = append(r.asked, specifiers)
	request := bundle.Request{Packages: r.packages}
	for _, s := range specifiers {
		parsed := bundle.Parse(s)
		version := ""
		for _, p := range r.packages {
			if p.Name == parsed.Package && (parsed.Range == "" || strings.HasPrefix(p.Version, parsed.Range)) {
				version = p.Version
			}
		}
		if version == "" {
			return nil, &runner.ModulesError{Text: "Error: Cannot find module '" + s + "'"}
		}
		request.Entries = append(request.Entries, bundle.Entry{Specifier: s, Package: parsed.Package + "@" + version, Subpath: parsed.Subpath})
	}
	encoded, err := request.Encode()
	if err != nil {
		return nil, err
	}
	t := runner.Task{Tenant: "t", Bundle: encoded, Stateful: true, HeapLimitBytes: 64 << 20, ArrayBufferLimitBytes: 64 << 20, Timeout: 5 * time.Minute, Start: begin}
	o, err := r.pool.Run(ctx, t, discard)
	if err != nil {
		return nil, err
	}
	if o.Status != events.StatusCompleted {
		return nil, &runner.ModulesError{Text: "SyntaxError: " + o.Error}
	}
	r.bundles = append(r.bundles, []byte(*o.Result))
	return []byte(*o.Result), nil
}

// run runs a script with packages and files and returns its result or its error.
func (r *registry) run(t *testing.T, heap []byte, code string, files map[string]string) (string, []byte) {
	t.Helper()
	task := patient(code)
	task.Heap, task.Modules, task.Stateful = heap, r, true
	if files != nil {
		var err error
		if task.Files, err = json.Marshal(files); err != nil {
			t.Fatal(err)
		}
	}
	o, err := r.pool.Run(t.Context(), task, discard)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	if o.Status != events.StatusCompleted {
		return o.Reason + ": " + o.Error, o.Heap
	}
	if o.Result == nil {
		return "undefined", o.Heap
	}
	return *o.Result, o.Heap
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{pool: worker.New(worker.Options{Idle: 1})}
	t.Cleanup(func() { r.pool.Close() })
	return r
}

func TestImports(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.add("left", "1.2.3", nil, map[string]string{
		"index.js": "export default function left(s, n) { return s.padStart(n) }\nexport const version = '1'; export let count = 0; export function up() { count++ }",
	})
	r.add("cjs", "2.0.0", map[string]string{"left": "left@1.2.3"}, map[string]string{
		"package.json": `{"name":"cjs","main":"./lib"}`,
		"lib/index.js": "const a = require('./a'); exports.name = 'cjs'; exports.a = a.name; exports.left = require('left').default('x', 3)",
		"lib/a.js":     "const i = require('./index'); exports.name = 'a of ' + i.name",
	})
	r.add("@scope/maps", "1.0.0", nil, map[string]string{
		"package.json": `{"name":"@scope/maps","exports":{".":{"types":"./i.d.ts","node":"./node.js","import":"./esm.js","require":"./cjs.cjs"},"./sub/*":"./lib/*.js","./hidden/*":null,"./data.json":"./data.json","./out":"../../etc/passwd"},"imports":{"#in":"./lib/in.js"}}`,
		"esm.js":       "import { text } from '#in'; export default 'esm ' + text",
		"cjs.cjs":      "module.exports = 'cjs'",
		"lib/in.js":    "export const text = 'inside'",
		"lib/x.js":     "import m from '@scope/maps'; import data from '../data.json'; export const x = m + data.n; export { data }",
		"data.json":    `{"n": 7, "a-b": 1}`,
	})
	r.add("circle", "1.0.0", nil, map[string]string{
		"index.js": "import { b } from './b.js'; export const a = () => 'a'; export const both = () => a() + b()",
		"b.js":     "import { a } from './index.js'; export const b = () => 'b' + a()",
	})
	r.add("lazy", "1.0.0", nil, map[string]string{
		"index.js": "export const load = () => import('./later.js'); export const miss = name => import(name); export const no = () => require('nowhere')",
		"later.js": "globalThis.wasLater = true; export default 'later'",
	})
	r.add("builtins", "1.0.0", nil, map[string]string{
		"index.js": "import Emitter, { once } from 'events'; import { join } from 'node:path'; export const all = [typeof Emitter.on, new Emitter() instanceof Emitter, once === Emitter.once, join('a', '..', 'b')].join()",
		"cjs.cjs":  "const assert = require('assert'); assert(true); exports.all = [typeof require('events'), require('node:util').inspect({ a: 1 }), require('buffer').Buffer.from('x').length].join(); exports.fs = () => require('fs')",
	})
	r.add("punycode", "2.0.0", nil, map[string]string{"index.js": "exports.v = 2"})
	r.add("slash", "1.0.0", map[string]string{"punycode": "punycode@2.0.0"}, map[string]string{
		"index.js": "exports.v = require('punycode/').v; exports.no = () => require('events/'); exports.dir = require('./lib/')", "lib/index.js": "module.exports = 'dir'",
	})
	for _, c := range []struct{ code, want string }{
		{`import { v, no, dir } from "slash"; try { no() } catch (e) { [v, dir, e.message].join() }`, `2,dir,Cannot find module 'events/': package slash@1.0.0 imports "events/", which is none of its admitted dependencies`},
		{`import { join } from "node:path"; import * as path from "path"; import EventEmitter, { once } from "node:events"; [join("a", "..", "b"), path.default.sep, path.join === join, EventEmitter.once === once, (await import("node:path")) === path].join()`, "b,/,true,true,true"},
		{`import { all } from "builtins"; import { all as more } from "builtins/cjs.cjs"; all + " " + more`, "function,true,true,b function,{ a: 1 },1"},
		{`import { fs } from "builtins/cjs.cjs"; try { fs() } catch (e) { e.message }`, "Cannot find module 'node:fs': this platform has no such module"},
		{"import 'left'\nimport x from 'node:fs'", "syntax_error: SyntaxError: Cannot find module 'node:fs': this platform has no such module\n    at cell.ts:2:1"},
		{"import { readFile } from 'fs/promises'", "syntax_error: SyntaxError: Cannot find module 'fs/promises': this platform has no such module\n    at cell.ts:1:1"},
		{`await import("node:fs").catch(e => e.code + " " + e.message)`, "ERR_MODULE_NOT_FOUND Cannot find module 'node:fs': this platform has no such module"},
		{`import "left"; await import("https://x/y.js").catch(e => e.code)`, "ERR_MODULE_NOT_FOUND"},
		{`import left, { version as v, count, up } from "left"; up(); [left("a", 3), v, count].join()`, "  a,1,0"},
		{`import * as ns from "npm:left@1"; ns.up(); [ns.count, Object.keys(ns).join("+"), typeof ns.default].join()`, "1,count+default+up+version,function"},
		{"import left from 'left'\nconst n: number = 4\nleft('b', n)", "   b"},
		{`const { default: cjs, name } = await import("cjs"); JSON.stringify([cjs, name])`, `[{"name":"cjs","a":"a of undefined","left":"  x"},"cjs"]`},
		{`import m from "@scope/maps"; import { x, data } from "@scope/maps/sub/x"; [m, x, data["a-b"]].join()`, "esm inside,esm inside7,1"},
		{`import d from "@scope/maps/data.json" with { type: "json" }; d.n`, "7"},
		{`import { both } from "circle"; both()`, "aba"},
		{`import { load } from "lazy"; const before = typeof wasLater; [before, (await load()).default, typeof wasLater].join()`, "undefined,later,boolean"},
		{`import { no } from "lazy"; try { no() } catch (e) { e.code + " " + e.message }`, "ERR_MODULE_NOT_FOUND Cannot find module 'nowhere': package lazy@1.0.0 imports \"nowhere\", which is none of its admitted dependencies"},
		{`import { miss } from "lazy"; await miss("left").catch(e => e.message)`, "Cannot find module 'left' in npm:lazy@1.0.0/index.js: only modules whose names are constants in the code are loaded"},
		{`const name = "le" + "ft"; await import(name).catch(e => e.message)`, `Cannot find module 'left': only modules whose names are constants in the script, in import statements or import("NAME"), are loaded`},
		{`import { nothing } from "left"; 1`, "exception: SyntaxError: The requested module 'left' does not provide an export named 'nothing'"},
		{"1;\nimport x from \"@scope/maps/hidden/y\"", "syntax_error: SyntaxError: Cannot find module '@scope/maps/hidden/y': package @scope/maps@1.0.0 exports no \"./hidden/y\"\n    at cell.ts:2:1"},
		{`import x from "@scope/maps/out"`, "syntax_error: SyntaxError: Cannot find module '@scope/maps/out': package @scope/maps@1.0.0 exports \"../../etc/passwd\", which is not a file of it\n    at cell.ts:1:1"},
		{`import "left"; let x = ;`, "syntax_error: SyntaxError: Unexpected \";\"\n    at cell.ts:1:24"},
		{"import left from \"left\"; import type { T } from \"t\"; throw new Error('here')", "exception: Error: here\n    at cell.ts:1:60"},
		{`const left = 1; import left from "left"`, "syntax_error: SyntaxError: The symbol \"left\" has already been declared\n    at cell.ts:1:24"},
		{`import { a } from "absent"`, "syntax_error: Error: Cannot find module 'absent'"},
		{`import ns from "left"; console.log(ns.name); export const a = 1`, "syntax_error: SyntaxError: Unexpected token 'export'; a script exports nothing: what one run declares, the next one has when it resumes the heap\n    at cell.ts:1:46"},
	} {
		got, _ := r.run(t, nil, c.code, nil)
		if got != c.want && !strings.HasPrefix(got, c.want+"\n") {
			t.Errorf("%s:\n%s\nwant\n%s", c.code, got, c.want)
		}
	}
}

// A heap evaluates each module once, whatever bundles later runs bring.
func TestImportsOfALaterRun(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for _, v := range []string{"1.0.0", "2.0.0"} {
		r.add("state", v, nil, map[string]string{"index.js": "globalThis.times = (globalThis.times ?? 0) + 1; export const items = []; export const v = '" + v + "'"})
	}
	r.add("user", "1.0.0", map[string]string{"state": "state@1.0.0"}, map[string]string{"index.js": "import { items, v } from 'state'; export { items, v }"})
	got, heap := r.run(t, nil, `import { items } from "npm:state@1"; import * as ns from "npm:state@1"; items.push("first"); globalThis.later = () => import("npm:state@2"); times`, nil)
	if got != "1" {
		t.Fatal(got)
	}
	for _, c := range []struct{ code, want string }{
		{`items.push("second"); items.length`, "2"},
		{`import { items as shared, v } from "user"; [shared === items, shared.join(), v, times].join()`, "true,first,second,1.0.0,1"},
		{`const again = await import("npm:state@1"); [again === ns, times].join()`, "true,1"},
		{`import { v as two } from "npm:state@2"; [two, times, (await later()).v].join()`, "2.0.0,2,2.0.0"},
		{`import { items } from "npm:state@1"; [items.join(), times].join("-")`, "first,second-2"},
	} {
		if got, heap = r.run(t, heap, c.code, nil); got != c.want {
			t.Errorf("%s: %s, want %s", c.code, got, c.want)
		}
	}
	for change, want := range map[string]string{
		"Object.freeze(globalThis)":                                           "an earlier run froze globalThis;",
		"Object.seal(globalThis)":                                             "an earlier run sealed globalThis;",
		"Object.preventExtensions(globalThis)":                                "an earlier run prevented extensions of globalThis;",
		"Object.defineProperty(globalThis, '__daybookImports', { value: 1 })": "an earlier run made globalThis.__daybookImports read-only;",
	} {
		got, changed := r.run(t, heap, change+"; 1", nil)
		if got != "1" {
			t.Fatal(got)
		}
		got, _ = r.run(t, changed, `import { v as another } from "npm:state@2"`, nil)
		if want = `exception: TypeError: import statements cannot declare names here, because ` + want + ` use await import("NAME"), or run without the heap`; got != want {
			t.Errorf("%s: %s", change, got)
		}
		if got, _ = r.run(t, changed, `const { v: another } = await import("npm:state@2"); another`, nil); got != "2.0.0" {
			t.Errorf("%s: await import: %s", change, got)
		}
	}
}

func TestImportsOfFiles(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.add("left", "1.2.3", nil, map[string]string{"index.js": "export default (s, n) => s.padStart(n)"})
	files := map[string]string{
		"util.ts":      "import left from 'left'\nimport type { T } from './types.js'\nimport { deep } from './lib/deep.js'\nenum E { A = 3 }\nexport const pad = (s: string): string => left(s, E.A) + deep",
		"lib/deep.ts":  "import data from '../data.json'\nexport const deep: number = data.n\nexport function fail(): never { throw new Error('deep') }",
		"data.json":    `{"n":5}`,
		"bad.ts":       "const x: = 1",
		"emoji.ts":     "'é😀'; const x: = 1",
		"tool.ts":      "#!/usr/bin/env node\n\nexport const fail = () => { throw new Error('tool') }",
		"tool.cjs":     "#!/usr/bin/env node\nexports.n = 8",
		"wait.ts":      "export const x = await 1",
		"escape.ts":    "import '../../etc/passwd'",
		"same/util.ts": "export const pad = 1",
	}
	for _, c := range []struct{ code, want string }{
		{`import { pad } from "./util.ts"; pad("x")`, "  x5"},
		{`const { pad } = await import("./util"); pad("y")`, "  y5"},
		{`import { fail } from "./lib/deep.ts"; fail()`, "exception: Error: deep\n    at fail (lib/deep.ts:3:39)\n    at cell.ts:1:39"},
		{`import "./bad.ts"`, `syntax_error: SyntaxError: Unexpected "=" (bad.ts:1:10)`},
		{`import "./emoji.ts"`, `syntax_error: SyntaxError: Unexpected "=" (emoji.ts:1:17)`},
		{`import { fail } from "./tool.ts"; fail()`, "exception: Error: tool\n    at fail (tool.ts:3:35)\n    at cell.ts:1:35"},
		{`import { n } from "./tool.cjs"; n`, "8"},
		{`import "./wait.ts"`, "syntax_error: SyntaxError: top-level await is supported in scripts, and not in the modules that they import (wait.ts:1:18)"},
		{`import "./none.ts"`, "syntax_error: SyntaxError: Cannot find module './none.ts': there is no file \"none.ts\" among the files of the run\n    at cell.ts:1:1"},
		{`import "../none.ts"`, "syntax_error: SyntaxError: Cannot find module '../none.ts': \"../none.ts\" leaves the files of the run\n    at cell.ts:1:1"},
		{`await import("./escape.ts").catch(e => e.message)`, `Cannot find module '../../etc/passwd': "../../etc/passwd" leaves the files of the run`},
	} {
		if got, _ := r.run(t, nil, c.code, files); got != c.want && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.code, got, c.want)
		}
	}
	got, heap := r.run(t, nil, `import { deep } from "./lib/deep.ts"; deep`, files)
	files["data.json"] = `{"n":6}`
	again, _ := r.run(t, heap, `import { deep } from "./lib/deep.ts"; deep`, files)
	if got != "5" || again != "6" {
		t.Errorf("files gave %s, then changed files %s", got, again)
	}
	if got, _ := r.run(t, nil, `import "./x.ts"`, nil); !strings.Contains(got, "the run has no files besides the script") {
		t.Error(got)
	}
}

// Runs with many large files have memory for their conversion, also in a worker that converted
// files before.
func TestManyLargeFiles(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	files, code := map[string]string{}, "let sum = 0\n"
	for i := range 100 {
		files[fmt.Sprintf("f%d.ts", i)] = "export const f1 = (a: number) => a + 1; export const f2 = (a: number) => [" + strings.Repeat("a,", 10_000) + "]"
		code += fmt.Sprintf("import { f1 as g%d } from './f%d.ts'; sum += g%d(1)\n", i, i, i)
	}
	for range 3 {
		if got, _ := r.run(t, nil, code+"sum", files); got != "200" {
			t.Fatalf("%.300s", got)
		}
	}
}

// Stack traces have the positions of the caller's files, also in later runs, which name them with
// the hash of the files.
func TestPositionsInFiles(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	files := map[string]string{
		"fail.ts": "\n\n// a comment\ninterface Long {\n  a: number\n}\nenum E { A }\nexport class Fails<T> {\n  constructor(private readonly text: T) {}\n\n  now(): never { throw new Error(String(this.text)) }\n}\n" +
			"export const long = \"" + strings.Repeat("x", 140_000) + "\"; export const where = () => new Error(\"w\").stack",
	}
	const place = "fail.ts:11:24"
	got, heap := r.run(t, nil, `import { Fails, where } from "./fail.ts"; globalThis.made = (() => { try { new Fails("x").now() } catch (e) { return e } })(); globalThis.where = where; globalThis.fail = () => new Fails("y").now(); made.stack`, files)
	if !strings.Contains(got, "("+place+")") {
		t.Errorf("the stack is %s, want %s", got, place)
	}
	if got, _ := r.run(t, heap, `where()`, nil); !strings.Contains(got, ":13:140052") {
		t.Errorf("a position after a long literal is %s", got)
	}
	for _, code := range []string{`made.stack`, `fail()`} {
		got, _ := r.run(t, heap, code, nil)
		if at := strings.Index(got, "fail.ts#"); at < 0 || !strings.HasPrefix(got[at+len("fail.ts#"):][8:], ":11:24)") {
			t.Errorf("%s in the next run: %s", code, got)
		}
	}
}

// A heap keeps the mappings of 1,000 names. Frames of files that were dropped show no position, because
// that of the converted code would be wrong.
func TestPositionsInDroppedFiles(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	files := map[string]string{"fail.ts": "\n\nexport const fail = () => new Error('x').stack"}
	_, heap := r.run(t, nil, `import { fail } from "./fail.ts"; globalThis.fail = fail`, files)
	imports := ""
	for i := range 255 {
		files[fmt.Sprintf("f%d.ts", i)] = "export {}"
		imports += fmt.Sprintf("import './f%d.ts'; ", i)
	}
	for run := range 5 {
		got, _ := r.run(t, heap, "fail()", nil)
		dropped := !strings.Contains(got, ":3:27)")
		if at := strings.Index(got, "fail.ts#"); at < 0 || dropped && got[at+len("fail.ts#")+8] != ')' || dropped != (run > 3) {
			t.Errorf("after %d runs with other files: %s", run, got)
		}
		files["f0.ts"] += "\n"
		_, heap = r.run(t, heap, imports, files)
	}
}

// The names that files import are checked before anything runs, and those of other modules when
// these are evaluated.
func TestNamesBetweenFiles(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.add("left", "1.0.0", nil, map[string]string{"index.js": "export const left = 1"})
	r.add("cjs", "1.0.0", nil, map[string]string{"index.js": "module.exports = { a: 1 }"})
	r.add("marked", "1.0.0", nil, map[string]string{"index.js": "Object.defineProperty(exports, '__esModule', { value: true }); exports.a = 1", "default.js": "exports.__esModule = true; exports.default = 2; exports.a = 1"})
	r.add("built", "1.0.0", nil, map[string]string{"index.cjs": `var __defProp = Object.defineProperty;
var __create = Object.create, __getProtoOf = Object.getPrototypeOf, __getOwnPropNames = Object.getOwnPropertyNames;
var __copyProps = (to, from) => { for (const key of __getOwnPropNames(from)) if (!Object.hasOwn(to, key)) __defProp(to, key, { get: () => from[key], enumerable: true }); return to };
var __toESM = (mod, isNodeMode, target) => (target = mod != null ? __create(__getProtoOf(mod)) : {}, __copyProps(
  isNodeMode || !mod || !mod.__esModule ? __defProp(target, "default", { value: mod, enumerable: true }) : target,
  mod
));
var plain = __toESM(require("./marked.cjs"), 1), marked = __toESM(require("./marked.cjs"));
exports.v = [plain.default.y, plain.y, marked.default, marked.y].join()`, "marked.cjs": "exports.__esModule = true; exports.y = 1", "package.json": `{"name":"built","version":"1.0.0","main":"index.cjs"}`})
	const missing = "SyntaxError: The requested module '%s' does not provide an export named '%s'"
	before := func(specifier, name, rest string) string {
		return "syntax_error: " + fmt.Sprintf(missing, specifier, name) + rest
	}
	during := func(specifier, name string) string {
		return "exception: " + fmt.Sprintf(missing, specifier, name) + "\n    at"
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a name":                         {map[string]string{"a.ts": "export const one = 1; console.log('never')", "m.ts": "import './a.ts'\nimport { one, two } from './a.ts'; export const v = one"}, before("./a.ts", "two", "; write import type for a type (m.ts:2:1)")},
		"a name in JavaScript":           {map[string]string{"a.js": "export const one = 1", "m.ts": "import './b.js'; export const v = 1", "b.js": "import { two } from './a.js'"}, before("./a.js", "two", " (b.js:1:1)")},
		"a type":                         {map[string]string{"a.ts": "export interface T {}", "m.ts": "import { T } from './a.ts'; export const v = 1"}, before("./a.ts", "T", "; write import type for a type (m.ts:1:1)")},
		"only types":                     {map[string]string{"a.ts": "export interface T {}", "m.ts": "import type { T } from './a.ts'; import { type T as U } from './a.ts'; export type { T } from './a.ts'; export const v = 1"}, "1"},
		"no default":                     {map[string]string{"a.ts": "export const one = 1", "m.ts": "import a from './a.ts'; export const v = 1"}, before("./a.ts", "default", "")},
		"stars export no default":        {map[string]string{"a.ts": "export * from './b.ts'", "b.ts": "export default 1", "m.ts": "import a from './a.ts'; export const v = 1"}, before("./a.ts", "default", "")},
		"names of all kinds":             {map[string]string{"a.ts": "export const { x, y: [z] } = { x: 1, y: [2] }; export function f() {} export class C {} export enum E { A } export default 4; export { x as 'a b' }", "m.ts": "import d, { x, z, f, C, E, 'a b' as q } from './a.ts'; export const v = [x, z, typeof f, typeof C, E.A, d, q].join()"}, "1,2,function,function,0,4,1"},
		"again":                          {map[string]string{"a.ts": "export const one = 1", "b.ts": "export { one as two, one as default } from './a.ts'; export * as ns from './a.ts'", "c.ts": "export * from './b.ts'", "m.ts": "import { two, ns } from './c.ts'; import d from './b.ts'; export const v = two + ns.one + d"}, "3"},
		"again, missing":                 {map[string]string{"a.ts": "export {}", "b.ts": "export { one } from './a.ts'", "m.ts": "import { one } from './b.ts'; export const v = 1"}, before("./a.ts", "one", "; write import type for a type (b.ts:1:1)")},
		"imported, then exported":        {map[string]string{"a.ts": "export const one = 1", "b.ts": "import { one } from './a.ts'; import * as ns from './a.ts'; export { one, ns }", "m.ts": "import { one, ns } from './b.ts'; export const v = one + ns.one"}, "2"},
		"a cycle of uses":                {map[string]string{"a.ts": "import { b } from './m.ts'; export const a = () => b", "m.ts": "import { a } from './a.ts'; export const b = 5; export const v = a()"}, "5"},
		"a cycle of exports":             {map[string]string{"a.ts": "export { x } from './b.ts'", "b.ts": "export { x } from './a.ts'", "m.ts": "import { x } from './a.ts'; export const v = x"}, before("./b.ts", "x", ": the modules that it names export it from each other (a.ts:1:1)")},
		"a barrel":                       {map[string]string{"index.ts": "export * from './a.ts'; export * from './b.ts'; export default 3", "a.ts": "import d, * as all from './index.ts'; export const a = () => [all.b, all.default, d, Object.keys(all).join('')].join()", "b.ts": "export const b = 2", "m.ts": "import { a } from './index.ts'; import * as x from './index.ts'; import * as y from './index.ts'; export const v = a() + (x === y)"}, "2,3,3,defaultabtrue"},
		"names of helpers":               {map[string]string{"a.ts": "const all = 1, name = 2, to = 3, from = 4, key = 5, mod = 6, target = 7; export { all, name, to, from, key, mod, target }", "m.ts": "import * as all from './a.ts'; export const name = all.all; export const v = Object.values(all).join()"}, "1,4,5,6,2,7,3"},
		"a cycle of stars":               {map[string]string{"a.ts": "export * from './b.ts'; export const one = 1", "b.ts": "export * from './a.ts'", "m.ts": "import { one } from './b.ts'; export const v = one"}, "1"},
		"a cycle of stars, missing":      {map[string]string{"a.ts": "export * from './b.ts'", "b.ts": "export * from './a.ts'", "m.ts": "import { one } from './b.ts'; export const v = one"}, before("./b.ts", "one", "")},
		"a package":                      {map[string]string{"m.ts": "import { left } from 'left'; import d, { a } from 'cjs'; export const v = left + a + d.a"}, "3"},
		"a package built for Node":       {map[string]string{"m.ts": "import { v } from 'built'; export { v }"}, "1,1,,1"},
		"a package, missing":             {map[string]string{"m.ts": "import { right } from 'left'; export const v = 1"}, during("left", "right")},
		"a package of CommonJS, missing": {map[string]string{"m.ts": "import { b } from 'cjs'; export const v = 1"}, during("cjs", "b")},
		"a built-in module":              {map[string]string{"m.ts": "import path, { join } from 'node:path'; export const v = join('a', path.sep)"}, "a/"},
		"a built-in module, missing":     {map[string]string{"m.ts": "import { jion } from 'node:path'; export const v = 1"}, during("node:path", "jion")},
		"JSON":                           {map[string]string{"d.json": `{"n":[1,{"__proto__":2}]}`, "m.ts": "import d, { n } from './d.json'; export const v = JSON.stringify([d, n])"}, `[{"n":[1,{"__proto__":2}]},[1,{"__proto__":2}]]`},
		"JSON, missing":                  {map[string]string{"d.json": `{"n":1}`, "m.ts": "import { k } from './d.json'; export const v = 1"}, during("./d.json", "k")},
		"CommonJS":                       {map[string]string{"a.cjs": "exports.n = 2", "m.ts": "import d, { n } from './a.cjs'; export const v = n + d.n"}, "4"},
		"an escape":                      {map[string]string{"a.ts": "export const one = 1", "m.ts": `import { one } from './\u0061.ts'; export const v = one`}, "1"},
		"an escape in a name":            {map[string]string{"a.ts": "export const one = 1; export { one as 'o n e' }", "b.ts": `export { \u006fne as two, 'o\u0020n e' as three, one as \u0066our } from './a.ts'`, "m.ts": `import { \u006fne } from './a.ts'; import { two, three, four } from './b.ts'; export const v = one + two + three + four`}, "4"},
		"an escape after export *":       {map[string]string{"a.ts": "export const one = 1", "b.ts": `export * from './\u0061.ts'`, "m.ts": "import { one } from './b.ts'; export const v = one"}, "1"},
		"an escape, missing":             {map[string]string{"a.ts": "export const one = 1", "b.ts": `export * from './\u0061.ts'`, "m.ts": "import { two } from './b.ts'; export const v = two"}, during("./b.ts", "two")},
		"all names of others":            {map[string]string{"b.ts": "export * from 'left'; export * from 'cjs'; export * from 'node:path'", "m.ts": "import { left, a, sep } from './b.ts'; export const v = left + a + sep"}, "2/"},
		"all names of others, missing":   {map[string]string{"b.ts": "export * from 'left'", "c.ts": "export * from './b.ts'", "m.ts": "import { right } from './c.ts'; export const v = right"}, during("./c.ts", "right")},
		"a package without default":      {map[string]string{"m.ts": "import d, { a } from 'marked'; import * as ns from 'marked'; export const v = [d.a, a, ns.a, d === ns.default].join()"}, "1,1,1,true"},
		"a package with default":         {map[string]string{"m.ts": "import d, { a } from 'marked/default.js'; export const v = d + a"}, "3"},
		"a file without default":         {map[string]string{"a.cjs": "exports.__esModule = true; exports.n = 1; exports.up = () => exports.n++", "m.ts": "import d, { n, up } from './a.cjs'; up(); export const v = [d.n, n].join()"}, "2,2"},
		"no default in JSON":             {map[string]string{"d.json": `{"__esModule":true,"n":1}`, "m.ts": "import d, { n } from './d.json'; export const v = d.n + n"}, "2"},
		"deep JSON":                      {map[string]string{"d.json": strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "m.ts": "import d from './d.json'; export const v = d.length"}, "1"},
		"too deep JSON":                  {map[string]string{"d.json": strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "m.ts": "import d from './d.json'; export const v = d.length"}, "syntax_error: SyntaxError: malformed JSON: invalid character '[' exceeded max depth (d.json:1:10001)"},
		"wrong JSON":                     {map[string]string{"d.json": "{\n \"é\": x}", "m.ts": "import d from './d.json'; export const v = 1"}, "syntax_error: SyntaxError: malformed JSON: invalid character 'x' looking for beginning of value (d.json:2:7)"},
		"no JSON":                        {map[string]string{"d.json": "", "m.ts": "import d from './d.json'; export const v = 1"}, "syntax_error: SyntaxError: malformed JSON: unexpected end of JSON input (d.json:1:1)"},
	} {
		if got, _ := r.run(t, nil, `import { v } from "./m.ts"; v`, c.files); got != c.want && !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %.300s\nwant %s", name, got, c.want)
		}
	}
}

func TestRefusedSpecifiers(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.add("zod", "1.0.0", nil, map[string]string{"index.js": "export const z = 1"})
	for _, specifier := range []string{
		"unlocked", "node:nothing-like-this", "file:///etc/passwd", "/etc/passwd", "https://evil.example/x.js", "data:text/javascript,1", "./x", "../../etc/passwd",
		"zod/../../etc/passwd", "npm:zod@9", "zod/%2e%2e/x", "jsr:noscope", "npm:", "npm:@scope", "zod//x", ".hidden", "daybook:prelude", "npm:../x", "zod/", "ZOD\u2028",
	} {
		got, _ := r.run(t, nil, fmt.Sprintf("import x from %q", specifier), nil)
		if !strings.HasPrefix(got, "syntax_error: ") && !strings.HasPrefix(got, "exception: ") || !strings.Contains(got, "annot find module") && !strings.Contains(got, "without escapes") {
			t.Errorf("%s: %s", specifier, got)
		}
	}
	if len(r.asked) == 0 {
		t.Error("nothing was asked for")
	}
}

func TestHostilePackages(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nested package.json":   {map[string]string{"package.json": deep}, "package.json"},
		"large package.json":    {map[string]string{"package.json": `{"a":"` + strings.Repeat("x", 2<<20) + `"}`}, "at most 1048576 are allowed"},
		"no package.json":       {map[string]string{"package.json": " "}, "is not valid"},
		"exports of many kinds": {map[string]string{"package.json": `{"exports":{".":[[],{"import":{"import":["x","./index.js"]}}]}}`, "index.js": "export default 1"}, "x"},
		"nested exports":        {map[string]string{"package.json": `{"exports":` + strings.Repeat(`{"import":`, 50) + `"./x.js"` + strings.Repeat("}", 50) + `}`}, "nested too deeply"},
		"many modules": {func() map[string]string {
			all := map[string]string{"package.json": "{}"}
			var b strings.Builder
			for i := range 5001 {
				all[fmt.Sprintf("m%d.js", i)] = ""
				fmt.Fprintf(&b, "import './m%d.js'\n", i)
			}
			all["index.js"] = b.String()
			return all
		}(), "more than 5000 modules"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRegistry(t)
			r.add("evil", "1.0.0", nil, c.files)
			if got, _ := r.run(t, nil, `import x from "evil"`, nil); !strings.Contains(got, c.want) || !strings.Contains(got, "rror:") {
				t.Errorf("%.300s, want %s", got, c.want)
			}
			if got, _ := r.run(t, nil, "1 + 1", nil); got != "2" {
				t.Errorf("the next run returned %s", got)
			}
		})
	}
}

// The error of packages that are too large for memory advises nothing about the heap of the run,
// which has no part in it.
func TestPackagesTooLargeForMemory(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.add("large", "1.0.0", nil, map[string]string{"index.js": "export default [" + strings.Repeat("a=>a,", 1_600_000) + "]"})
	got, _ := r.run(t, nil, `import x from "large"`, nil)
	if !strings.Contains(got, "too little memory to prepare the imported modules. Import fewer or smaller packages.") || strings.Contains(got, "heap_memory_max_mb") {
		t.Error(got)
	}
}

// The same packages and specifiers give the same bundle.
func TestBundlesAreEqual(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	for i := range 40 {
		r.add(fmt.Sprintf("p%d", i), "1.0.0", map[string]string{"p0": "p0@1.0.0"}, map[string]string{"index.js": "import './a.js'; import './b.js'; import 'p0'", "a.js": "import './b.js'", "b.js": "require('./a')"})
	}
	for range 4 {
		if got, _ := r.run(t, nil, `import "p3"; import "p1"; await import("p2"); 1`, nil); got != "1" {
			t.Fatal(got)
		}
	}
	for _, b := range r.bundles[1:] {
		if string(b) != string(r.bundles[0]) {
			t.Errorf("two bundles differ:\n%s\n%s", r.bundles[0], b)
		}
	}
}

// Properties that a script added to Object.prototype change no module.
func TestImportsAfterHostileChanges(t *testing.T) {
	t.Parallel()
	r := newRegistry(t)
	r.add("left", "1.0.0", nil, map[string]string{
		"index.js": "import data, { n as m } from './cjs.cjs'; import path, { join } from 'node:path'; export * from './more.js'; export const n = data.n + m; export default join('a', path.sep)",
		"more.js":  "export const more = 5; export { default as again } from './cjs.cjs'",
		"cjs.cjs":  "exports.n = 1; exports.later = () => import('./more.js')",
	})
	const code = `import * as left from "left"; import cjs, { later } from "left/cjs.cjs"; import { x } from "./x.ts"; import * as path from "node:path";
		[Object.keys(left).join("+"), left.n, left.default, left.again.n, cjs.n, (await later()).more, x, Object.keys(path).includes("exports")].join()`
	for _, change := range []string{
		"1", `Object.prototype.exports = "x"`, `Object.prototype.exports = () => 1`, `Object.prototype.get = 1`, `Object.prototype.set = 1`, `Object.prototype.value = 1`,
		`Object.prototype.writable = true`, `Object.prototype.default = "x"; Object.prototype.n = "y"`, `Object.prototype.imports = { "./more.js": "x" }; Object.prototype.esm = true`,
	} {
		_, heap := r.run(t, nil, change, nil)
		got, _ := r.run(t, heap, code, map[string]string{"x.ts": "import * as y from './y.ts'; export const x: number = 7; export const all = y, name = 1, mod = 2", "y.ts": "export const y = 1"})
		if want := "again+default+more+n,2,a/,1,1,5,7,false"; got != want {
			t.Errorf("%s: %s", change, got)
		}
	}
}
