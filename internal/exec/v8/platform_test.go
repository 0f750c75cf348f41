package v8_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// A part of the platform is evaluated when a script first uses one of its globals. The global is
// then as if it had always been there, also in the runs that follow, and no run reports it as a
// change of an earlier run.
func TestPlatformIsLoadedOnFirstUse(t *testing.T) {
	base := run(t, v8.Config{}, "1")
	for _, test := range []struct{ source, want string }{
		{"typeof navigator.userAgent", "string"},
		{"'navigator' in globalThis", "true"},
		{"Object.keys(globalThis).includes('navigator')", "false"},
		{"navigator; const d = Object.getOwnPropertyDescriptor(globalThis, 'navigator'); [d.value === navigator, d.writable, d.enumerable, d.configurable].join()", "true,true,false,true"},
		{"const first = navigator; first === navigator && navigator instanceof Navigator", "true"},
		{"navigator = 5; navigator", "5"},
		{"var navigator = 6; navigator", "6"},
		{"let navigator = 7; navigator", "7"},
		{"class Navigator {}; new Navigator().constructor.name", "Navigator"},
		{"function navigator() {}; typeof navigator", "function"},
		{"delete globalThis.navigator; typeof navigator", "undefined"},
		{"Object.freeze(globalThis); navigator.userAgent", "Daybook"},
		{"Object.create(globalThis).navigator === navigator", "true"},
		{"Object.defineProperty = Reflect.apply = () => { throw 1 }; Object.prototype.get = 5; navigator.userAgent", "Daybook"},
		{"new Navigator()", "TypeError: Illegal constructor"},
	} {
		for _, heap := range [][]byte{nil, base.heap} {
			r := run(t, v8.Config{Heap: heap}, test.source)
			if got := firstLine(r.text); got != test.want {
				t.Errorf("%s: %s", test.source, got)
			}
		}
		if r := run(t, v8.Config{Plain: true}, test.source); firstLine(r.text) != test.want {
			t.Errorf("plain: %s: %s", test.source, firstLine(r.text))
		}
	}
}

func TestLoadedPlatformSurvives(t *testing.T) {
	loaded := run(t, v8.Config{}, "const kept = navigator; 1")
	again := run(t, v8.Config{Heap: loaded.heap}, "kept === navigator && Object.getPrototypeOf(kept) === Navigator.prototype")
	if got := again.text; got != "true" {
		t.Errorf("in the next run: %s", got)
	}
	if c := inspect(t, loaded.heap); c.Changes != 0 || c.Globals.Count != 0 {
		t.Errorf("a loaded part counts as a change: %+v", c)
	}
	for source, want := range map[string]string{
		"navigator = 1":                                                           "[navigator]",
		"Navigator.prototype.userAgent2 = 1":                                      "[Navigator.prototype.userAgent2 (added)]",
		"navigator; Navigator.prototype.x = 1":                                    "[Navigator.prototype.x (added)]",
		"Object.defineProperty(globalThis, 'navigator', { get() {} })":            "[navigator]",
		"navigator; Object.defineProperty(globalThis, 'navigator', { get() {} })": "[navigator]",
		"delete globalThis.Navigator":                                             "[Navigator (deleted)]",
	} {
		changed := run(t, v8.Config{}, source)
		c := inspect(t, changed.heap)
		if got := fmt.Sprint(c.Changed); got != want {
			t.Errorf("%s: %s", source, got)
		}
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// A heap that has every part of the platform can be saved and used.
func TestWholePlatformIsSaved(t *testing.T) {
	for _, source := range []string{
		"for (const n of Object.getOwnPropertyNames(globalThis)) globalThis[n]; 1",
		"for (const n of Object.getOwnPropertyNames(globalThis).reverse()) globalThis[n]; 1",
		"self; Request; 1",
	} {
		all := run(t, v8.Config{}, source)
		if r := run(t, v8.Config{Heap: all.heap}, "self === globalThis && new Request('http://a/').url"); r.text != "http://a/" {
			t.Errorf("%s: %s", source, r.text)
		}
	}
}
