package worker_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/runner"
)

// The value of a run is that of its last expression, even if a transpiler takes it for dead code.
// Functions show the text of the source.
func TestValueOfTheLastExpression(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, test := range []struct{ code, want string }{
		{"-1", "-1"}, {"-0", "-0"}, {"NaN", "NaN"}, {"!0", "true"}, {`"a"+"b"`, "ab"}, {"1===1", "true"}, {"typeof 5", "number"}, {"true&&-1", "-1"},
		{`+"7"`, "7"}, {"if(1){-1}", "-1"}, {"{-1}", "-1"}, {"5;-1", "-1"}, {"5;undefined", "<none>"}, {"5;void 0", "<none>"}, {`const x=5; "done"; -1`, "-1"},
		{"const r = await 1; !false", "true"}, {"-1n", "-1n"},
		{"function f( a ) { /* kept */ return a }; f.toString()", "function f( a ) { /* kept */ return a }"},
		// A source that V8 refuses is read as TypeScript.
		{"const n: number = 6; n * 7", "42"}, {"interface A { b: string }; enum E { X = 5 }; E.X", "5"},
		{"function id<T>(x: T) { return x }; id<number>(3)", "3"}, {"const l: number[] = [1, 2]; l.map<string>(x => 'n' + x).join()", "n1,n2"},
		{"const x: number = 5; x; -1", "-1"}, {"interface A {}\n-1", "-1"}, {"let x: number\n-1", "-1"}, {"type A = 1; 5; void 0", "<none>"}, {"let s: string; 'a' + 'b'", "ab"},
		{"enum E { A }; -1", "-1"}, {"enum E { A = 7 }; E.A", "7"}, {"5; namespace N { export const x = 1 }", "5"}, {"enum E {}; 5; if (1) { -1 }", "-1"},
		{"enum E {}; for (const i of [1, 2]) { -1; i * 2 }", "4"}, {"enum E {}; 8; try { !0 } finally { 9 }", "true"}, {"function d(...a: any[]) {} 5; @d class A { @d x = 1 }", "5"},
		{"5; namespace N { export const x = 1 }; if (0) -1", "<none>"}, {"class P { constructor(private x: number) {} get() { return this.x } }; new P(3).get(); +'4'", "4"},
		{"'use strict'; enum E {}; (function () { return this === undefined })()", "true"}, {"'use\\x20strict'; enum E {}; (function () { return this === undefined })()", "false"},
		// A source that V8 accepts is JavaScript, whatever its comments and strings contain.
		{"5 // sum using reduce\n-1", "4"}, {"5; // sum using reduce\n-1", "-1"}, {"' using x'; -1", "-1"}, {"// f<T>(x)\n5; -1", "-1"}, {"let a=1,b=2,c=3; a<b>(c)", "false"},
		{"let g = (x) => x, T = 1; g<T>(3)", "false"}, {"{ using r = { [Symbol.dispose]() {} }; 5; -1 }", "-1"}, {"// using x\nusing s = null; 4; void 0", "<none>"},
		{"let log = []; { using r = { [Symbol.dispose]() { log.push('gone') } }; log.push('here') } log.join()", "here,gone"},
		{"const seen: string[] = []; const tag = (v: any, c: any) => { seen.push(c.kind + ' ' + c.name) }; @tag class D { @tag m() {} }; seen.join()", "method m,class D"},
	} {
		o, err := pool.Run(t.Context(), patient(test.code), discard)
		got := "<none>"
		if o.Result != nil {
			got = *o.Result
		}
		if err != nil || o.Status != events.StatusCompleted || got != test.want {
			t.Errorf("%s is %s, want %s (%s %s, %v)", test.code, got, test.want, o.Status, o.Error, err)
		}
	}
}

// Timers of a restored heap are not affected by a source that V8 first refuses as JavaScript.
func TestTimersBesideTypeScript(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	first, err := pool.Run(t.Context(), patient("globalThis.fired = []; const t = setTimeout(() => fired.push(Date.now() - began), 40); t.unref(); let began = Date.now(); 1"), discard)
	if err != nil || first.Heap == nil {
		t.Fatalf("%+v, %v", first, err)
	}
	for _, second := range []string{
		"began = Date.now(); await new Promise(r => setTimeout(r, 50)); fired.join()",
		"const typed: number = 1; began = Date.now(); await new Promise(r => setTimeout(r, 50)); fired.join()",
	} {
		task := patient(second)
		task.Heap = first.Heap
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Result == nil || *o.Result != "40" {
			t.Errorf("%s: %+v, %v", second, o, err)
		}
	}
}

