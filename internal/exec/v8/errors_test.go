package v8_test

import (
	"bytes"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// deepErrors keeps errors whose stacks were never read behind 1 to 80 references of many kinds.
// V8 defers objects at certain depths when it saves a heap.
const deepErrors = `
	class Own extends TypeError { constructor(m, o) { super(m, o); this.name = "Own" } }
	const makers = [
		(v) => new Error("e", { cause: v }),
		(v) => new AggregateError([v], "all"),
		(v) => new Own("own", { cause: v }),
		(v) => Object.assign(new DOMException("dom", "AbortError"), { v }),
		(v) => { try { null.x } catch (e) { e.cause = v; return e } },
		(v) => { const e = new RangeError("no stack", { cause: v }); delete e.stack; return e },
		(v) => Object.freeze(new Error("frozen", { cause: v })),
		(v) => [new Error("a"), v],
		(v) => { const e = new Error("closure"); return () => [e, v] },
		(v) => new Map([[new Error("key"), v]]),
		(v) => Object.setPrototypeOf(new Error("bare", { cause: v }), null),
	];
	globalThis.kept = [];
	for (let m = 0; m < makers.length; m++) {
		for (const depth of [1, 5, 10, 20, 40, 80]) {
			let value;
			for (let i = 0; i < depth; i++) value = makers[m](value);
			kept.push(value);
			value = undefined;
			for (let i = 0; i < depth; i++) value = makers[(m + i) % makers.length](value);
			kept.push(value);
		}
	}
	1`

// A run that keeps errors whose stacks were never read leaves a heap, however deep they are, and
// equal runs leave equal heaps.
func TestUnreadStacksAreSaved(t *testing.T) {
	first := runNamed(t, v8.Config{}, "a.ts", deepErrors, "")
	if first.Status != v8.Completed {
		t.Fatal(first.Status, first.text)
	}
	if again := runNamed(t, v8.Config{}, "a.ts", deepErrors, ""); !bytes.Equal(first.heap, again.heap) {
		t.Error("equal runs left different heaps")
	}
	then := runNamed(t, v8.Config{Heap: first.heap}, "b.ts", `
		let n = 0;
		for (let e = kept[10]; e; e = e.cause) if (/^Error: e\n    at .*a\.ts#[0-9a-f]{8}:4:10/.test(e.stack) && Object.getOwnPropertyDescriptor(e, "stack").enumerable === false) n++;
		n`, "")
	if then.text != "80" {
		t.Errorf("%s traces of 80 are those of the first run", then.text)
	}
}

// A later run reads the trace that it would read if the heap had not been saved, and no code of a
// script runs when it is saved.
func TestTextOfSavedStacks(t *testing.T) {
	const name = "a.ts#"
	for _, c := range []struct{ source, then, want string }{
		{`var e = new Error("x")`, `e.stack.replace(/#[0-9a-f]{8}/, "#")`, "Error: x\n    at " + name + ":1:9"},
		{`var e = new DOMException("x", "AbortError")`, `e.stack.replace(/#[0-9a-f]{8}/, "#")`, "AbortError: x\n    at " + name + ":1:9"},
		{`Error.stackTraceLimit = 0; var e = new Error("x")`, `e.stack`, "Error: x"},
		{`var called = 0; class E extends Error { get name() { called++; return "Own" } } var e = new E("x")`, `const before = called; e.stack.split("\n")[0] + before + called`, "Own: x01"},
		{`var called = 0; var e = new Error("x"); e.message = { toString() { called++; return "own" } }; 1`, `const before = called; e.stack.split("\n")[0] + before + called`, "Error: own01"},
		{`var called = 0; var e = Object.setPrototypeOf(new Error("x"), new Proxy({}, { get() { called++ }, getOwnPropertyDescriptor() { called++ }, getPrototypeOf() { called++; return null } })); 1`, `called`, "0"},
		{`var e = new Error("x"); e.name = Symbol("s"); 1`, `e.stack.split("\n")[0]`, "<error: TypeError: Cannot convert a Symbol value to a string>"},
		{`var called = 0; Error.prepareStackTrace = (e, sites) => { called++; return sites.length }; var e = new Error("x")`, `const before = called; [e.stack, before, called].join()`, "1,0,1"},
		{`var called = 0; Object.defineProperty(Error, "prepareStackTrace", { get() { called++ } }); var e = new Error("x")`, `called`, "0"},
		{`var o = {}; Error.captureStackTrace(o)`, `o.stack.replace(/#[0-9a-f]{8}/, "#")`, "Error\n    at " + name + ":1:19"},
		{`var e = new Error("x"); e.stack = "own"; 1`, `e.stack`, "own"},
		{`var called = 0; var e = new Error("x"); Object.defineProperty(e, "stack", { get() { called++; return "own" } }); 1`, `called + e.stack`, "0own"},
		{`var all = Array.from({ length: 11000 }, () => new Error("x")); 1`, `all[5000].stack.replace(/#[0-9a-f]{8}/g, "#").split("\n")[1]`, "    at " + name + ":1:47"},
	} {
		first := runNamed(t, v8.Config{}, "a.ts", c.source, "")
		if first.Status != v8.Completed {
			t.Fatalf("%s: %v %s", c.source, first.Status, first.text)
		}
		if then := runNamed(t, v8.Config{Heap: first.heap}, "b.ts", c.then, ""); !strings.HasPrefix(then.text, c.want) {
			t.Errorf("%s: the next run reads %q, want %q", c.source, then.text, c.want)
		}
	}
	// The texts of very many errors, or of many with long traces, are not made when the heap is
	// saved: a later run decides what they are.
	const keep = `var all = []; (function f(n) { if (n > 0) f(n - 1); else for (let i = 0; i < errors; i++) all.push(new Error("x")) })(depth); 1`
	for _, c := range []struct{ before, want string }{
		{"const errors = 300, depth = 1;", "300"},
		{"const errors = 300, depth = 500; Error.stackTraceLimit = Infinity;", "0"},
		{"const errors = 11000, depth = 1;", "0"},
	} {
		first := runNamed(t, v8.Config{}, "a.ts", c.before+keep, "")
		then := runNamed(t, v8.Config{Heap: first.heap}, "b.ts", `Error.prepareStackTrace = () => "late"; all.filter((e) => e.stack !== "late").length`, "")
		if then.text != c.want {
			t.Errorf("%s %s stacks have a text, want %s", c.before, then.text, c.want)
		}
	}
	// Positions in generated code are those of its source.
	first := runNamed(t, v8.Config{}, "a.ts", "\n\nvar e = new Error('x')", ";;AAAA")
	then := runNamed(t, v8.Config{Heap: first.heap}, "b.ts", `e.stack.replace(/#[0-9a-f]{8}/, "#")`, "")
	if want := "Error: x\n    at a.ts#:1:1"; then.text != want {
		t.Errorf("the trace of generated code is %q, want %q", then.text, want)
	}
}
