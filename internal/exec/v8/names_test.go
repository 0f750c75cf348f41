package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// The error for a name that an earlier run declared in another way has the name of that run and what
// to do.
func TestNamesOfEarlierRuns(t *testing.T) {
	const base = "let a = 1; const b = 2; class C {}; var d = 4; function e() {}; 0"
	first := runNamed(t, v8.Config{}, "main.ts", base, "")
	// Declared again, and more, by a second run.
	const more = "let a = 5, f = 6; 0"
	second := runNamed(t, v8.Config{Heap: first.heap}, "more.ts", more, "")
	one, two := v8.ScriptName("main.ts", []byte(base)), v8.ScriptName("more.ts", []byte(more))
	const advice = "declared it: assign to it without a keyword, declare it once and with the same keyword as there, or use another name"
	for _, test := range []struct{ source, want string }{
		{"const a = 1", "SyntaxError: Identifier 'a' has already been declared; an earlier run (" + two + ") " + advice},
		{"let b = 1", "SyntaxError: Identifier 'b' has already been declared; an earlier run (" + one + ") " + advice},
		{"var f", "SyntaxError: Identifier 'f' has already been declared; an earlier run (" + two + ") " + advice},
		{"function b() {}", "SyntaxError: Identifier 'b' has already been declared; an earlier run (" + one + ") " + advice},
		{"let d = 1", "SyntaxError: Identifier 'd' has already been declared; it is a global that an earlier run declared with var or function"},
		{"let e = 1", "SyntaxError: Identifier 'e' has already been declared; it is a global that an earlier run declared with var or function"},
		{"let g; const g = 1", "SyntaxError: Identifier 'g' has already been declared"},
		{"let undefined", "SyntaxError: "},
	} {
		o := runNamed(t, v8.Config{Heap: second.heap}, "main.ts", test.source, "")
		if o.Status != v8.SyntaxError || !strings.HasPrefix(o.text, test.want) {
			t.Errorf("%s: %v %q, want %q", test.source, o.Status, o.text, test.want)
		}
		if test.source == "let g; const g = 1" && o.text != test.want {
			t.Errorf("a script that declares a name twice: %q", o.text)
		}
	}
	if o := runNamed(t, v8.Config{Heap: second.heap}, "main.ts", "let a = 7; const b = 8; class C { }; var d = 9; [a, b, d].join()", ""); o.text != "7,8,9" {
		t.Errorf("declared again: %v %q", o.Status, o.text)
	}
	// Names that a script chose to mislead.
	hostile := run(t, v8.Config{}, "let __proto__x = 1, \u0061\u00e9 = 2; Map.prototype.get = Map.prototype.set = () => { throw 1 }; 0")
	if o := run(t, v8.Config{Heap: hostile.heap}, "const a\u00e9 = 1"); o.Status != v8.SyntaxError || !strings.Contains(o.text, "an earlier run declared it") {
		t.Errorf("%v %q", o.Status, o.text)
	}
}
