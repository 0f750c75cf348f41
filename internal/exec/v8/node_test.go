package v8_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"daybook/internal/exec/bundle"
	"daybook/internal/exec/v8"
)

// The modules of Node give the same as in Node 20, in a saved and a plain isolate.
func TestNodeModulesAsNode(t *testing.T) {
	harness, err := os.ReadFile("prelude/testdata/node_harness.js")
	if err != nil {
		t.Fatal(err)
	}
	cases := recorded[struct{ Code, Want string }](t, "node.json")
	codes := make([]string, len(cases))
	for i, c := range cases {
		codes[i] = c.Code
	}
	list, err := json.Marshal(codes)
	if err != nil {
		t.Fatal(err)
	}
	source := string(withoutFrames) + string(harness) + "\nconst outcomes = []; for (const code of " + string(list) + ") outcomes.push(await outcomeOf(code)); JSON.stringify(outcomes)"
	for _, plain := range []bool{false, true} {
		r := run(t, v8.Config{Plain: plain, NodeGlobals: true, SkipWaits: true}, source)
		var got []string
		if err := json.Unmarshal([]byte(r.text), &got); err != nil {
			t.Fatalf("plain %t: %.2000s", plain, r.text)
		}
		failed := 0
		for i, c := range cases {
			reason := otherThanNodeModules[c.Code]
			if (got[i] == c.Want) == (reason != "") {
				t.Errorf("plain %t: %s\n got %s\nwant %s\n(known to differ: %q)", plain, c.Code, got[i], c.Want, reason)
			}
			if got[i] != c.Want {
				failed++
			}
		}
		if failed*20 > len(cases) {
			t.Errorf("%d of %d cases differ from Node, more than 5 %%", failed, len(cases))
		}
	}
}

// otherThanNodeModules has the cases whose outcome differs from that in Node, with the reasons.
var otherThanNodeModules = map[string]string{
	"Object.keys(path).sort()":              "matchesGlob is experimental, and _makeLong an old name",
	"new Buffer.from('a').constructor.name": "methods are no constructors",
	"{ try { assert.strictEqual('a', 'b', 'message') } catch (e) { return [e.name, e.code, e.message, e.generatedMessage, e.operator] } return 'none' }": "Node adds the values to the message",
}

// The globals of Node exist only with the option. An earlier run of the heap may have changed
// them.
func TestNodeGlobals(t *testing.T) {
	if got := run(t, v8.Config{}, "[typeof Buffer, typeof process].join()").text; got != "undefined,undefined" {
		t.Errorf("without the option: %s", got)
	}
	first := run(t, v8.Config{NodeGlobals: true}, "const kept = Buffer.from('abc'); process.extra = 1; [typeof Buffer, process.platform, Object.isFrozen(process.env), Object.keys(globalThis).length].join()")
	if first.text != "function,linux,true,0" {
		t.Errorf("with the option: %s", first.text)
	}
	again := run(t, v8.Config{NodeGlobals: true, Heap: first.heap}, "[kept.toString(), kept instanceof Buffer, process.extra].join()")
	if again.text != "abc,true,1" {
		t.Errorf("in the next run: %s", again.text)
	}
	kept := run(t, v8.Config{Heap: first.heap}, "kept.toString('hex')")
	if kept.text != "616263" {
		t.Errorf("in the next run without the option: %s", kept.text)
	}
	if c := inspect(t, first.heap); c.Changes != 0 || c.Globals.Count != 0 {
		t.Errorf("the globals count as changes: %+v", c)
	}
	if got := run(t, v8.Config{NodeGlobals: true}, "const order = []; process.nextTick((x) => order.push(x), 1); await null; order.join()").text; got != "1" {
		t.Errorf("nextTick: %s", got)
	}
}

