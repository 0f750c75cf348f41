package v8_test

import (
	"slices"
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// Inspect finds exactly the accessors and read-only properties that earlier runs put on the global
// object, and does not run their code.
func TestCarriedGlobals(t *testing.T) {
	for _, test := range []struct {
		source string
		count  int
		names  []string
	}{
		{"1", 0, nil},
		{"var a = 1; function f() {} let b = 2; const c = 3; class D {} globalThis.e = Object.freeze({}); globalThis['a b'] = globalThis[7] = globalThis[Symbol('s')] = 1", 0, nil},
		{"Object.defineProperty(globalThis, 'hidden', { value: 1, writable: true })", 0, nil},
		{"Object.defineProperty(globalThis, 'total', { get() { throw 1 }, configurable: true })", 1, []string{"total (accessor)"}},
		{"Object.defineProperty(globalThis, 'total', { set() { throw 1 } })", 1, []string{"total (accessor)"}},
		{"Object.defineProperty(globalThis, 'total', { value: 1 })", 1, []string{"total (read-only)"}},
		{"globalThis.total = 1; Object.freeze(Object.assign(globalThis, {})); 1", 70, []string{"Object (read-only)", "Function (read-only)", "Array (read-only)", "Number (read-only)", "parseFloat (read-only)"}},
		{"Object.defineProperty(globalThis, 7, { get() { throw 1 } })", 1, []string{`globalThis["7"] (accessor)`}},
		{"Object.defineProperty(globalThis, Symbol('a s'), { get() { throw 1 } }); Object.defineProperty(globalThis, Symbol(), { get() { throw 1 } })", 2, []string{`globalThis[Symbol("a s")] (accessor)`, `globalThis[Symbol("")] (accessor)`}},
		{"Object.defineProperty(globalThis, 'a\"], b (\\u2028\\ud800é', { get() { throw 1 } })", 1, []string{`globalThis["a\"], b (???"] (accessor)`}},
		{"Object.defineProperty(globalThis, '', { get() { throw 1 } })", 1, []string{`globalThis[""] (accessor)`}},
		{"Object.defineProperty(globalThis, 'x'.repeat(1 << 16), { get() { throw 1 } })", 1, []string{`globalThis["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..."] (accessor)`}},
		{"for (let i = 0; i < 300; i++) Object.defineProperty(globalThis, 'n' + i, { get() { throw 1 } })", 300, []string{"n0 (accessor)", "n1 (accessor)", "n2 (accessor)", "n3 (accessor)", "n4 (accessor)"}},
		{"Object.setPrototypeOf(globalThis, new Proxy({}, { get() { throw 1 }, has() { throw 1 }, getOwnPropertyDescriptor() { throw 1 }, ownKeys() { throw 1 } })); var p = 1", 0, nil},
		{"Object.defineProperty(Object.prototype, 'get', { get() { throw 1 } }); Object.defineProperty(Array.prototype, '0', { get() { throw 1 } }); Object.defineProperty(globalThis, 'q', { get() { throw 1 } })", 1, []string{"q (accessor)"}},
	} {
		c := inspect(t, saved(t, test.source))
		if got := c.Globals; got.Count < test.count || test.count < 50 && got.Count != test.count || !slices.Equal(got.Names, test.names) {
			t.Errorf("%.200s: %+v", test.source, got)
		}
	}
}

// In a heap with very many globals only the first ones are checked, and the number of the others is
// reported.
func TestVeryManyCarriedGlobals(t *testing.T) {
	c := inspect(t, saved(t, "for (let i = 0; i < 3e4; i++) globalThis['g' + i] = i; Object.defineProperty(globalThis, 'last', { get() { throw 1 } })"))
	if c.Changes != 0 || c.Globals.Count != 0 || c.Globals.Unseen < 10_000 || c.Globals.Unseen > 10_200 {
		t.Errorf("%+v", c)
	}
}

// Checking the global object takes far less time than a run, and than restoring a heap with many
// globals.
func TestCarriedGlobalsCost(t *testing.T) {
	for _, test := range []struct {
		source string
		most   time.Duration
	}{{"var a = 1", time.Millisecond}, {"for (let i = 0; i < 2e4; i++) globalThis['g' + i] = i", 200 * time.Millisecond}} {
		heap := saved(t, test.source)
		began := time.Now()
		i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
		if err != nil {
			t.Fatal(err)
		}
		restored := time.Since(began)
		first, took := v8.TimeOfGlobals(i), v8.TimeOfGlobals(i)
		for range 9 { // another process may take the processor during some of them
			took = min(took, v8.TimeOfGlobals(i))
		}
		began = time.Now()
		if _, err := i.Inspect(); err != nil {
			t.Error(err)
		}
		all := time.Since(began)
		i.Dispose()
		t.Logf("%s: %s for globals, %s the first time, %s for all, %s to restore", test.source, took, first, all, restored)
		if took > test.most {
			t.Errorf("%s: the look at globals takes %s", test.source, took)
		}
	}
}
