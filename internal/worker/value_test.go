package worker_test

import (
	"strings"
	"testing"

	"daybook/internal/worker"
)

// The value of a run is that of its last expression, also of one that a
// transpiler takes for dead code, and functions show the text they were given.
func TestValueOfTheLastExpression(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, test := range []struct{ code, want string }{
		{"-1", "-1"}, {"-0", "-0"}, {"NaN", "NaN"}, {"!0", "true"}, {`"a"+"b"`, "ab"}, {"1===1", "true"}, {"typeof 5", "number"}, {"true&&-1", "-1"},
		{`+"7"`, "7"}, {"if(1){-1}", "-1"}, {"{-1}", "-1"}, {"5;-1", "-1"}, {"5;undefined", "<none>"}, {"5;void 0", "<none>"}, {`const x=5; "done"; -1`, "-1"},
		{"const r = await 1; !false", "true"}, {"-1n", "-1n"},
		{"function f( a ) { /* kept */ return a }; f.toString()", "function f( a ) { /* kept */ return a }"},
		// What V8 refuses is TypeScript, or nothing.
		{"const n: number = 6; n * 7", "42"}, {"interface A { b: string }; enum E { X = 5 }; E.X", "5"},
		{"function id<T>(x: T) { return x }; id<number>(3)", "3"}, {"let g = (x) => x, T = 1; g<T>(3)", "3"}, {"[1, 2].map<string>(x => 'n' + x).join()", "n1,n2"},
		{"let log = []; { using r = { [Symbol.dispose]() { log.push('gone') } }; log.push('here') } log.join()", "here,gone"},
		{"const seen: string[] = []; const tag = (v: any, c: any) => { seen.push(c.kind + ' ' + c.name) }; @tag class D { @tag m() {} }; seen.join()", "method m,class D"},
	} {
		o, err := pool.Run(t.Context(), patient(test.code), discard)
		got := "<none>"
		if o.Result != nil {
			got = *o.Result
		}
		if err != nil || o.Status != worker.StatusCompleted || got != test.want {
			t.Errorf("%s is %s, want %s (%s %s, %v)", test.code, got, test.want, o.Status, o.Error, err)
		}
	}
}

// Timers of a restored heap run as if V8 had not been asked first whether a
// source is JavaScript.
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

// What a script prints of an error points into the script, as the error itself
// does.
func TestPrintedPositions(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	task := patient("// one\n\nfunction f() {\n  throw new Error('x')\n}\ntry { f() } catch (e) { console.log(e) }\nf()")
	task.FileName = "my notes.js"
	var lines []worker.Line
	o, err := pool.Run(t.Context(), task, collect(&lines))
	if err != nil || !strings.Contains(o.Error, "at f (my notes.js:4:9)") || !strings.Contains(o.Error, "at my notes.js:7:1") {
		t.Errorf("the run ended with %q, %v", o.Error, err)
	}
	if len(lines) < 2 || !strings.Contains(lines[1].Text, ":4:9)") {
		t.Errorf("the script printed %+v", lines)
	}
}

// A run that fails reports how many timers it cancelled, and the next run of its heap
// ends.
func TestFailureCancelsTimers(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	failed, err := pool.Run(t.Context(), patient("setInterval(() => {}, 1000); setTimeout(() => {}, 9).unref(); oops()"), discard)
	if err != nil || failed.Status != worker.StatusFailed || len(failed.Heap) == 0 || failed.TimersCancelled != 2 {
		t.Fatalf("the first run is %s, %d timers cancelled, heap of %d bytes, %v", failed.Status, failed.TimersCancelled, len(failed.Heap), err)
	}
	task := patient("'ended'")
	task.Heap = failed.Heap
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Status != worker.StatusCompleted || o.TimersCancelled != 0 {
		t.Errorf("the second run is %s %s, %d timers cancelled, %v", o.Status, o.Error, o.TimersCancelled, err)
	}
	// No heap is left whose timers could matter.
	task = patient("setInterval(() => {}, 1000); oops()")
	task.Stateful = false
	if o, err := pool.Run(t.Context(), task, discard); err != nil || o.Status != worker.StatusFailed || o.TimersCancelled != 0 {
		t.Errorf("a stateless run is %s, %d timers cancelled, %v", o.Status, o.TimersCancelled, err)
	}
}

// Whoever expects modules is told that there are none, and what to do.
func TestNoModules(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const told = "scripts run without modules"
	for _, test := range []struct {
		code, first string
		told        bool
	}{
		{`import x from "y"`, "SyntaxError: Cannot use import statement outside a module", true},
		{"import { a } from 'y'; const n: number = 2", "SyntaxError: Cannot use import statement outside a module", true},
		{`export const a = 1`, "SyntaxError: Unexpected token 'export'", true},
		{`import.meta.url`, "SyntaxError: Cannot use 'import.meta' outside a module", true},
		{`await import("y")`, "Error: Not supported", true},
		{`const fs = require("fs")`, "ReferenceError: require is not defined", true},
		{`throw new Error("Not supported")`, "Error: Not supported", false},
		{`throw new Error("import")`, "Error: import", false},
	} {
		o, err := pool.Run(t.Context(), patient(test.code), discard)
		if err != nil || o.Status != worker.StatusFailed || !strings.HasPrefix(o.Error, test.first) || strings.Contains(o.Error, told) != test.told {
			t.Errorf("%s: %s %q, %v; want %q", test.code, o.Status, o.Error, err, test.first)
		}
		if !strings.Contains(o.Error, "\n    at cell.ts:1:") {
			t.Errorf("%s: the place is lost: %q", test.code, o.Error)
		}
	}
}
