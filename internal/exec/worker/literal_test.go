package worker_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/worker"
)

// Literals of any length have their value in a run whose heap is saved. The expected value is that
// of the same run without a heap, whose source is not changed.
func TestLongLiterals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	a, b := strings.Repeat("x", 100_000), strings.Repeat("y", 100_000)
	escapes := `\u{1F600}\x41\101\n\uD83D\uDE00\0`
	for _, test := range []struct{ name, code string }{
		{"constant", `const s = "` + a + b + `"; s`},
		{"the whole script", `"` + a + b + `"`},
		{"after a line without an end", "let x = 1\n'" + a + b + "'.at(-1) + x"},
		{"precedence", `typeof "` + a + b + `" + "` + a + b + `".length * 2`},
		{"object", `const o = {a: '` + a + b + `', "k": ["` + a + b + `"], ['c']: '` + a + b + `'}; o.a + o.k[0] + o.c`},
		{"JSON", `JSON.parse('{"a":"` + a + b + `"}').a`},
		{"parameter, field, case", `class A { x = "` + a + b + `"; static f(y = '` + a + b + `') { switch (y) { case '` + a + b + `': return y } } }; new A().x + A.f()`},
		{"template", "const n = 3; const s = `" + a + b + "${n}" + a + b + "${`" + b + b + "${n}`}`; s"},
		{"tricks of templates", "`" + strings.Repeat("$\\`${'}'}\\${", 30_000) + "`"},
		{"Latin", "'" + strings.Repeat("é", 140_000) + "'"},
		{"beyond Latin", "'" + strings.Repeat("漢😀", 140_000) + "'"},
		{"escapes", "'" + strings.Repeat(escapes, 10_000) + "'"},
		{"line ends", "`" + strings.Repeat("a\r\nb\rc\n", 40_000) + "` + '" + strings.Repeat("c\\\r\nd\\\ne", 40_000) + "'"},
		{"strict", "'use strict'; const s = '" + a + b + "'; [(function () { return this })(), s].join()"},
		{"positions", "function f() { const s = '" + a + b + "', t = `" + a + b + "${f.name}\n" + a + b + "${1}`; null.x }; const é = '" + a + b + "'; f()"},
		{"positions in TypeScript", "function f(): any { const s: string = '" + a + b + "', t = `" + a + b + "${f.name as any}\n" + a + b + "${1}`; null!.x }; f()"},
		{"positions beside an enum", "enum E { A }; function f(): any { const s: string = '" + a + b + "', t = `" + a + b + "${E.A}\n" + a + b + "${1}`; null!.x }; f()"},
	} {
		task := patient(test.code)
		task.HeapLimitBytes = 64 << 20
		task.Stateful = false
		want, err := pool.Run(t.Context(), task, discard)
		if err != nil || want.Result == nil == (want.Error == "") {
			t.Fatalf("%s: without a heap: %+v, %v", test.name, want, err)
		}
		task.Stateful = true
		got, err := pool.Run(t.Context(), task, discard)
		if err != nil || got.Status != want.Status || got.Error != want.Error || (got.Result == nil) != (want.Result == nil) {
			t.Errorf("%s: %s %s %.300q, want %s %.300q (%v)", test.name, got.Status, got.Reason, got.Error, want.Status, want.Error, err)
			continue
		}
		if got.Result != nil && *got.Result != *want.Result {
			t.Errorf("%s: another value of %d bytes, want %d", test.name, len(*got.Result), len(*want.Result))
		}
		if got.Heap == nil {
			t.Errorf("%s: no heap", test.name)
		}
	}
}

func TestLongLiteralsInARestoredHeap(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	long := strings.Repeat("abcdefghij", 30_000)
	task := patient("const s = '" + long + "', o = {k: [`" + long + "`]}; function f() { return '" + long + "' }; 1")
	task.HeapLimitBytes = 64 << 20
	first, err := pool.Run(t.Context(), task, discard)
	if err != nil || first.Heap == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	task.Code, task.Heap = []byte("const want = 'abcdefghij'.repeat(30_000); [s, o.k[0], f(), f()].every(v => v === want && new Map([[v, 1]]).has(want))"), first.Heap
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Result == nil || *o.Result != "true" {
		t.Errorf("%+v, %v", o, err)
	}
}