// An error that a script prints has positions in the script, like an error that ends the run.
func TestPrintedPositions(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	task := patient("// one\n\nfunction f() {\n  throw new Error('x')\n}\ntry { f() } catch (e) { console.log(e) }\nf()")
	task.FileName = "my notes.js"
	var lines []events.Line
	o, err := pool.Run(t.Context(), task, collect(&lines))
	if err != nil || !strings.Contains(o.Error, "at f (my notes.js:4:9)") || !strings.Contains(o.Error, "at my notes.js:7:1") {
		t.Errorf("the run ended with %q, %v", o.Error, err)
	}
	if len(lines) < 2 || !strings.Contains(lines[1].Text, "at f (my notes.js:4:9)") {
		t.Errorf("the script printed %+v", lines)
	}
	if strings.Contains(o.Error, "daybook:prelude") {
		t.Errorf("the error shows frames that are none of the script's: %q", o.Error)
	}
}

// If a function of an earlier run throws, its frame has the position in its own source, also if its code
// was generated from TypeScript.
func TestPositionsInEarlierRuns(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for name, code := range map[string]string{
		"JavaScript":           "// one\n\nfunction fail() {\n  throw new Error('x')\n}",
		"TypeScript":           "interface A {\n}\nfunction fail(why?: string): never {\n  throw new Error('x')\n}",
		"generated JavaScript": "enum Color {\n  Red }\nfunction fail(why: Color = Color.Red) {\n  throw new Error('x')\n}",
	} {
		first := patient(code)
		first.FileName = "lib.ts"
		o, err := pool.Run(t.Context(), first, discard)
		if err != nil || len(o.Heap) == 0 {
			t.Fatalf("%s: %+v, %v", name, o, err)
		}
		hash := sha256.Sum256([]byte(code))
		earlier := fmt.Sprintf("lib.ts#%x:4:9", hash[:4])
		for _, then := range []string{
			"\n\ntry { fail() } catch (e) { console.log(e.stack) }\nfail()",
			"enum Other { X }\n\ntry { fail() } catch (e) { console.log(e.stack) }\nfail()",
		} {
			task := patient(then)
			task.FileName, task.Heap = "", o.Heap
			var lines []events.Line
			got, err := pool.Run(t.Context(), task, collect(&lines))
			want := "Error: x\n    at fail (" + earlier + ")\n    at main.ts:4:1"
			if err != nil || got.Error != want {
				t.Errorf("%s: %q, want %q (%v)", name, got.Error, want, err)
			}
			if len(lines) != 3 || lines[1].Text != "    at fail ("+earlier+")" || lines[2].Text != "    at main.ts:3:7" {
				t.Errorf("%s: printed %+v", name, lines)
			}
		}
	}
}

// A run that fails reports how many timers were cancelled, and the next run from its heap ends.
func TestFailureCancelsTimers(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	failed, err := pool.Run(t.Context(), patient("setInterval(() => {}, 1000); setTimeout(() => {}, 9).unref(); oops()"), discard)
	if err != nil || failed.Status != events.StatusFailed || len(failed.Heap) == 0 || failed.TimersCancelled != 2 {
		t.Fatalf("the first run is %s, %d timers cancelled, heap of %d bytes, %v", failed.Status, failed.TimersCancelled, len(failed.Heap), err)
	}
	task := patient("'ended'")
	task.Heap = failed.Heap
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Status != events.StatusCompleted || o.TimersCancelled != 0 {
		t.Errorf("the second run is %s %s, %d timers cancelled, %v", o.Status, o.Error, o.TimersCancelled, err)
	}
	// The run saves no heap, so its timers do not matter.
	task = patient("setInterval(() => {}, 1000); oops()")
	task.Stateful = false
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Status != events.StatusFailed || o.TimersCancelled != 0 {
		t.Errorf("a stateless run is %s, %d timers cancelled, %v", o.Status, o.TimersCancelled, err)
	}
}

