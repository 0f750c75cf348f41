package worker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/internal/exec/worker"
	"daybook/runner"
)

// The outcome reports whether the input heap is pristine and which timers it has, in all ways that a
// run can end.
func TestCarriedReport(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	run := func(code string, heap []byte) runner.Outcome {
		t.Helper()
		task := patient(code)
		task.Stateful, task.Heap = true, heap
		if strings.HasPrefix(code, "for (;;)") {
			task.Timeout = time.Second // long enough to restore the heap on a slow machine
		}
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	yes, no := true, false
	for _, test := range []struct {
		name, past, later string
		pristine          *bool
		warnings          []string // prefixes
	}{
		{"nothing", "var a = 1", "a", &yes, nil},
		{"a method", "Array.prototype.map = 1", "1", &no, []string{"this heap changed Array.prototype.map: result, error and output"}},
		{"a run that throws", "JSON.stringify = 1", "throw 1", &no, []string{"this heap changed JSON.stringify: "}},
		{"a run that does not parse", "JSON.stringify = 1", "1 +", &no, []string{"this heap changed JSON.stringify: "}},
		{"an accessor", "Object.defineProperty(globalThis, 'total', { get() { return 666 }, configurable: true })", "var total = 1; total", &yes,
			[]string{"this heap has accessors or read-only properties of earlier runs on globalThis: total (accessor); a run that reads"}},
		{"a read-only property", "Object.defineProperty(globalThis, 'total', { value: 666, configurable: true })", "var total = 1; total", &yes,
			[]string{"this heap has accessors or read-only properties of earlier runs on globalThis: total (read-only); a run that reads"}},
		{"a built-in object behind an accessor", "Object.defineProperty(globalThis, 'JSON', { get() { return 666 } })", "1", &no, []string{"this heap changed JSON: "}},
		{"many accessors, and a run out of time", "for (let i = 0; i < 100; i++) Object.defineProperty(globalThis, '\\x1b[2J\"' + i + 'x'.repeat(100), { get() {} })", "for (;;);", &yes,
			[]string{`this heap has accessors or read-only properties of earlier runs on globalThis: globalThis["?[2J\"0` + strings.Repeat("x", 34) + `..."] (accessor), `}},
		{"a run out of time", "JSON.stringify = 1", "for (;;);", &no, []string{"this heap changed JSON.stringify: "}},
		{"many", "for (const k of Object.getOwnPropertyNames(String.prototype)) if (k !== 'length') String.prototype[k] = 1", "1", &no, []string{"this heap changed String.prototype.constructor, String.prototype.anchor, "}},
		{"known names", "Object.prototype.toJSON = Error.prepareStackTrace = 1", "1", &no, []string{"this heap changed Object.prototype.toJSON (added), Error.prepareStackTrace (added): "}},
		{"names of one's own", "Object.prototype.secret = Array.prototype['my secret'] = Map.prototype[Symbol('secret')] = Set.prototype[Symbol('Symbol.secret')] = 1", "1", &no,
			[]string{"this heap changed Object.prototype (a property added), Array.prototype (a property added), Map.prototype (a property added), Set.prototype (a property added): "}},
		{"symbols that look well known", "Array.prototype[Symbol('secret[Symbol.iterator')] = Map.prototype[Symbol('secret[Symbol.species]')] = 1", "1", &no,
			[]string{"this heap changed Array.prototype (a property added), Map.prototype (a property added): "}},
		{"a well-known symbol", "Object.prototype[Symbol.toStringTag] = 1", "1", &no, []string{"this heap changed Object.prototype[Symbol.toStringTag] (added): "}},
		{"finalizers", "var held = {}, registry = new FinalizationRegistry(() => console.log('evil')); registry.register(held, 1)", "held = null", &yes,
			[]string{"this heap registered objects with a FinalizationRegistry"}},
		{"a declaration", "let JSON = 1", "1", &no, []string{"this heap changed JSON (hidden by a declaration): "}},
		{"timers", "setInterval(() => {}, 1).unref(); setTimeout(() => {}, 1).unref()", "1", &yes,
			[]string{"this heap carries 2 timers of earlier runs (1 timeout, 1 interval; 2 unref'd) that may run code during this run"}},
		{"a timer, and a run out of time", "setInterval(() => {}, 1).unref(); Math.max = 1", "for (;;);", &no,
			[]string{"this heap changed Math.max: ", "this heap carries 1 timer of earlier runs (1 interval; 1 unref'd) that may run code"}},
	} {
		first := run(test.past, nil)
		if first.Heap == nil || first.Pristine != nil || len(first.Warnings) != 0 {
			t.Fatalf("%s: the past: %+v", test.name, first)
		}
		o := run(test.later, first.Heap)
		if o.Pristine == nil || *o.Pristine != *test.pristine || len(o.Warnings) != len(test.warnings) {
			t.Errorf("%s: pristine %v, warnings %q", test.name, o.Pristine, o.Warnings)
			continue
		}
		for i, want := range test.warnings {
			if !strings.HasPrefix(o.Warnings[i], want) || strings.Contains(o.Warnings[i], "secret") || len(o.Warnings[i]) > 512 {
				t.Errorf("%s: warning %q, want %q", test.name, o.Warnings[i], want)
			}
		}
	}
}

// The warning about accessors has no names if the content of the session can be shredded.
func TestHiddenNamesOfGlobals(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	task := patient("Object.defineProperty(globalThis, 'secret', { get() {} }); Object.defineProperty(globalThis, 'secret2', { value: 1 })")
	o, err := pool.Run(t.Context(), task, discard)
	if err != nil || o.Heap == nil {
		t.Fatalf("%+v, %v", o, err)
	}
	task = patient("1")
	task.Heap, task.HideNames = o.Heap, true
	o, err = pool.Run(t.Context(), task, discard)
	if err != nil || len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "on globalThis: 2 names; ") || strings.Contains(o.Warnings[0], "secret") {
		t.Errorf("%+v, %v", o, err)
	}
}