// A run with the option starts also if an earlier run froze the global object.
func TestNodeGlobalsOfFrozenGlobal(t *testing.T) {
	for _, freeze := range []string{"Object.freeze(globalThis)", "Object.preventExtensions(globalThis)"} {
		first := run(t, v8.Config{}, freeze+"; 1")
		again := run(t, v8.Config{NodeGlobals: true, Heap: first.heap}, "typeof Buffer + typeof process")
		if again.Status != v8.Completed || again.text != "undefinedundefined" {
			t.Errorf("%s: status %v: %s", freeze, again.Status, again.text)
		}
	}
}

// The modules work after user code replaced built-in functions.
func TestNodeModulesAfterHostileChanges(t *testing.T) {
	const hostile = `
const get = process.getBuiltinModule;
const bad = () => { throw new Error("user code ran") };
const dp = Object.defineProperty;
for (const [object, keys] of [[Object, ["create", "defineProperty", "getPrototypeOf"]], [JSON, ["parse", "stringify"]], [Reflect, ["apply", "construct", "ownKeys"]],
  [String.prototype, ["toUpperCase", "toLowerCase", "slice", "charCodeAt", "split", "concat", "indexOf", "includes", "replace", "startsWith", "endsWith", "lastIndexOf", "trim"]], [RegExp.prototype, ["exec", "test"]],
  [Object.getPrototypeOf(Uint8Array.prototype), ["set", "subarray", "slice", "fill", Symbol.iterator]], [Array.prototype, ["push", "slice", "map", "join", "indexOf"]], [Function.prototype, ["call", "apply", "bind"]],
  [TextEncoder.prototype, ["encode"]], [TextDecoder.prototype, ["decode"]], [Map.prototype, ["get", "set", "has"]], [Math, ["trunc", "floor"]], [Number, ["isInteger"]]])
  for (const key of keys) dp(object, key, { value: bad, configurable: true, writable: true });
for (const key of ["length", "byteLength", "byteOffset", "buffer"]) dp(Uint8Array.prototype.__proto__, key, { get: bad });
dp(Object, "keys", { value: bad });
dp(Array.prototype, Symbol.iterator, { value: bad });
for (let key = 0; key < 3; key++) dp(Array.prototype, key, { set: bad, configurable: true });
`
	for _, test := range []struct{ source, want string }{
		{`get("node:path").join("a", "..", "b/c") + get("path").win32.resolve("C:\\a", "..\\b")`, `b/cC:\b`},
		{`Buffer.from("6869", "hex").toString() + Buffer.concat([Buffer.from("a"), Buffer.alloc(2, "xy")]).toString("base64") + Buffer.from("abc").indexOf("c")`, "hiYXh52"},
		{`get("crypto").createHash("sha1").update("abc").digest("hex")`, "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{`get("util").format("%s-%d", "a", 5) + get("util").isDeepStrictEqual({ a: [1] }, { a: [1] })`, "a-5true"},
		{`get("querystring").stringify(get("querystring").parse("a=1&b=x%20y")) + get("querystring").unescape("%zz%41")`, "a=1&b=x%20y%zzA"},
		{`const b = Buffer.from("aGk", "base64"); b.equals(Buffer.from("hi")) + b.fill("x").toString() + Buffer.from("abc").write("z") + Buffer.byteLength(b) + Buffer.from("6869", "hex").compare(b)`, "truexx12-1"},
		{`const d = new (get("string_decoder").StringDecoder)("utf8"); d.write(Buffer.from("c3", "hex")) + d.write(Buffer.from("a9", "hex")) + d.end()`, "\u00e9"},
		{`get("crypto").timingSafeEqual(Buffer.from("ab"), Buffer.from("ac")) + "" + get("crypto").createHmac("md5", "k").update(Buffer.from("a")).update("b").digest("base64") + (get("crypto").randomFillSync(Buffer.alloc(3)) !== undefined)`, "falsePAkBUEetz4Opb1/fp1/eWQ==true"},
		{`await get("util").promisify((a, b, callback) => callback(null, a + b))(5, 6)`, "11"},
		{`get("util").isDeepStrictEqual([Buffer.from("a"), new Float32Array(1)], [Buffer.from("a"), new Float32Array(1)])`, "true"},
		{`get("url").resolve("http://a.com/b/c", "../d")`, "http://a.com/d"},
		{`let n = 0; const e = new (get("events"))(); e.on("x", (v) => n += v); e.once("x", (v) => n += v); e.emit("x", 2); e.emit("x", 3); n`, "7"},
		{`try { get("assert").deepStrictEqual({ a: 1 }, { a: 2 }) } catch (e) { e.code }`, "ERR_ASSERTION"},
	} {
		if got := run(t, v8.Config{NodeGlobals: true}, hostile+test.source).text; got != test.want {
			t.Errorf("%s: %s", test.source, got)
		}
	}
}

// What Node 20 gives for these, and what the recorded cases do not cover.
func TestNodeModuleDetails(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{`get("querystring").unescapeBuffer("%ff%zz\u00e9").toString("hex")`, "ff257a7ae9"},
		{`[await get("util").promisify(setTimeout)(1, "v"), await get("util").promisify(setImmediate)("w"), get("util").promisify(setTimeout) === get("timers/promises").setTimeout].join()`, "v,w,true"},
		{`const a = new Error("m"), b = new Error("m"); a.cause = a; b.cause = b; get("util").isDeepStrictEqual(a, b)`, "true"},
		{`const a = new Error("m", { cause: 1 }), b = new Error("m", { cause: 2 }); get("util").isDeepStrictEqual(a, b)`, "false"},
		{`const a = new Uint32Array(64); get("crypto").randomFillSync(a, 1, 62); [a[0], a[63], a.subarray(1, 63).some((x) => x > 65535)].join()`, "0,0,true"},
		{`const a = new Uint32Array(4); [-1, 5, "1"].map((o) => { try { get("crypto").randomFillSync(a, o) } catch (e) { return e.message } }).join("|")`,
			`The value of "offset" is out of range. It must be >= 0 && <= 16. Received -4|The value of "offset" is out of range. It must be >= 0 && <= 16. Received 20|The "offset" argument must be of type number. Received type string ('1')`},
		{`(await new Promise((resolve, reject) => get("crypto").randomFill(new Uint8Array(64), 32, (e, b) => e ? reject(e) : resolve(b)))).findIndex((x) => x > 0) >= 32`, "true"},
	} {
		if got := firstLine(run(t, v8.Config{NodeGlobals: true, SkipWaits: true}, "const get = process.getBuiltinModule;"+test.source).text); got != test.want {
			t.Errorf("%s: %s", test.source, got)
		}
	}
}