// An error caused by a habit of Node or browsers has a hint.
func TestHints(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const network = "scripts reach the network with fetch"
	for _, test := range []struct{ code, first, hint string }{
		{`{ import x from "y" }`, "SyntaxError: Cannot use import statement outside a module", "at the top level"},
		{`export const a = 1`, "SyntaxError: Unexpected token 'export'", "exports nothing"},
		{`import.meta.url`, "SyntaxError: Cannot use 'import.meta' outside a module", "no import.meta"},
		{`const fs = require("fs")`, "ReferenceError: require is not defined", "scripts have no require"},
		{`module.exports = 1`, "ReferenceError: module is not defined", "exports nothing"},
		{`const r = await new WebSocket("wss://example.com")`, "ReferenceError: WebSocket is not defined", network},
		{`(() => { const n: number = 1; return new XMLHttpRequest(n) })()`, "ReferenceError: XMLHttpRequest is not defined", network},
		{`process.env.HOME`, "ReferenceError: process is not defined", "scripts have no process"},
		{`Buffer.from("x")`, "ReferenceError: Buffer is not defined", "use Uint8Array"},
		{`window.x = 1`, "ReferenceError: window is not defined", "scripts run without a browser page"},
		{`document.title`, "ReferenceError: document is not defined", "scripts run without a browser page"},
		{`__dirname`, "ReferenceError: __dirname is not defined", "scripts have no files"},
		{`localStorage.getItem("a")`, "ReferenceError: localStorage is not defined", "scripts need no storage"},
		{`alert(1)`, "ReferenceError: alert is not defined", "scripts cannot ask"},
		{`global.x = 1`, "ReferenceError: global is not defined", "use globalThis"},
		{`Deno.args`, "ReferenceError: Deno is not defined", "scripts have no process"},
		{`new SharedArrayBuffer(1)`, "ReferenceError: SharedArrayBuffer is not defined", "with the heap none"},
		{`return 5`, "SyntaxError: Illegal return statement", "the value of the last expression"},
		{`const n: number = 5; return n`, "SyntaxError: Illegal return statement", "the value of the last expression"},
		{"```js\n1 + 1\n```", "TypeError: \"\" is not a function", "Markdown fence"},
		{`{"a": 1, "b": 2}`, "SyntaxError: Unexpected token ':'", "into parentheses"},
		{`console.log(“hello”)`, "SyntaxError: Invalid or unexpected token", "typographic quotes"},
		{`print(1)`, "ReferenceError: print is not defined", "use console.log"},
		{`path.join("a", "b")`, "ReferenceError: path is not defined", "scripts have no require"},
		{`throw new Error("Not supported")`, "Error: Not supported\n", ""},
		{`throw new Error("import")`, "Error: import\n", ""},
		{`fetched()`, "ReferenceError: fetched is not defined\n", ""},
		{`typeof process + typeof Buffer + (() => { try { process } catch (e) { throw new Error(e.message) } })()`, "Error: process is not defined\n", ""},
	} {
		o, err := pool.Run(t.Context(), patient(test.code), discard)
		first, _, _ := strings.Cut(o.Error, "\n")
		if err != nil || o.Status != events.StatusFailed || !strings.HasPrefix(o.Error, test.first) || !strings.Contains(first, test.hint) || test.hint == "" && strings.Contains(first, "; ") {
			t.Errorf("%s: %s %q, %v; want %q with %q", test.code, o.Status, o.Error, err, test.first, test.hint)
		}
		if !strings.Contains(o.Error, "cell.ts:1:") {
			t.Errorf("%s: the place is lost: %q", test.code, o.Error)
		}
	}
	task := patient(`[typeof WebSocket, typeof process, typeof Buffer, typeof window, typeof global, typeof require].join()`)
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Result == nil || *o.Result != strings.TrimSuffix(strings.Repeat("undefined,", 6), ",") {
		t.Errorf("scripts see %+v, %v", o, err)
	}
}

// The error about a name that an earlier run declared in another way explains the cause and has a
// position.
func TestTakenNames(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	first, err := pool.Run(t.Context(), patient("let x = 1; let y = 2; 0"), discard)
	if err != nil || len(first.Heap) == 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	hash := sha256.Sum256([]byte("let x = 1; let y = 2; 0"))
	for _, code := range []string{"const x = 2", "const n: number = 1; const x = n", "enum E { A }; const x = 2", "var y"} {
		task := patient(code)
		task.Heap = first.Heap
		o, err := pool.Run(t.Context(), task, discard)
		said := fmt.Sprintf("has already been declared; an earlier run (cell.ts#%x) declared it: ", hash[:4])
		if err != nil || o.Reason != runner.ReasonSyntaxError || !strings.Contains(o.Error, said) || strings.Count(o.Error, "\n    at cell.ts:1:") != 1 {
			t.Errorf("%s: %s %q, %v; want %q", code, o.Reason, o.Error, err, said)
		}
	}
}
