package v8_test

import (
	"strings"
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// uncaughtHelpers are the helpers of testdata/record.mjs.
const uncaughtHelpers = "const shared = { s: 1 }; const at = (e) => { e.stack = `${e.name}: ${e.message}\\n    at place (file.js:1:2)`; return e };\n"

// The error of a run is what Node printed for an uncaught error when the cases were recorded.
func TestUncaughtAsNode(t *testing.T) {
	for _, c := range recorded[struct{ Code, Want string }](t, "uncaught.json") {
		for _, mode := range modes {
			r, _ := print(t, mode.cfg, uncaughtHelpers+c.Code)
			if r.Status != v8.Exception || textOf(r) != c.Want {
				t.Errorf("%s (%s): %v\n got %q\nwant %q", c.Code, mode.name, r.Status, textOf(r), c.Want)
			}
		}
	}
}

// The message comes first, also in cases in which Node wraps the error.
func TestUncaughtMessageFirst(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"const e = new Error('x'); e.self = e; throw e", "Error: x { self: [Circular *1] }"},
		{"throw Object.assign(new Error('x'), { code: 1 })", "Error: x { code: 1 }"},
		{"throw new AggregateError([1], 'x')", "AggregateError: x { [errors]: [ 1 ] }"},
		{"await Promise.any([Promise.reject(new Error('a'))])", "AggregateError: All promises were rejected { [errors]: [ [Error: a] ] }"},
		{"const e = new Error('x'); e.stack = ''; e.code = 1; throw e", "Error: x { code: 1 }"},
		{"const e = new Error('x'); Object.defineProperty(e, 'message', { get() { throw 1 } }); e.code = 1; throw e", "<error> { code: 1 }"},
		{"const e = new Error('x'); e.message = 'y'; e.name = 'N'; throw e", "N: y"},
		{"const e = new Error('x'); Object.defineProperty(e, 'cause', { get() { throw 1 } }); throw e", "Error: x { [cause]: [Getter] }"},
		{"const e = new Error('x'); Object.defineProperty(e, 'errors', { get() { throw 1 } }); throw e", "Error: x"},
		{"const e = new Error('x'); e.cause = e; throw e", "Error: x { cause: [Circular *1] }"},
		{"const bad = new Error('y'); Object.defineProperty(bad, 'name', { get() { throw 1 } }); throw Object.assign(new Error('x'), { bad, good: 1 })", "Error: x { bad: <Inspection threw>, good: 1 }"},
		{"throw Object.assign(new Error('x'), { p: new Proxy({ a: 1 }, new Proxy({}, { get() { throw 1 } })) })", "Error: x { p: { a: 1 } }"},
		{"const e = new Error('x'); Object.setPrototypeOf(e, new Proxy(Error.prototype, { get() { throw 1 }, has() { throw 2 }, getPrototypeOf() { throw 3 } })); e.code = 1; throw e", "<error> { code: 1 }"},
	} {
		for _, mode := range modes {
			r, _ := print(t, mode.cfg, withoutFrames+test.source)
			if r.Status != v8.Exception || textOf(r) != test.want {
				t.Errorf("%s (%s): %v %q, want %q", test.source, mode.name, r.Status, textOf(r), test.want)
			}
		}
	}
}

// The text of an error is cut if the error has much data, and that takes little time.
func TestUncaughtIsBounded(t *testing.T) {
	for _, test := range []struct{ name, source string }{
		{"a long string", "e.text = 'x'.repeat(1e7)"},
		{"many strings", "for (let i = 0; i < 1e4; i++) e['k' + i] = 'x'.repeat(1e4)"},
		{"many properties", "for (let i = 0; i < 1e5; i++) e['k' + i] = i"},
		{"many properties inside", "e.o = {}; for (let i = 0; i < 1e5; i++) e.o['k' + i] = i"},
		{"wide and deep", "const w = n => n ? Array.from({ length: 50 }, () => w(n - 1)) : 'leaf'; e.w = w(3)"},
		{"shared parts", "let s = [1]; for (let i = 0; i < 40; i++) s = [s, s]; e.s = s"},
		{"many errors", "e.errors = Array.from({ length: 2e4 }, (_, i) => new Error('n' + i))"},
		{"a chain of causes", "let c = new Error('0'); for (let i = 0; i < 2000; i++) c = new Error('c', { cause: c }); e.cause = c"},
		{"wide characters", "e.text = Array.from({ length: 90 }, () => '\\u{1f600}'.repeat(900))"},
	} {
		for _, mode := range modes {
			cfg := mode.cfg
			cfg.HeapLimit = 256 << 20
			began := time.Now()
			r, _ := print(t, cfg, "const e = new Error('x'); "+test.source+"; throw e")
			if r.Status != v8.Exception || !strings.HasPrefix(textOf(r), "Error: x\n    at ") || len(textOf(r)) > 300<<10 {
				t.Errorf("%s (%s): %v, %d bytes: %.200s", test.name, mode.name, r.Status, len(textOf(r)), textOf(r))
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s (%s): took %v", test.name, mode.name, took)
			}
		}
	}
}

// User code that runs while an error is printed can be terminated.
func TestUncaughtCanBeTerminated(t *testing.T) {
	for _, source := range []string{
		"const c = new Error('y'); Object.defineProperty(c, 'name', { get() { for (;;); } }); throw new Error('x', { cause: c })",
		"const c = new Error('y'); Object.defineProperty(c, 'stack', { get() { for (;;); } }); throw new AggregateError([c], 'x')",
		"Error.prepareStackTrace = () => { for (;;); }; throw new Error('x')",
		"throw Object.assign(new Error('x'), { o: Object.create(new Proxy({}, { getPrototypeOf() { for (;;); } })) })",
	} {
		for _, mode := range modes {
			cfg := mode.cfg
			cfg.Start = start
			i, err := v8.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			timer := time.AfterFunc(100*time.Millisecond, i.Terminate)
			r, err := i.Run(v8.Script{Source: []byte(source)})
			if err != nil || r.Status != v8.Terminated || r.Text != nil {
				t.Errorf("%s (%s) ended as %v %s, %v", source, mode.name, r.Status, textOf(r), err)
			}
			timer.Stop()
			i.Dispose()
		}
	}
}
