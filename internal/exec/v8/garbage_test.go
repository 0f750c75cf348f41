package v8_test

import (
	"bytes"
	"testing"

	"daybook/internal/exec/v8"
)

// Most runs are saved without a collection of garbage before. Their garbage, of each kind that
// needs care, is not saved, and the heap can be restored and saved again.
func TestGarbageIsNotSaved(t *testing.T) {
	const kept = "globalThis.kept = [1, 2, 3];"
	for name, garbage := range map[string]string{
		"objects":               "for (let i = 0; i < 1e5; i++) ({ i, s: 'x' + i });",
		"functions":             "for (let i = 0; i < 1e4; i++) eval('(function () { return ' + i + ' })')();",
		"buffers":               "for (let i = 0; i < 100; i++) new Uint8Array(1e5).fill(i);",
		"cycles":                "for (let i = 0; i < 1e4; i++) { const a = {}, b = { a }; a.b = b; }",
		"weak references":       "for (let i = 0; i < 1e3; i++) new WeakRef({ i });",
		"weak maps":             "for (let i = 0; i < 1e3; i++) { const m = new WeakMap(), k = {}; m.set(k, { m, k }); }",
		"promises":              "for (let i = 0; i < 1e3; i++) new Promise(() => {}).then(() => i); await null;",
		"generators":            "for (let i = 0; i < 1e3; i++) { const g = (function* () { yield i })(); g.next(); }",
		"errors":                "for (let i = 0; i < 1e3; i++) new Error('e' + i);",
		"regular expressions":   "for (let i = 0; i < 100; i++) new RegExp('a' + i).test('a5');",
		"Intl":                  "for (let i = 0; i < 20; i++) new Intl.NumberFormat('de').format(i); (1.5).toLocaleString('de');",
		"finalizers":            "const r = new FinalizationRegistry(() => {}); for (let i = 0; i < 100; i++) r.register({ i }, i);",
		"an unused registry":    "new FinalizationRegistry(() => {});",
		"cancelled timers":      "for (let i = 0; i < 100; i++) clearTimeout(setTimeout(() => i, 1e6));",
		"lines":                 "for (let i = 0; i < 100; i++) console.log({ i, deep: [[[i]]] });",
		"structured clones":     "for (let i = 0; i < 100; i++) structuredClone({ i, m: new Map([[i, i]]) });",
		"iterators and proxies": "for (let i = 0; i < 1e3; i++) { new Proxy({}, {}); [i].values().next(); }",
	} {
		source := "{ " + garbage + " } " + kept + " 0"
		first := run(t, v8.Config{}, source)
		again := run(t, v8.Config{}, source)
		if first.Status != v8.Completed || !bytes.Equal(first.heap, again.heap) {
			t.Errorf("%s: %v %s; equal heaps: %t", name, first.Status, first.text, bytes.Equal(first.heap, again.heap))
		}
		second := run(t, v8.Config{Heap: first.heap}, "kept.push(4); kept.join()")
		if second.text != "1,2,3,4" {
			t.Errorf("%s: the next run ended with %v %s", name, second.Status, second.text)
		}
		const most = 40_000 // bytes: parts of the platform that the run used, and its top-level names
		if grown := len(second.heap) - len(run(t, v8.Config{}, kept).heap); grown > most {
			t.Errorf("%s: the heap is %d bytes larger than without the garbage", name, grown)
		}
	}
}
