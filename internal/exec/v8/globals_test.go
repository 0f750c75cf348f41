package v8_test

import (
	"bytes"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// TestGlobals checks that a run has its values on globalThis, and that its source, its positions and
// its result are those of a run without values.
func TestGlobals(t *testing.T) {
	const values = `{"prompt":{"resources":[{"uri":"file:///a","text":"ü\u0000\ud800"}]},"n":1}`
	for _, test := range []struct {
		name, before, source, want string
	}{
		{"read", "", "n + prompt.resources[0].uri + prompt.resources[0].text.length", "1file:///a3"},
		{"strict", "", "'use strict'; (function () { return typeof this })() + n", "undefined1"},
		{"a declaration has no value", "", "let x = 5", "<none>"},
		{"an ordinary property", "", "JSON.stringify(Object.getOwnPropertyDescriptor(globalThis, 'n'))", `{"value":1,"writable":true,"enumerable":true,"configurable":true}`},
		{"an ordinary object", "", "Object.getPrototypeOf(prompt) === Object.prototype && Array.isArray(prompt.resources)", "true"},
		{"assignment", "", "n = 2; delete globalThis.prompt; n + typeof prompt", "2undefined"},
		{"let of this run", "", "let n = 'mine'; n + globalThis.n", "mine1"},
		{"let of an earlier run", "let n = 'mine'", "n + globalThis.n", "mine1"},
		{"const of an earlier run", "const n = 'mine'", "n + globalThis.n", "mine1"},
		{"class of an earlier run", "class n {}", "typeof n + globalThis.n", "function1"},
		{"var of an earlier run", "var n = 'old'", "n", "1"},
		{"function of an earlier run", "function n() {}", "n", "1"},
		{"earlier values", "globalThis.n = 0; globalThis.get = () => n", "get()", "1"},
		{"accessors", "let called = 0; Object.defineProperty(globalThis, 'n', {get() { called++ }, set() { called++ }, configurable: true})", "n + ' ' + called", "1 0"},
		{"fixed accessors", "let called = 0; Object.defineProperty(globalThis, 'n', {get() { return 'own' }, set() { called++ }})", "n + ' ' + called", "own 0"},
		{"setters of prototypes", "let called = 0; Object.defineProperty(Object.prototype, 'n', {set() { called++ }}); Object.defineProperty(Object.prototype, 'resources', {set() { called++ }})", "n + prompt.resources.length + ' ' + called", "2 0"},
		{"a JSON of its own", "JSON.parse = () => { throw 1 }; Array.prototype[Symbol.iterator] = null", "n", "1"},
		{"read-only", "Object.defineProperty(globalThis, 'n', {value: 'own'})", "n", "own"},
		{"not extensible", "Object.preventExtensions(globalThis)", "typeof n", "undefined"},
		{"sealed", "Object.seal(globalThis)", "typeof n", "undefined"},
		{"frozen", "Object.freeze(globalThis)", "typeof n", "undefined"},
		{"an own value in a sealed object", "globalThis.n = 0; Object.seal(globalThis)", "n + typeof prompt", "1undefined"},
	} {
		for _, plain := range []bool{false, true} {
			if plain && test.before != "" {
				continue
			}
			cfg := v8.Config{Plain: plain}
			if test.before != "" {
				earlier := run(t, cfg, test.before)
				if earlier.Status != v8.Completed {
					t.Fatalf("%s: before: %v: %s", test.name, earlier.Status, earlier.text)
				}
				cfg.Heap = earlier.heap
			}
			cfg.Globals = []byte(values)
			got := run(t, cfg, test.source)
			if got.Status != v8.Completed || got.text != test.want {
				t.Errorf("%s (plain: %t): %v: %q, want %q", test.name, plain, got.Status, got.text, test.want)
			}
			refused := map[string]string{
				"read-only": "n", "fixed accessors": "n", "not extensible": "prompt,n: prevented extensions of globalThis", "sealed": "prompt,n: sealed globalThis",
				"frozen": "prompt,n: froze globalThis", "an own value in a sealed object": "prompt: sealed globalThis",
			}[test.name]
			text := strings.Join(got.GlobalsRefused, ",")
			if got.GlobalChange != "" {
				text += ": " + got.GlobalChange
			}
			if text != refused {
				t.Errorf("%s: the refused values are %q, want %q", test.name, text, refused)
			}
			hidden := map[string]string{"let of an earlier run": "n", "const of an earlier run": "n", "class of an earlier run": "n"}[test.name]
			if text := strings.Join(got.GlobalsHidden, ","); text != hidden {
				t.Errorf("%s: the hidden values are %q, want %q", test.name, text, hidden)
			}
		}
	}
}

// TestGlobalsSecondScript checks that the second script of an isolate, after a SyntaxError, has the
// values.
func TestGlobalsSecondScript(t *testing.T) {
	i, err := v8.New(v8.Config{Start: start, HeapLimit: 64 << 20, Globals: []byte(`{"n":[1]}`)})
	if err != nil {
		t.Fatal(err)
	}
	defer i.Dispose()
	if r, err := i.Run(v8.Script{Source: []byte("n.push(2); let x: = 1")}); err != nil || r.Status != v8.SyntaxError {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := i.Run(v8.Script{Source: []byte("n.push(2); n.join()")}); err != nil || r.Text == nil || *r.Text != "1,2" {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestLargeGlobals checks that the limit of literals does not apply to long texts, that equal values
// make equal heaps, and that values that exceed the heap limit end the run as out of memory.
func TestLargeGlobals(t *testing.T) {
	large := []byte(`{"text":"` + strings.Repeat("0123456789abcdef", 1<<16) + `"}`)
	first := run(t, v8.Config{Globals: large}, "text.length")
	if first.Status != v8.Completed || first.text != "1048576" {
		t.Fatalf("%v: %s", first.Status, first.text)
	}
	if again := run(t, v8.Config{Globals: large}, "text.length"); !bytes.Equal(first.heap, again.heap) {
		t.Error("equal values give other heaps")
	}
	if next := run(t, v8.Config{Heap: first.heap}, "text.slice(-1)"); next.text != "f" {
		t.Errorf("the next run reads %q", next.text)
	}
	huge := []byte(`{"list":[` + strings.Repeat("{},", 1<<20) + `0]}`)
	if got := run(t, v8.Config{Globals: huge, HeapLimit: 8 << 20}, "1"); got.Status != v8.OutOfMemory {
		t.Errorf("huge values: %v: %s", got.Status, got.text)
	}
}
