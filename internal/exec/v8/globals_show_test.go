package v8_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// globalsOf returns the globals of a heap.
func globalsOf(tb testing.TB, heap []byte) v8.Globals {
	tb.Helper()
	i, err := v8.New(v8.Config{Heap: heap, Start: start, HeapLimit: 64 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	defer i.Dispose()
	all, err := i.Globals(1000)
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

func TestX(t *testing.T) {
	all := globalsOf(t, saved(t, `
let a = 1; const b = 'text'; class C { static s = 1; m() {} } function f(x) { return x } var v = [1,2,3];
let map = new Map([[1,{a:{b:{c:{d:1}}}}]]), set = new Set([1]); let buf = new ArrayBuffer(8), ta = new Uint16Array(4), dv = new DataView(buf);
globalThis.p = { x: 1, y: [1] }; globalThis[Symbol('s')] = null; Object.defineProperty(globalThis, 'acc', { get() { throw 1 } });
let err = new TypeError('bad'); let inst = new C(); let arrow = () => 1; let prom = Promise.resolve(1); let date = new Date(0); let re = /a/g; let prox = new Proxy({a:1}, {});
let big = 10n; let und; let sub = new (class Sub extends Map { *entries() { throw 1 } })([[1, 2]]); class MyErr extends Error { get name() { throw 1 } } let my = new MyErr('m');
let dom = new DOMException('m', 'AbortError'); let nul = Object.create(null); let caused = new Error('out', { cause: new Error('in') }); let agg = new AggregateError([new Error('x')], 'agg');
`, "let a2 = 1; globalThis.z = 1", "let tdz = (() => { throw new Error('stop') })()"))
	for _, g := range all.List {
		size := int64(-1)
		if g.Size != nil {
			size = *g.Size
		}
		fmt.Printf("%s | %s | %s %s | %d | %v | %s\n", g.Name, g.Kind, g.Type, g.Class, size, g.Partial, strings.ReplaceAll(g.Preview, "\n", "⏎"))
	}
}