// Errors that V8 cannot save, because a function of the script decides what their stacks are, end
// the run with a message that says what to do.
func TestLinkedErrors(t *testing.T) {
	t.Parallel()
	pool := worker.New(worker.Options{Idle: -1})
	defer pool.Close()
	const chain = "const first = (function make(n) { const e = new Error('e' + n); READ; if (n > 0) e.cause = make(n - 1); return e })(30); 'made'"
	for read, want := range map[string]string{"Error.prepareStackTrace = String": runner.ReasonUnserializableHeap, "Error.prepareStackTrace = String; e.stack": "", "0": ""} {
		task := hostileTask(strings.Replace(chain, "READ", read, 1))
		task.Timeout = 20 * time.Second
		o, err := pool.Run(t.Context(), task, discard)
		if err != nil || o.Reason != want || want != "" && !strings.Contains(o.Error, "Read error.stack") {
			t.Errorf("with %s: %s, %s, %v", read, o.Reason, o.Error, err)
		}
	}
}

// A worker reports what a heap carries once, before any code of the run, within limits, and only if
// the task has a heap.
func TestFramesOfCarriedReports(t *testing.T) {
	t.Parallel()
	const clean = `{"checked":true,"changes":0,"changed":[],"timers":{"timeouts":0,"intervals":0,"immediates":0,"unreferenced":0}}`
	end := `{"end":"completed","has_text":false,"text_size":0,"heap_size":0,"transpiled_sha256":"` + strings.Repeat("ab", 32) + `"}`
	line := string(slices.Concat([]byte{0, 0}, make([]byte, 8), []byte{0, 0, 0, 1}, []byte("x")))
	long := strings.Repeat("x", 300)
	type frame struct {
		kind    byte
		payload string
	}
	for _, test := range []struct {
		name    string
		resumes bool
		frames  []frame
		broken  bool
	}{
		{"in order", true, []frame{{'A', ""}, {'I', clean}, {'L', line}, {'E', end}}, false},
		{"of no heap", false, []frame{{'A', ""}, {'I', clean}}, true},
		{"twice", true, []frame{{'A', ""}, {'I', clean}, {'I', clean}}, true},
		{"before it was accepted", true, []frame{{'I', clean}}, true},
		{"after a line", true, []frame{{'A', ""}, {'L', line}, {'I', clean}}, true},
		{"not at all", true, []frame{{'A', ""}, {'L', line}, {'E', end}}, true},
		{"no JSON", true, []frame{{'A', ""}, {'I', "{"}}, true},
		{"unknown members", true, []frame{{'A', ""}, {'I', `{"safe":true}`}}, true},
		{"changes without names", true, []frame{{'A', ""}, {'I', `{"checked":true,"changes":1}`}}, true},
		{"names without changes", true, []frame{{'A', ""}, {'I', `{"checked":true,"changed":["a"]}`}}, true},
		{"changes that were not looked for", true, []frame{{'A', ""}, {'I', `{"changes":1,"changed":["a"]}`}}, true},
		{"a negative number", true, []frame{{'A', ""}, {'I', `{"checked":true,"changes":-1}`}}, true},
		{"a long name", true, []frame{{'A', ""}, {'I', `{"checked":true,"changes":1,"changed":["` + long + `"]}`}}, true},
		{"an escape sequence", true, []frame{{'A', ""}, {'I', `{"checked":true,"changes":1,"changed":["\u001b[2J"]}`}}, true},
		{"globals without names", true, []frame{{'A', ""}, {'I', `{"checked":true,"globals":{"count":1}}`}}, true},
		{"more names than globals", true, []frame{{'A', ""}, {'I', `{"checked":true,"globals":{"count":1,"names":["a","b"]}}`}}, true},
		{"a negative number of globals", true, []frame{{'A', ""}, {'I', `{"checked":true,"globals":{"count":-1}}`}}, true},
		{"an escape sequence in a global", true, []frame{{'A', ""}, {'I', `{"checked":true,"globals":{"count":1,"names":["\u001b[2J"]}}`}}, true},
		{"more unref'd timers than timers", true, []frame{{'A', ""}, {'I', `{"checked":true,"timers":{"unreferenced":1}}`}}, true},
		{"more timers than fit", true, []frame{{'A', ""}, {'I', `{"checked":true,"timers":{"intervals":999999999}}`}}, true},
	} {
		c := worker.NewFrameChecker(0)
		if test.resumes {
			c = worker.NewFrameCheckerWithHeap(0)
		}
		var err error
		for _, f := range test.frames {
			if _, err = c.Take(f.kind, []byte(f.payload)); err != nil {
				break
			}
		}
		if broken := err != nil; broken != test.broken {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