// No module exists for other specifiers, and names of members of objects are none.
func TestNodeModuleNames(t *testing.T) {
	r := run(t, v8.Config{NodeGlobals: true}, `["fs", "node:fs", "", "node:", "__proto__", "constructor", "node:node:path", 5].map((s) => typeof process.getBuiltinModule(s)).join()`)
	if strings.ReplaceAll(r.text, "undefined", "") != strings.Repeat(",", 7) {
		t.Error(r.text)
	}
}

// Package bundle knows the names of all modules of Node in the prelude, and no other.
func TestBundlesKnowTheNodeModules(t *testing.T) {
	source, err := os.ReadFile("prelude/88_platform.js")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^  "?([a-z0-9_/]+)"?: "node_`).FindAllSubmatch(source, -1)
	for _, name := range names {
		if id := "node:" + string(name[1]); !bundle.HasBuiltin(id) {
			t.Errorf("package bundle does not know %s", id)
		}
	}
	build, err := os.ReadFile("../bundle/build.go")
	if err != nil {
		t.Fatal(err)
	}
	known := regexp.MustCompile(`"(node:[a-z0-9_/]+)"`).FindAllSubmatch(build, -1)
	if len(known) != len(names) || len(names) < 15 {
		t.Errorf("package bundle knows %d modules, the prelude has %d", len(known), len(names))
	}
	for _, id := range known {
		if got := run(t, v8.Config{NodeGlobals: true}, fmt.Sprintf("typeof process.getBuiltinModule(%q)", id[1])).text; got != "object" && got != "function" {
			t.Errorf("%s is %s", id[1], got)
		}
	}
}
