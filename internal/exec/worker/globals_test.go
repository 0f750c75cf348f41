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

// TestRefusedGlobals checks the warning of a run whose global object does not accept the values.
func TestRefusedGlobals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: 1})
	defer pool.Close()
	before, err := pool.Run(t.Context(), patient("Object.freeze(globalThis); 1"), discard)
	if err != nil || before.Status != events.StatusCompleted {
		t.Fatalf("%+v, %v", before, err)
	}
	task := patient("typeof a")
	task.Heap, task.Globals = before.Heap, []byte(`{"a":1}`)
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Result == nil || *o.Result != "undefined" {
		t.Fatalf("%+v, %v", o, err)
	}
	// The first warning is about the frozen objects of the heap.
	if len(o.Warnings) != 2 || !strings.Contains(o.Warnings[1], "globalThis refused 1 of the values") {
		t.Errorf("it warns %q", o.Warnings)
	}
}

// TestHiddenGlobals checks the warning of a run whose heap declares the name of a value.
func TestHiddenGlobals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	before, err := pool.Run(t.Context(), patient("let prompt = 'spoofed'"), discard)
	if err != nil || before.Status != events.StatusCompleted {
		t.Fatalf("%+v, %v", before, err)
	}
	task := patient("prompt")
	task.Heap, task.Globals = before.Heap, []byte(`{"prompt":"honest"}`)
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Result == nil || *o.Result != "spoofed" || len(o.Warnings) != 1 || !strings.HasPrefix(o.Warnings[0], "an earlier run declared 1 of the names") {
		t.Errorf("%+v, %v", o, err)
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
