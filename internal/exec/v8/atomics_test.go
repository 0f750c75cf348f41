package v8_test

import (
	"testing"

	"daybook/internal/exec/v8"
)

// Atomics.waitAsync uses the virtual clock: a timeout comes exactly when it is due, and a
// notification wakes waiters in their order.
func TestWaitAsync(t *testing.T) {
	const begin = "const t0 = Date.now(), at = () => Date.now() - t0, a = new Int32Array(new SharedArrayBuffer(16)), b = new BigInt64Array(a.buffer);"
	for _, test := range []struct{ source, want string }{
		{"const w = Atomics.waitAsync(a, 0, 0, 50); [w.async, await w.value, at()].join()", "true,timed-out,50"},
		{"const w = Atomics.waitAsync(a, 0, 0, 50); setTimeout(() => Atomics.notify(a, 0), 10); [await w.value, at()].join()", "ok,10"},
		{"const w = Atomics.waitAsync(a, 0, 0); setTimeout(() => Atomics.notify(a, 0), 10); [await w.value, at()].join()", "ok,10"},
		{"const w = Atomics.waitAsync(a, 0, 0, Infinity); setTimeout(() => Atomics.notify(a, 0), 10); [await w.value, at()].join()", "ok,10"},
		{"JSON.stringify([Atomics.waitAsync(a, 0, 1), Atomics.waitAsync(a, 0, 0, 0), Atomics.waitAsync(a, 0, 0, -5)])", `[{"async":false,"value":"not-equal"},{"async":false,"value":"timed-out"},{"async":false,"value":"timed-out"}]`},
		{"const seen = []; for (let i = 0; i < 4; i++) Atomics.waitAsync(a, 1, 0, i === 1 ? 5 : undefined).value.then(v => seen.push(i + v)); const n = [Atomics.notify(a, 0), Atomics.notify(a, 1, 0), Atomics.notify(a, 1, 1)]; await new Promise(r => setTimeout(r, 9)); n.push(Atomics.notify(a, 1), Atomics.notify(a, 1)); await 0; [n, seen].join(' ')", "0,0,1,2,0 0ok,1timed-out,2ok,3ok"},
		{"const w = Atomics.waitAsync(b, 1, 0n, 50), v = new Int32Array(a.buffer, 8); [Atomics.notify(v, 0), await w.value].join()", "1,ok"},
		{"const log = []; try { Atomics.waitAsync(a, { valueOf() { log.push(1); return 0 } }, { valueOf() { log.push(2); return 0 } }, { valueOf() { log.push(3); return 0 } }) } catch (e) { log.push(e) }; log.join()", "1,2,3"},
		{"const bad = []; for (const f of [() => Atomics.waitAsync(a, 4, 0, 1), () => Atomics.waitAsync(a, -1, 0, 1), () => Atomics.waitAsync(new Int32Array(4), 0, 0, 1), () => Atomics.waitAsync({}, 0, 0), () => Atomics.waitAsync(a, 0, 0, Symbol()), () => Atomics.notify(a, 9), () => Atomics.notify(5, 0)]) try { f(); bad.push('none') } catch (e) { bad.push(e.name) } bad.join()", "RangeError,RangeError,TypeError,TypeError,TypeError,RangeError,TypeError"},
		{"[Atomics.notify(new Int32Array(2), 0), Atomics.waitAsync.name, Atomics.waitAsync.length, Atomics.notify.name, Atomics.notify.length].join()", "0,waitAsync,4,notify,3"},
	} {
		r, _ := print(t, v8.Config{Plain: true}, begin+test.source)
		if r.Status != v8.Completed || textOf(r) != test.want {
			t.Errorf("%s: %v %q, want %q", test.source, r.Status, textOf(r), test.want)
		}
	}
	if r, _ := print(t, v8.Config{Plain: true}, begin+"await Atomics.waitAsync(a, 0, 0).value"); r.Status != v8.NeverSettled {
		t.Errorf("a wait without end: %v %q", r.Status, textOf(r))
	}
	if r, _ := print(t, v8.Config{}, "Atomics.waitAsync(new Int32Array(2), 0, 0, 1)"); r.Status != v8.Exception {
		t.Errorf("without shared memory: %v %q", r.Status, textOf(r))
	}
}
