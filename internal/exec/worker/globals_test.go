package worker_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"daybook/events"
	"daybook/internal/exec/worker"
)

// TestGlobals checks that the values of a task do not change how its code runs: positions,
// hashbangs, directives, TypeScript and completion values are the same as without values.
func TestGlobals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	const none = "<none>"
	for _, test := range []struct{ code, want string }{
		{"prompt.resources.length", "1"},
		{"let x = 5", none},
		{"function f() {}", none},
		{"// nothing", none},
		{"type T = 1", none},
		{"enum E {A}\nE.A", "0"},
		{"#!/usr/bin/env node\nprompt.resources[0].uri", "file:///a"},
		{"'use strict'; (function () { return typeof this })()", "undefined"},
		{"let n: number = prompt.resources.length; n + 1", "2"},
		{"nope.a.b", "ReferenceError: nope is not defined\n    at cell.ts:1:1"},
		{"const x = = 1", "1:11"},
	} {
		for _, stateful := range []bool{true, false} {
			task := patient(test.code)
			task.Stateful = stateful
			task.Globals = []byte(`{"prompt":{"resources":[{"uri":"file:///a"}]}}`)
			o, err := pool.Run(t.Context(), task, discard)
			if err != nil {
				t.Fatal(err)
			}
			got := none
			switch {
			case o.Error != "":
				got = o.Error
			case o.Result != nil:
				got = *o.Result
			}
			if got != test.want && (o.Error == "" || !strings.Contains(got, test.want)) {
				t.Errorf("%q (stateful: %t) comes to %q, want %q", test.code, stateful, got, test.want)
			}
			// A task without values does the same if it does not read them.
			if strings.Contains(test.code, "prompt") {
				continue
			}
			task.Globals = nil
			bare, err := pool.Run(t.Context(), task, discard)
			if err != nil || bare.Error != o.Error || bare.TranspiledSHA256 != o.TranspiledSHA256 {
				t.Errorf("%q without values: %+v, %v; with them: %+v", test.code, bare, err, o)
			}
		}
	}
}

// TestGlobalsWarnings checks the warnings of runs whose global object does not accept the values, or
// whose heap declares their names: they name the values, what an earlier run did, and what to do.
func TestGlobalsWarnings(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	for _, c := range []struct {
		before, values, script, result, warning string
		hideNames                               bool
	}{
		{before: "Object.freeze(globalThis)", values: `{"a":1}`, script: "typeof a", result: "undefined",
			warning: `globalThis does not accept the values given to this run as "a": an earlier run froze globalThis; run without the heap to give them to the script`},
		{before: "Object.seal(globalThis)", values: `{"a":1,"b":2}`, script: "typeof a", result: "undefined",
			warning: `globalThis does not accept the values given to this run as "a", "b": an earlier run sealed globalThis; run without the heap to give them to the script`},
		{before: "Object.preventExtensions(globalThis)", values: `{"a":1}`, script: "typeof a", result: "undefined", hideNames: true,
			warning: "globalThis does not accept 1 value given to this run: an earlier run prevented extensions of globalThis; run without the heap to give them to the script"},
		{before: "Object.defineProperty(globalThis, 'a', { value: 0 })", values: `{"a":1}`, script: "a", result: "0",
			warning: `globalThis does not accept the values given to this run as "a": an earlier run made properties of these names read-only; give the values other names, or run without the heap`},
		{before: "let prompt = 'spoofed'", values: `{"prompt":"honest"}`, script: "prompt", result: "spoofed",
			warning: `the script does not see the values given to this run as "prompt": an earlier run declared these names with let, const or class`},
		{before: "let a, b", values: `{"a":1,"b":2}`, script: "typeof a", result: "undefined", hideNames: true,
			warning: "the script does not see 2 values given to this run: an earlier run declared these names"},
		{before: "Object.freeze(globalThis)", values: `{"` + strings.Repeat("\\n", 5000) + `":1,"` + strings.Repeat("x", 100) + `":2}`, script: "1", result: "1",
			warning: `globalThis does not accept the values given to this run as "\n`},
	} {
		before, err := pool.Run(t.Context(), patient(c.before), discard)
		if err != nil || before.Status != events.StatusCompleted {
			t.Fatalf("%+v, %v", before, err)
		}
		task := patient(c.script)
		task.Heap, task.Globals, task.HideNames = before.Heap, []byte(c.values), c.hideNames
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Result == nil || *o.Result != c.result {
			t.Fatalf("%+v, %v", o, err)
		}
		// Warnings about what the heap changed come first.
		if len(o.Warnings) == 0 || !strings.HasPrefix(o.Warnings[len(o.Warnings)-1], c.warning) {
			t.Errorf("%s: it warns %q", c.before, o.Warnings)
		}
	}
}

// FuzzTask passes any task to a worker. The worker must refuse it unless it has exactly the parts
// that its header announces.
func FuzzTask(f *testing.F) {
	frames := func(parts ...string) []byte {
		var b bytes.Buffer
		for _, p := range parts {
			if err := worker.WriteFrame(&b, 'D', []byte(p)); err != nil {
				f.Fatal(err)
			}
		}
		return b.Bytes()
	}
	f.Add([]byte(`{"file_name":"a.ts","code_size":1,"heap_size":2,"servers_size":2,"globals_size":3}`), frames("{}", "{ }", "1", "hp"))
	f.Add([]byte(`{"code_size":1,"globals_size":2}`), frames("{}1"))
	f.Add([]byte(`{"globals_size":-1}`), []byte{})
	f.Add([]byte(`{"globals_size":16777217}`), []byte{})
	f.Add([]byte(`{"heap_size":9223372036854775807}`), []byte{})
	f.Add([]byte(`{"code_size":1}`), frames("", "1"))
	f.Add([]byte(`{"code_size":2}`), frames("1"))
	f.Fuzz(func(t *testing.T, header, data []byte) {
		servers, globals, code, heap, err := worker.ReadTask(header, data)
		if err != nil {
			if !errors.Is(err, worker.ErrProtocol) {
				t.Fatalf("unexpected error %v", err)
			}
			return
		}
		if total := servers + globals + code + heap; total > len(data) || globals > worker.MaxGlobals || code > worker.MaxCode {
			t.Fatalf("%d, %d, %d and %d bytes from %d", servers, globals, code, heap, len(data))
		}
	})
}
