package v8_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"daybook/internal/exec/bundle"
	"daybook/internal/exec/v8"
)

// deepRegExps keeps regular expressions with equal sources behind 1 to 80 references of many
// kinds. V8 defers objects at certain depths when it saves a heap.
const deepRegExps = `
	class Pattern extends RegExp { own = 1 }
	const links = {
		object: (v) => ({ v }),
		array: (v) => [v],
		closure: (v) => () => v,
		map: (v) => new Map([[1, v]]),
		set: (v) => new Set([v]),
		class: (v) => class { static v = v },
		promise: (v) => Promise.resolve(v),
		iterator: (v) => "".matchAll(/(a)|b+/g).constructor === undefined ? v : [v],
		mixed: (v) => ({ v: [() => v] }),
	};
	const makers = [
		() => /(a)|b+/g,
		() => new RegExp("(a)|b+", "g"),
		() => Object.assign(/(a)|b+/g, { lastIndex: 1 }),
		() => Object.freeze(/(a)|b+/g),
		() => Object.assign(/(a)|b+/g, { own: 2, lastIndex: 2.5 }),
		() => new Pattern("(a)|b+", "g"),
		() => Object.setPrototypeOf(/(a)|b+/g, null),
		() => /\//,
		() => new RegExp("/"),
		() => new RegExp(""),
		() => new RegExp("\n"),
		() => { const r = /x/y; r.lastIndex = { valueOf: () => 0 }; return r },
		() => Object.seal(/(?<name>.)/u),
		() => Object.defineProperty(/(?<name>.)/u, "flags", { get() { throw 1 } }),
	];
	globalThis.kept = [];
	globalThis.first = makers.map((make) => make());
	for (const [kind, link] of Object.entries(links)) {
		for (let depth = 1; depth <= 80; depth++) {
			let value = makers.map((make) => make());
			value.push(first);
			for (let i = 0; i < depth; i++) value = link({ value, other: makers[depth % makers.length]() });
			kept.push({ kind, depth, value });
		}
	}
	Error.prototype.left = /(a)|b+/g;
	Function.prototype.left = /(a)|b+/g;
	Object.prototype.left = [/(a)|b+/g, /x/y];
	`

const checkDeepRegExps = `
	const unlink = {
		object: (v) => v.v,
		array: (v) => v[0],
		closure: (v) => v(),
		map: (v) => v.get(1),
		set: (v) => [...v][0],
		class: (v) => v.v,
		promise: (v) => v,
		iterator: (v) => v[0],
		mixed: (v) => v.v[0](),
	};
	const problems = [];
	const expect = (what, got, want) => { if (got !== want) problems.push(what + ": " + String(got)) };
	for (const { kind, depth, value } of kept) {
		let at = value;
		for (let i = 0; i < depth; i++) at = (kind === "promise" ? await at : unlink[kind](at)).value;
		const where = kind + " " + depth + " ";
		expect(where + "identity", at[14], first);
		expect(where + "length", at.length, 15);
		for (let i = 0; i < 6; i++) {
			expect(where + i + " source", at[i].source, "(a)|b+");
			expect(where + i + " flags", at[i].flags, "g");
		}
		expect(where + "lastIndex 0", at[0].lastIndex, 0);
		expect(where + "lastIndex 1", at[2].lastIndex, 1);
		expect(where + "lastIndex 2.5", at[4].lastIndex, 2.5);
		expect(where + "own", at[4].own, 2);
		expect(where + "own keys", Reflect.ownKeys(at[4]).join(), "lastIndex,own");
		expect(where + "frozen", Object.isFrozen(at[3]) && at[3].lastIndex === 0, true);
		expect(where + "subclass", at[5].constructor.name + at[5].own + Object.getPrototypeOf(at[5]).constructor.name, "Pattern1Pattern");
		expect(where + "prototype", Object.getPrototypeOf(at[6]), null);
		expect(where + "match", "bba".match(at[1]).join(), "bb,a");
		expect(where + "exec", RegExp.prototype.exec.call(at[6], "xa")?.join(), "a,a");
		expect(where + "lastIndex after", at[6].lastIndex, 2);
		expect(where + "slash", at[7].source + at[8].source + at[7].test("a/b") + at[8].test("ab"), "\\/\\/truefalse");
		expect(where + "empty", at[9].source + at[9].test(""), "(?:)true");
		expect(where + "line", at[10].source + at[10].test("a\nb"), "\\ntrue");
		expect(where + "object", typeof at[11].lastIndex + at[11].test("x") + at[11].lastIndex, "objecttrue1");
		expect(where + "name", at[12].exec("q").groups.name + Object.isSealed(at[12]), "qtrue");
		expect(where + "accessor", RegExp.prototype.exec.call(at[13], "q").groups.name, "q");
	}
	problems.length === 0 ? "fine " + kept.length : problems.slice(0, 10).join("\n")`

func TestDeepRegularExpressions(t *testing.T) {
	first := run(t, v8.Config{}, deepRegExps+"1")
	// A second save of the same objects, with more of them.
	second := run(t, v8.Config{Heap: first.heap}, `globalThis.more = []; for (let i = 0; i < 50; i++) more.push({ r: /(a)|b+/g, more: [more] }); 1`)
	for name, heap := range map[string][]byte{"first": first.heap, "second": second.heap} {
		if got := run(t, v8.Config{Heap: heap}, checkDeepRegExps).text; got != "fine 720" {
			t.Errorf("after the %s save: %s", name, got)
		}
	}
}

