package v8_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// runNamed is like run for a script with a name, which is formed as workers do it.
func runNamed(tb testing.TB, cfg v8.Config, file, source, mappings string) outcome {
	tb.Helper()
	name := v8.ScriptName(file, []byte(source))
	return runScript(tb, cfg, v8.Script{Source: []byte(source + "\n//# sourceURL=" + name), Name: name, File: file, Mappings: mappings})
}

const thrower = "function fail() {\n  throw new Error('x')\n}\nfunction make() {\n  return new Error('made')\n}\nvar late = make(), read = make()"

// In all ways to show them, frames have the name of their script: for the current run the name of the
// file, for an earlier run the name in the heap.
func TestStackPositions(t *testing.T) {
	const show = `
		try { fail() } catch (e) { console.log('read ' + e.stack); console.error(e); void (globalThis.kept = e) }
		console.trace('here'); fail()`
	first := runNamed(t, v8.Config{}, "my notes.js", thrower+show, "")
	own := "\n    at fail (my notes.js:2:9)\n    at my notes.js:8:9"
	want := []string{"read Error: x" + own, "[ERROR] Error: x" + own, "Trace: here\n    at my notes.js:9:11"}
	check := func(t *testing.T, o outcome, want []string, text string) {
		t.Helper()
		if o.Status != v8.Exception || !strings.HasPrefix(o.text, text) || len(o.out) != len(want) {
			t.Fatalf("%v %q, output %q; want %q", o.Status, o.text, o.out, text)
		}
		for n, line := range o.out {
			if _, line, _ = strings.Cut(line, " "); line != want[n] {
				t.Errorf("line %d is %q, want %q", n, line, want[n])
			}
		}
	}
	check(t, first, want, "Error: x\n    at fail (my notes.js:2:9)\n    at my notes.js:9:26")

	earlier := v8.ScriptName("my notes.js", []byte(thrower+show))
	if !strings.HasPrefix(earlier, "my_notes.js#") || len(earlier) != len("my_notes.js#12345678") {
		t.Errorf("the script is called %s", earlier)
	}
	const then = "\n\nconsole.log(kept.stack)\nconsole.log(late)" + show
	second := runNamed(t, v8.Config{Heap: first.heap}, "main.ts", then, "")
	inBoth := "\n    at fail (" + earlier + ":2:9)\n    at main.ts:5:9"
	check(t, second, []string{
		"Error: x\n    at fail (" + earlier + ":2:9)\n    at " + earlier + ":8:9",
		"Error: made\n    at make (" + earlier + ":5:10)\n    at " + earlier + ":7:12",
		"read Error: x" + inBoth, "[ERROR] Error: x" + inBoth, "Trace: here\n    at main.ts:6:11",
	}, "Error: x\n    at fail ("+earlier+":2:9)\n    at main.ts:6:26")
}

// The names in the errors of host calls change with the runs like those of all errors.
func TestStacksOfCallErrors(t *testing.T) {
	const source = "var kept; try { await mcp.shop.buy() } catch (e) { kept = e; e.stack }"
	first := runNamed(t, v8.Config{}, "a.ts", source, "")
	const header = `McpError: shop.buy: this run has no MCP server "shop", and no other: the operator adds them, with --mcp-server`
	if want := header + "\n    at a.ts:1:32"; first.text != want {
		t.Errorf("%q, want %q", first.text, want)
	}
	second := runNamed(t, v8.Config{Heap: first.heap}, "b.ts", "kept.stack", "")
	if want := header + "\n    at " + v8.ScriptName("a.ts", []byte(source)) + ":1:32"; second.text != want {
		t.Errorf("later %q, want %q", second.text, want)
	}
}

// Positions in generated code are mapped, in the run itself and in later ones.
func TestMappedPositions(t *testing.T) {
	// Generated lines 1 to 3 are lines 11 to 13 of the source, two columns further to the
	// right. Line 4 has no source.
	const mappings = "AAUE;AACA;AACA;A"
	const generated = "function fail() {\n  throw new Error('x')\n}\nfunction helper() { fail() }"
	first := runNamed(t, v8.Config{}, "a.ts", generated+"; try { helper() } catch (e) { console.log(e) }", mappings)
	if want := "0@0 Error: x\n    at fail (a.ts:12:3)\n    at helper (a.ts)\n    at a.ts"; fmt.Sprint(first.out) != "["+want+"]" {
		t.Errorf("in its run %q, want %q", first.out, want)
	}
	name := v8.ScriptName("a.ts", []byte(generated+"; try { helper() } catch (e) { console.log(e) }"))
	second := runNamed(t, v8.Config{Heap: first.heap}, "b.ts", "fail()", "")
	third := runNamed(t, v8.Config{Heap: second.heap}, "b.ts", "fail()", "")
	want := "Error: x\n    at fail (" + name + ":12:3)\n    at b.ts:1:1"
	if second.text != want || third.text != want {
		t.Errorf("later %q and %q, want %q", second.text, third.text, want)
	}
}

// The size of the mappings in the heap is limited. For a script whose mappings were dropped, no
// position is shown, because its author has not seen the generated code.
func TestMappingsAreBounded(t *testing.T) {
	heap := runNamed(t, v8.Config{}, "old.ts", "function old() { throw new Error('x') }", "AAAA").heap
	var size int
	for n := range 4 {
		heap = runNamed(t, v8.Config{Heap: heap}, "new.ts", fmt.Sprintf("function f%d() { throw new Error('y') }", n), strings.Repeat("AAAA,", 1<<20/7)).heap
		if n == 1 {
			size = len(heap)
		}
	}
	if grown := len(heap) - size; grown > 300<<10 {
		t.Errorf("two more scripts made the heap %d bytes larger", grown)
	}
	name := v8.ScriptName("old.ts", []byte("function old() { throw new Error('x') }"))
	if o := runNamed(t, v8.Config{Heap: heap}, "main.ts", "old()", ""); o.text != "Error: x\n    at old ("+name+")\n    at main.ts:1:1" {
		t.Errorf("%q", o.text)
	}
	if o := runNamed(t, v8.Config{Heap: heap}, "main.ts", "f3()", ""); !strings.Contains(o.text, ":1:1)\n") {
		t.Errorf("%q", o.text)
	}
}

