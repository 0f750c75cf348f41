package v8_test

import (
	"encoding/hex"
	"testing"

	"daybook/events"
	"daybook/internal/exec/v8"
)

const (
	// addModule exports add, which adds two numbers.
	addModule = "0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b"
	// countModule exports next, which counts its calls in a global of the module.
	countModule = "0061736d010000000105016000017f030201000606017f0141000b070801046e65787400000a0d010b00230041016a240023000b"
	// askModule imports env.ask and exports twice, which doubles its answer.
	askModule = "0061736d010000000105016000017f020b0103656e760361736b00000302010007090105747769636500010a09010700100041026c0b"
)

// offered returns a module for Config.WASMModules.
func offered(t *testing.T, name, code string, hasImports bool) v8.WASMModule {
	t.Helper()
	b, err := hex.DecodeString(code)
	if err != nil {
		t.Fatal(err)
	}
	return v8.WASMModule{Name: name, SHA256: events.Hash(b), Bytes: b, HasImports: hasImports}
}

func TestWASMModules(t *testing.T) {
	modules := []v8.WASMModule{offered(t, "math", addModule, false), offered(t, "count", countModule, false), offered(t, "ask", askModule, true), offered(t, "broken", "0061736d01000000ff", false)}
	for _, c := range []struct{ code, want string }{
		{"math.add(40, 2)", "42"},
		{"__wasm_math instanceof WebAssembly.Module", "true"},
		{"__wasm_math === __wasm_math && math === math", "true"},
		{"new WebAssembly.Instance(__wasm_math).exports.add(1, 2)", "3"},
		{"new WebAssembly.Instance(__wasm_ask, {env: {ask: () => 21}}).exports.twice()", "42"},
		{"typeof ask", "undefined"},
		{"count.next(); count.next()", "2"}, // twice: each run has its own instance
		{"count.next(); count.next()", "2"},
		{"JSON.stringify(Object.getOwnPropertyDescriptor(globalThis, '__wasm_math'))", `{"value":{},"writable":true,"enumerable":true,"configurable":true}`},
		{"typeof WebAssembly.Module.exports(__wasm_math)[0].name", "string"},
		{"var math = 3; math", "3"},
		{"let math = 4; math", "4"},
		{"function math() { return 5 } math()", "5"},
		{"math = 6; math", "6"},
		{"delete globalThis.math; typeof math", "undefined"},
		{"WebAssembly.Instance = WebAssembly.Module = null; math.add(3, 4)", "7"},
		{"delete globalThis.WebAssembly; math.add(4, 4)", "8"},
		{"Object.defineProperty(Object.prototype, 'exports', {get() { throw 1 }}); math.add(4, 5)", "9"},
		{`Object.defineProperty(WebAssembly.Instance.prototype, "exports", {get() { delete globalThis.math; return {add: () => 0} }}); math.add(5, 5)`, "10"},
		{`const get = Object.getOwnPropertyDescriptor(WebAssembly.Instance.prototype, "exports").get; Object.defineProperty(WebAssembly.Instance.prototype, "exports", {get() { globalThis.math = 1; return get.call(this) }}); math.add(6, 5)`, "11"},
		{`Object.defineProperty(Error, "prepareStackTrace", {value() { delete globalThis.broken; delete globalThis.__wasm_broken; return "" }}); try { broken } catch (e) { e.stack } typeof broken`, "undefined"},
		{"let caught; try { broken } catch (e) { caught = e } caught instanceof WebAssembly.CompileError", "true"},
		{"let caught; try { __wasm_broken } catch (e) { caught = e.message } typeof caught", "string"},
		{"const f = math.add; let s = 0; for (let i = 0; i < 1e5; i++) s = f(s, 1); s", "100000"},
	} {
		o := run(t, v8.Config{Plain: true, WASMModules: modules}, c.code)
		if o.Status != v8.Completed || o.text != c.want {
			t.Errorf("%s: %v %s, want %s", c.code, o.Status, o.text, c.want)
		}
	}
}

// An isolate whose heap is saved offers no modules, and one without modules has no such globals.
func TestNoWASMModules(t *testing.T) {
	for _, cfg := range []v8.Config{{WASMModules: []v8.WASMModule{offered(t, "math", addModule, false)}}, {Plain: true}} {
		if o := run(t, cfg, "typeof math + typeof __wasm_math"); o.text != "undefinedundefined" {
			t.Errorf("plain %v: %s", cfg.Plain, o.text)
		}
	}
}

// A value of a run replaces a module of the same name.
func TestValuesReplaceWASMModules(t *testing.T) {
	modules := []v8.WASMModule{offered(t, "math", addModule, false)}
	o := run(t, v8.Config{Plain: true, WASMModules: modules, Globals: []byte(`{"math":5}`)}, "math + typeof __wasm_math")
	if o.text != "5object" || len(o.GlobalsRefused) != 0 {
		t.Errorf("%s, refused: %q", o.text, o.GlobalsRefused)
	}
}