// garbageAndRegExps keeps regular expressions, and makes garbage with the same sources. How much
// of it V8 collects during the run depends on the limit of the heap.
const garbageAndRegExps = `
	(() => {
		const garbage = [];
		for (let i = 0; i < 40000; i++) garbage.push(i % 10 ? { r: /k[a-z]+/g } : { s: "text " + i, r: new RegExp("t" + i % 7), big: new Array(50) });
		for (let i = 0; i < 1000; i++) "some text".replace(/t[a-z]+/, "x").match(/k[a-z]+/g);
	})();
	globalThis.kept ??= [];
	(() => {
		let chain = null;
		for (let i = 0; i < 200; i++) chain = { chain, r: /k[a-z]+/g, t: new RegExp("t" + i % 7), f: () => /k[a-z]+/g };
		kept.push(chain, /t1/, /alone/);
	})();
	kept.length`

func TestHeapsWithRegularExpressionsAreDeterministic(t *testing.T) {
	const variable = "DAYBOOK_TEST_REGEXP_LIMIT"
	hashOf := func(megabytes int64) string {
		o := run(t, v8.Config{HeapLimit: megabytes << 20}, garbageAndRegExps)
		o = run(t, v8.Config{HeapLimit: (300 - megabytes) << 20, Heap: o.heap}, garbageAndRegExps)
		if o.text != "6" {
			t.Fatalf("the runs ended with %s", o.text)
		}
		sum := sha256.Sum256(o.heap)
		return hex.EncodeToString(sum[:])
	}
	if limit, err := strconv.ParseInt(os.Getenv(variable), 10, 64); err == nil {
		fmt.Println("hash", hashOf(limit))
		return
	}
	want := hashOf(64)
	for _, limit := range []int64{48, 100, 200, 64} {
		if got := hashOf(limit); got != want {
			t.Errorf("limit %d MiB: the heap is %s, not %s", limit, got, want)
		}
	}
	for _, limit := range []string{"52", "120"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), variable+"="+limit)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hash "+want) {
			t.Errorf("another process: %v, want %s\n%s", err, want, out)
		}
	}
}

// TestChainOfModulesWithRegularExpressions has the shape of packages that consist of many small
// modules with the same literals.
func TestChainOfModulesWithRegularExpressions(t *testing.T) {
	const count = 100
	b := &bundle.Bundle{Version: 1, Entries: map[string]string{"many": "npm:many@1.0.0/m0.js"}}
	for i := range count {
		code := fmt.Sprintf("const number = /^\\d+/, escaped = /^'([^]*?)'?$/, words = [/^q[1234]/i, /^d{1,2}/g, /^\\d+/];\nexports.parse%d = (s) => number.exec(s)?.[0] + escaped.source + words.length;\n", i)
		module := bundle.Module{ID: fmt.Sprintf("npm:many@1.0.0/m%d.js", i)}
		if i+1 < count {
			next := fmt.Sprintf("./m%d.js", i+1)
			code += fmt.Sprintf("const next = require(%q); exports.next = () => next; Object.assign(exports, { ...next, ...exports });", next)
			module.Imports = map[string]string{next: fmt.Sprintf("npm:many@1.0.0/m%d.js", i+1)}
		}
		module.Code = code
		b.Modules = append(b.Modules, module)
	}
	encoded, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := json.Marshal(v8.Imports{Bundles: []json.RawMessage{encoded}, Static: []v8.Import{{Specifier: "many", Names: []string{"*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	o := runScript(t, v8.Config{}, v8.Script{
		Source: []byte(`globalThis.many = ns; ns.parse99("12x")`), Name: "main.js#01234567", File: "main.js",
		Modules: modules, Bindings: []byte(`const ns = __daybookImports[0];`),
	})
	want := "12^'([^]*?)'?$3"
	if o.text != want {
		t.Errorf("the first run returned %s", o.text)
	}
	if got := run(t, v8.Config{Heap: o.heap}, `many.next().parse50("12x")`).text; got != want {
		t.Errorf("the second run returned %s", got)
	}
}

// TestHeapIsSearchedForRegularExpressions creates them in all ways. A heap that the bridge does
// not search cannot be saved, and V8 would end this process.
func TestHeapIsSearchedForRegularExpressions(t *testing.T) {
	for _, expression := range []string{
		`/x/`, `RegExp("x")`, `eval("/x/")`, `"x".matchAll("x")`, `Reflect.construct(RegExp, ["x"])`,
		`structuredClone(structuredClone.r ??= /x/)`, `Function("return /x/")()`, `[/x/].concat(RegExp(/x/.source, ""))`,
	} {
		run(t, v8.Config{}, `globalThis.kept = null; const make = () => `+expression+`; for (let i = 0; i < 300; i++) kept = { kept, r: make(), s: make() }; 1`)
	}
	// An earlier run created them, and a later one only moves them.
	heap := run(t, v8.Config{}, `globalThis.all = []; for (let i = 0; i < 300; i++) all.push(/x/); 1`).heap
	run(t, v8.Config{Heap: heap}, `globalThis.chain = null; for (const r of all) chain = { chain, r }; all = undefined; 1`)
}