// Damaged mappings only lose positions.
func TestDamagedMappings(t *testing.T) {
	for _, mappings := range []string{",", ";;;;", "g", "gggggggggggggggggggg", "!!!!\u00e9", "A", "AA", "AAAAAAAA", "DDDD", "AAAA;;AAAA,,,;", strings.Repeat(";", 1<<16)} {
		o := runNamed(t, v8.Config{}, "a.ts", "function f() { throw new Error('x') }\nf()", mappings)
		if o.Status != v8.Exception || !strings.HasPrefix(o.text, "Error: x\n    at f (a.ts") {
			t.Errorf("%.20q: %v %q", mappings, o.Status, o.text)
		}
	}
}

// Equal runs leave equal heaps, even if their frames were shown with other names.
func TestStacksKeepHeapsEqual(t *testing.T) {
	const source = "var kept = []; for (let i = 0; i < 20; i++) { try { null.x } catch (e) { kept.push(e); if (i % 2) e.stack } }"
	a := runNamed(t, v8.Config{}, "a b.ts", source, "AAAA")
	b := runNamed(t, v8.Config{}, "a b.ts", source, "AAAA")
	if !bytes.Equal(a.heap, b.heap) {
		t.Error("equal runs left different heaps")
	}
	then := runNamed(t, v8.Config{Heap: a.heap}, "c.ts", "new Set(kept.map(e => e.stack)).size", "")
	if then.text != "1" {
		t.Errorf("errors that were read and errors that were not differ: %s", then.text)
	}
}

// Changes that a script makes to Error and to its errors affect only what the script sees.
func TestHostileStacks(t *testing.T) {
	for _, test := range []struct{ name, source, want string }{
		{"its own prepareStackTrace", "Error.prepareStackTrace = (e, sites) => e.message + ' in ' + sites.length + ' ' + Array.isArray(sites) + ' ' + sites[0].getFunctionName(); function f() { throw new Error('x') } f()", "x in 2 true f"},
		{"a prepareStackTrace that throws", "Error.prepareStackTrace = () => { throw 1 }; throw new Error('x')", "Error: x"},
		{"a prepareStackTrace that makes errors", "Error.prepareStackTrace = (e) => 'own ' + new Error('inner').message; throw new Error('x')", "own inner"},
		{"a prepareStackTrace that is an accessor", "Object.defineProperty(Error, 'prepareStackTrace', { get() { throw new Error('y') } }); throw new Error('x')", "Error: x"},
		{"a prepareStackTrace that is no function", "Error.prepareStackTrace = 5; throw new Error('x')", "Error: x\n    at h.ts:1:36"},
		{"a frozen Error", "Object.freeze(Error); throw new Error('x')", "Error: x\n    at h.ts:1:29"},
		{"a frozen error", "const e = Object.freeze(new Error('x')); e.stack; throw e", "Error: x\n    at h.ts:1:25"},
		{"another Error", "globalThis.Error = class { }; null.x", "TypeError: Cannot read properties of null (reading 'x')\n    at h.ts:1:36"},
		{"a stack that is an accessor", "const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw e } }); throw e", "Error: x"},
		{"a stack that is a number", "const e = new Error('x'); e.stack = 5; throw e", "Error: x"},
		{"a name that throws", "const e = new Error('x'); Object.defineProperty(e, 'name', { get() { throw new Error('y') } }); throw e", "<error: Error: y>\n    at h.ts:1:11"},
		{"patched call sites", "Error.prepareStackTrace = (e, s) => Object.getPrototypeOf(s[0]); const p = new Error().stack; delete Error.prepareStackTrace; for (const k of Reflect.ownKeys(p)) try { p[k] = () => { throw 1 } } catch {}; throw new Error('x')", "Error: x\n    at h.ts:1:"},
		{"a patched then", "Promise.prototype.then = () => { throw 1 }; Map.prototype.get = WeakMap.prototype.set = () => { throw 2 }; throw new Error('x')", "Error: x\n    at h.ts:1:"},
		{"names with positions in them", "({ ['f (h.ts#12345678:1:2)']() { throw new Error('x') } })['f (h.ts#12345678:1:2)']()", "Error: x\n    at f (h.ts#12345678:1:2) (h.ts:1:"},
		{"eval", "eval('null.x')", "TypeError: Cannot read properties of null (reading 'x')\n    at eval (eval at <anonymous> (:1:1), <anonymous>:1:6)\n    at h.ts:1:1"},
		{"no frames", "Error.stackTraceLimit = 0; throw new Error('x')", "Error: x"},
		{"deep recursion", "(function f() { f() })()", "RangeError: Maximum call stack size exceeded\n    at f (h.ts:1:"},
		{"a stack read in the depth", "let s; (function f() { try { f() } catch (e) { s ??= String(e.stack) } })(); throw new Error(s.slice(0, 20))", "Error: RangeError: Maximum "},
	} {
		for _, mode := range modes {
			o := runNamed(t, mode.cfg, "h.ts", test.source, "")
			if o.Status != v8.Exception || !strings.HasPrefix(o.text, test.want) {
				t.Errorf("%s (%s): %v %q, want %q", test.name, mode.name, o.Status, o.text, test.want)
			}
		}
	}
}
