package v8_test

import (
	"slices"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// A run evaluates the groups of the prelude, and parts of the platform, after user code of earlier
// runs. The evaluation calls none of it.
func TestGroupsRunNoUserCode(t *testing.T) {
	heap := saved(t, `
		globalThis.ran = [];
		const note = name => function () { ran.push(name); return 1 };
		for (const key of ["name", "length"]) Object.defineProperty(Function.prototype.call, key, { get: note("call." + key) });
		for (const key of ["lines", "values", "name", "object", "kind", "record", "get", "set"]) Object.defineProperty(Object.prototype, key, { get: note(key), set: note("set " + key) });
		for (const key of [0, 1, 2]) Object.defineProperty(Array.prototype, key, { set: note("element") });
		Array.prototype[Symbol.iterator] = note("iterator")`)
	for _, probe := range []string{
		"structuredClone(new Map)", "console.log(1.5, [])", "new Error().stack", "[1, 2]", "Intl.Segmenter", "mcp.none.tool().catch(() => {})",
		"new TextEncoder().encode('é')", "new TextDecoder().decode(new Uint8Array(2))", "new TextDecoder('latin1').encoding", "btoa(atob('eA=='))", "new URL('http://a/é').pathname", "new Blob(['é'])",
	} {
		o := run(t, v8.Config{Heap: heap}, "ran.length = 0; globalThis.kept = "+probe+"; ran.join()")
		if o.text != "" {
			t.Errorf("%s: %v %s", probe, o.Status, o.text)
		}
	}
}

// What a run does to objects that are made on first use is found in its heap, also if the stack was too
// full to make them before.
func TestChangesOfLazyObjectsAreFound(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"Intl.Collator.prototype.extra = 1", "Intl.Collator.prototype.extra (added)"},
		{"delete Intl.Locale", "Intl.Locale (deleted)"},
		{"Intl.Locale; delete Intl.Locale", "Intl.Locale (deleted)"},
		{"Intl.Locale = class {}", "Intl.Locale"},
		{"(Object.getOwnPropertyDescriptor(Intl, 'Locale').get ?? Intl.Locale).extra = 1", "Intl.Locale"},
		{"Object.defineProperty(Intl, 'Locale', { enumerable: true })", "Intl.Locale"},
		{"Object.freeze(Intl.NumberFormat)", "Intl.NumberFormat (not extensible)"},
		{"Object.setPrototypeOf(Intl.Locale, null)", "Intl.Locale (prototype)"},
		{"Object.getPrototypeOf(new Intl.Segmenter().segment('a')).containing = null", "Segments.prototype.containing"},
		{"Object.getPrototypeOf(new Intl.Segmenter().segment('a')[Symbol.iterator]()).next = null", "SegmentIterator.prototype.next"},
		{"TextDecoder.prototype.decode = null", "TextDecoder.prototype.decode"},
		{"TextEncoder = class {}", "TextEncoder"},
		{"atob = btoa", "atob"},
		{"delete globalThis.btoa", "btoa (deleted)"},
		{"let n = 0; const f = () => { try { f() } catch {} if (n++ < 2500) try { Intl.Locale.prototype.extra = 1 } catch {} }; f(); Intl.Locale.prototype.extra", "Intl.Locale.prototype.extra (added)"},
		{"let n = 0; const f = () => { try { f() } catch {} if (n++ < 2500) try { URL.prototype.extra = 1 } catch {} }; f(); URL.prototype.extra", "URL.prototype.extra (added)"},
	} {
		for range 2 { // the second time in a heap that has the objects
			heap := saved(t, test.source, "1")
			if c := inspect(t, heap); !slices.ContainsFunc(c.Changed, func(s string) bool { return strings.HasPrefix(s, test.want) }) {
				t.Errorf("%.60s: found %q, want %q", test.source, c.Changed, test.want)
			}
			test.source = "void [Intl.Locale, URL, TextEncoder, atob]; " + test.source
		}
	}
	for _, harmless := range []string{
		"Object.keys(Intl); Intl.Locale.name", "Intl.Locale = Intl.Locale", "const d = Object.getOwnPropertyDescriptor(Intl, 'Locale'); Intl.Locale; Object.defineProperty(Intl, 'Locale', d)",
	} {
		if c := inspect(t, saved(t, harmless, "Intl.Locale", "1")); c.Changes != 0 {
			t.Errorf("%s: found %q", harmless, c.Changed)
		}
	}
}
