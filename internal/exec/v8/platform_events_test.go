package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

// hostile replaces the built-in functions that a part of the platform could look up by mistake.
const hostile = `
(() => {
  const { ownKeys } = Reflect;
  const { getOwnPropertyDescriptor, defineProperty } = Object;
  const replaced = () => { throw new Error("replaced") };
  const replace = (object, key) => {
    const property = getOwnPropertyDescriptor(object, key);
    if (key !== "constructor" && property.configurable && typeof property.value === "function") object[key] = replaced;
  };
  const objects = [Array.prototype, Map.prototype, Set.prototype, String.prototype, Number, Math, Promise.prototype, Function.prototype, WeakMap.prototype, Object, Reflect];
  for (let i = 0; i < objects.length; i++) {
    const keys = ownKeys(objects[i]);
    for (let k = 0; k < keys.length; k++) replace(objects[i], keys[k]);
  }
  const accessor = { __proto__: null, set: replaced, configurable: true };
  defineProperty(Array.prototype, "0", accessor);
  const names = ["get", "set", "value", "enumerable", "configurable", "writable", "next", "done", "depth"];
  for (let i = 0; i < names.length; i++) defineProperty(Object.prototype, names[i], { __proto__: null, value: 1, writable: true, configurable: true });
})();
`

// checkScripts runs each script in a fresh saved isolate, in a plain one, and with the rest of
// the prelude replaced by user code.
func checkScripts(t *testing.T, tests []struct{ source, want string }) {
	t.Helper()
	for _, test := range tests {
		for _, plain := range []bool{false, true} {
			if r := run(t, v8.Config{Plain: plain, SkipWaits: true}, test.source); r.text != test.want {
				t.Errorf("plain %v: %s:\n%s", plain, test.source, r.text)
			}
		}
		if r := run(t, v8.Config{SkipWaits: true}, hostile+test.source); r.text != test.want {
			t.Errorf("with replaced functions: %s:\n%s", test.source, r.text)
		}
	}
}

func TestEventsOfPlatform(t *testing.T) {
	checkScripts(t, []struct{ source, want string }{
		{"const t = new EventTarget(); let n = 0; t.addEventListener('x', { handleEvent(e) { n += e.detail } }, { once: true }); t.dispatchEvent(new CustomEvent('x', { detail: 4 })); t.dispatchEvent(new CustomEvent('x', { detail: 4 })); n", "4"},
		{"const c = new AbortController(); let n = 0; c.signal.onabort = () => n++; const d = AbortSignal.any({ [Symbol.iterator]() { let i = 0; return { next: () => ({ done: i > 0, value: i++ ? undefined : c.signal }) } } }); d.addEventListener('abort', () => n++); c.abort(); n + d.reason.name", "2AbortError"},
		{"const s = AbortSignal.timeout(5); await new Promise((r) => setTimeout(r, 10)); s.reason.name", "TimeoutError"},
		{"const t = new EventTarget(), c = new AbortController(); let n = 0; t.addEventListener('x', () => n++, { signal: c.signal }); c.abort(); t.dispatchEvent(new Event('x')); n", "0"},
	})
}

// A timeout keeps no run alive, as in Node.
func TestTimeoutSignalKeepsNoRunAlive(t *testing.T) {
	r := run(t, v8.Config{}, "AbortSignal.timeout(3600_000).onabort = () => console.log('late'); 1")
	if r.Status != v8.Completed || r.text != "1" || len(r.out) != 0 {
		t.Errorf("status %v: %s %q", r.Status, r.text, r.out)
	}
}

// The error of a listener ends the run. Other listeners of the event run before that.
func TestListenerThatThrows(t *testing.T) {
	r := run(t, v8.Config{}, "const t = new EventTarget(); t.addEventListener('x', () => { throw new RangeError('of a listener') }); t.addEventListener('x', () => console.log('second')); t.dispatchEvent(new Event('x')); console.log('after')")
	if r.Status != v8.Exception || firstLine(r.text) != "RangeError: of a listener" {
		t.Errorf("status %v: %s", r.Status, r.text)
	}
	if got := strings.Join(r.out, "|"); got != "0@0 second|0@0 after" {
		t.Errorf("output %q", got)
	}
}

func TestEventsSurvive(t *testing.T) {
	first := run(t, v8.Config{}, "const t = new EventTarget(), c = new AbortController(), d = AbortSignal.any([c.signal]); let seen = []; t.addEventListener('x', (e) => seen.push(e.type), { signal: d }); d.onabort = () => seen.push('abort'); class Mine extends Event {}; 1")
	again := run(t, v8.Config{Heap: first.heap}, "t.dispatchEvent(new Mine('x')); c.abort('r'); t.dispatchEvent(new Event('x')); seen.join() + d.reason")
	if again.text != "x,abortr" {
		t.Errorf("after a restore: %s", again.text)
	}
	if c := inspect(t, again.heap); c.Changes != 0 {
		t.Errorf("changes: %+v", c)
	}
}

// A signal that lives long does not keep those that were aborted by another one.
func TestAbortedSignalsAreForgotten(t *testing.T) {
	grow := func(count string) int {
		return len(run(t, v8.Config{}, "const long = new AbortController(); for (let i = 0; i < "+count+"; i++) { const short = new AbortController(); AbortSignal.any([long.signal, short.signal]).onabort = () => {}; short.abort(1); } 1").heap)
	}
	if few, many := grow("10"), grow("5000"); many > few+(200<<10) {
		t.Errorf("the heap grew from %d to %d bytes", few, many)
	}
}

// The console shows objects of the platform as Node does.
func TestPlatformOnTheConsole(t *testing.T) {
	for source, want := range map[string]string{
		"new Event('x')":                          "Event { type: 'x', defaultPrevented: false, cancelable: false, timeStamp: 0 }",
		"new CustomEvent('x', { detail: 1 })":     "CustomEvent { type: 'x', defaultPrevented: false, cancelable: false, timeStamp: 0 }",
		"({ a: { b: { c: new Event('q') } } })":   "{ a: { b: { c: Event } } }",
		"new EventTarget()":                       "EventTarget {}",
		"new AbortController()":                   "AbortController { signal: AbortSignal { aborted: false } }",
		"[AbortSignal.abort()]":                   "[ AbortSignal { aborted: true } ]",
		"new (class Mine extends EventTarget {})": "Mine {}",
	} {
		r := run(t, v8.Config{}, "console.log("+source+")")
		if got := strings.TrimPrefix(strings.Join(r.out, "\n"), "0@0 "); got != want {
			t.Errorf("%s:\n%s", source, got)
		}
	}
}
