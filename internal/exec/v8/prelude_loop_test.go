package v8_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// logged returns the texts of messages.
func logged(list []message) []string {
	texts := make([]string, len(list))
	for n, m := range list {
		texts[n] = m.Text
	}
	return texts
}

// Timers, immediates and microtasks run in Node's order, on the virtual clock.
func TestTimers(t *testing.T) {
	const begin = "const t0 = Date.now(), at = () => Date.now() - t0, log = console.log;"
	for _, test := range []struct {
		name, source string
		want         []string
	}{
		{"equal delays keep their order", "for (let i = 0; i < 20; i++) setTimeout(log, 2, i)", strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19")},
		{"delays order", "for (const d of [5, 3, 4, 1, 2]) setTimeout(() => log(d, at()), d)", []string{"1 1", "2 2", "3 3", "4 4", "5 5"}},
		{"the least delay is one", "for (const d of [0, -5, NaN, undefined, 'x', 1, 0.5, null, {}]) setTimeout(() => log(at()), d)", slices.Repeat([]string{"1"}, 9)},
		{"delays are whole and converted", "setTimeout(() => log(at()), 2.9); setTimeout(() => log(at()), '3'); setTimeout(() => log(at()), { valueOf() { return 4 } })", []string{"2", "3", "4"}},
		{"a delay too long is one, with a warning", "setTimeout(() => log(at()), 2147483648); setTimeout(() => log(at()), Infinity)", []string{
			"[WARN] TimeoutOverflowWarning: 2147483648 does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.",
			"[WARN] TimeoutOverflowWarning: Infinity does not fit into a 32-bit signed integer.\nTimeout duration was set to 1.", "1", "1"}},
		{"arguments and receiver", "setTimeout(function (...a) { log(a, this === handle) }, 1, 'a', 2); const handle = setTimeout(function () { log(this === handle) }, 1); setInterval(function (a) { log(a); this.close() }, 1, 'i'); setImmediate((a, b) => log(a, b), 1, 2)", []string{"1 2", "[ 'a', 2 ] false", "true", "i"}},
		{"nested zero delays add up", "let n = 0; (function again() { log(at()); if (++n < 4) setTimeout(again, 0) })()", []string{"0", "1", "2", "3"}},
		{"immediates before timers, microtasks between", "setTimeout(() => log('timeout'), 0); setImmediate(() => { log('immediate'); queueMicrotask(() => log('micro of immediate')); setImmediate(() => log('next immediate')) }); setImmediate(() => log('second')); queueMicrotask(() => log('micro')); Promise.resolve().then(() => log('then')); log('sync')",
			[]string{"sync", "micro", "then", "immediate", "micro of immediate", "second", "next immediate", "timeout"}},
		{"immediates do not starve timers", "let n = 0, stop = false; setTimeout(() => { stop = true; log('timer', n > 1) }, 1); (function spin() { n++; if (!stop && n < 1e5) setImmediate(spin) })()", []string{"timer true"}},
		{"microtasks run in order and may queue more", "queueMicrotask(() => { log(1); queueMicrotask(() => log(3)) }); queueMicrotask(() => log(2)); setTimeout(() => log(4), 0)", []string{"1", "2", "3", "4"}},
		{"clear by handle", "const h = setTimeout(log, 1, 'no'); clearTimeout(h); clearTimeout(h); setTimeout(log, 2, 'yes')", []string{"yes"}},
		{"clear by number and text", "const a = setTimeout(log, 1, 'no'), b = setTimeout(log, 1, 'no'), c = setInterval(log, 1, 'no'); clearTimeout(+a); clearTimeout(`${b}`); clearInterval(Number(c)); log(typeof +a, +a !== +b)", []string{"number true"}},
		{"clear one kind by the other", "clearTimeout(setInterval(log, 1, 'no')); clearInterval(setTimeout(log, 1, 'no')); clearImmediate(setImmediate(log, 'no')); log('end')", []string{"end"}},
		{"clear nothing", "for (const v of [undefined, null, 0, -1, 99, '', '07', 'x', {}, [], Symbol(), 5n, () => {}]) { clearTimeout(v); clearInterval(v); clearImmediate(v) } log('end')", []string{"end"}},
		{"a text that is no id clears nothing", "const a = setTimeout(log, 1, 'ran'); const n = +a; clearTimeout(' ' + n); clearTimeout('0' + n); clearTimeout(n + '.0')", []string{"ran"}},
		{"cleared while firing", "const b = setTimeout(() => { clearTimeout(c); log('b') }, 1), c = setTimeout(log, 1, 'no')", []string{"b"}},
		{"interval keeps its pace", "let n = 0; const h = setInterval(() => { log(at()); if (++n === 4) clearInterval(h) }, 3)", []string{"3", "6", "9", "12"}},
		{"interval cleared by its callback, which sets a timeout", "let n = 0; const h = setInterval(() => { log(++n); if (n === 2) { clearInterval(h); setTimeout(log, 1, 'done') } }, 1)", []string{"1", "2", "done"}},
		{"unref lets the run end", "const h = setTimeout(log, 5, 'no'); log(h.hasRef()); log(h.unref() === h, h.hasRef()); setTimeout(log, 2, 'yes')", []string{"true", "true false", "yes"}},
		{"unref fires while others wait", "setTimeout(log, 1, 'unref').unref(); setTimeout(log, 3, 'ref'); setImmediate(log, 'unref immediate').unref()", []string{"unref immediate", "unref", "ref"}},
		{"ref again", "const h = setTimeout(log, 2, 'ran').unref().unref(); h.ref().ref(); log(h.hasRef())", []string{"true", "ran"}},
		{"refresh restarts the delay", "const h = setTimeout(() => log(at()), 4); setTimeout(() => h.refresh(), 2)", []string{"6"}},
		{"refresh after firing fires again", "let n = 0; const h = setTimeout(() => { log(at()); if (++n < 3) h.refresh() }, 2)", []string{"2", "4", "6"}},
		{"refresh after clearing does nothing", "const h = setTimeout(log, 1, 'no'); clearTimeout(h); h.refresh(); log('end')", []string{"end"}},
		{"close and dispose", "setTimeout(log, 1, 'no').close(); const h = setInterval(log, 1, 'no'); (h[Symbol.dispose] ?? h.close).call(h); log('end')", []string{"end"}},
		{"callbacks are required", "for (const f of [setTimeout, setInterval, setImmediate, queueMicrotask]) try { f('code') } catch (e) { log(f.name, e.name, e.code, e.message) }", []string{
			"setTimeout TypeError ERR_INVALID_ARG_TYPE The \"callback\" argument must be of type function. Received type string ('code')",
			"setInterval TypeError ERR_INVALID_ARG_TYPE The \"callback\" argument must be of type function. Received type string ('code')",
			"setImmediate TypeError ERR_INVALID_ARG_TYPE The \"callback\" argument must be of type function. Received type string ('code')",
			"queueMicrotask TypeError ERR_INVALID_ARG_TYPE The \"callback\" argument must be of type function. Received type string ('code')"}},
		{"handles print as objects of their class", "const h = setTimeout(() => {}, 1), i = setImmediate(() => {}); log(h.constructor.name, i.constructor.name, Object.keys(h).length)", []string{"Timeout Immediate 0"}},
		{"thousands", "let sum = 0, last = -1, ordered = true; for (let i = 0; i < 5000; i++) { const d = (i * 7919) % 97 / 20; const h = setTimeout(() => { ordered &&= at() >= last; last = at(); sum++ }, d); if (i % 3 === 0) clearTimeout(h) } setTimeout(() => log(sum, ordered), 8)", []string{"3333 true"}},
		{"timers made by timers", "setTimeout(() => { log('a', at()); setTimeout(() => log('c', at()), 1); setImmediate(() => log('b', at())) }, 2)", []string{"a 2", "b 2", "c 3"}},
	} {
		for _, mode := range modes {
			r, got := print(t, mode.cfg, begin+test.source+"; undefined")
			if r.Status != v8.Completed || !slices.Equal(logged(got), test.want) {
				t.Errorf("%s (%s): %v %s\n got %q\nwant %q", test.name, mode.name, r.Status, textOf(r), logged(got), test.want)
			}
		}
	}
}

// With SkipWaits timers fire without a wait, in the same order and at the same times of the
// script's clock, and the run leaves the same heap.
func TestSkipWaits(t *testing.T) {
	const source = `
		const t0 = Date.now(), seen = [];
		const at = (name) => seen.push([name, Date.now() - t0, Math.random()]);
		setTimeout(at, DAY, "day");
		const h = setInterval(() => { at("interval"); if (seen.length > 6) clearInterval(h); }, DAY / 8);
		setImmediate(at, "immediate");
		for await (const d of [3, 1, 2].map(n => new Promise(done => setTimeout(done, n * DAY / 10, n)))) at(d);
		setTimeout(at, 5 * DAY, "left").unref();
		await new Promise(done => setTimeout(done, DAY));
		JSON.stringify(seen)`
	ofDay := func(ms string) string { return strings.ReplaceAll(source, "DAY", ms) }
	waited, skipped := run(t, v8.Config{}, ofDay("80")), run(t, v8.Config{SkipWaits: true}, ofDay("80"))
	if waited.Status != v8.Completed || waited.text != skipped.text || !bytes.Equal(waited.heap, skipped.heap) {
		t.Errorf("with waits: %v %s\nwithout: %v %s\nequal heaps: %t", waited.Status, waited.text, skipped.Status, skipped.text, bytes.Equal(waited.heap, skipped.heap))
	}
	for _, mode := range modes {
		mode.cfg.SkipWaits = true
		if r, _ := print(t, mode.cfg, ofDay("86400000")); r.Status != v8.Completed || !strings.Contains(textOf(r), `["day",86400000,`) {
			t.Errorf("%s: %v %s", mode.name, r.Status, textOf(r))
		}
	}
}

// WebAssembly is compiled in the background before any timer fires, however long it takes.
func TestCompilationEndsBeforeTimers(t *testing.T) {
	// A module with many functions, so that its compilation outlasts the start of the loop.
	const source = `
		const leb = (n) => { const b = []; do { b.push(n & 0x7f | (n > 0x7f ? 0x80 : 0)); n >>>= 7; } while (n > 0); return b; };
		const section = (id, body) => [id, ...leb(body.length), ...body];
		const count = 3000, code = [0, ...Array(40).fill([0x41, 7, 0x1a]).flat(), 0x0b];
		const module = new Uint8Array([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
			...section(1, [1, 0x60, 0, 0]),
			...section(3, [...leb(count), ...Array(count).fill(0)]),
			...section(10, [...leb(count), ...Array(count).fill([...leb(code.length), ...code]).flat()])]);
		const seen = [];
		setTimeout(() => seen.push("timer"), 1);
		WebAssembly.compile(module).then(() => seen.push("compiled"));
		await new Promise(done => setTimeout(done, 2));
		seen.join()`
	for _, cfg := range []v8.Config{{Plain: true}, {Plain: true, SkipWaits: true}} {
		if r, _ := print(t, cfg, source); r.Status != v8.Completed || textOf(r) != "compiled,timer" {
			t.Errorf("skip %t: %v %s", cfg.SkipWaits, r.Status, textOf(r))
		}
	}
}

// An error that a callback throws ends the run and cancels all timers. Microtasks that are already
// queued run.
func TestCallbackErrors(t *testing.T) {
	for _, test := range []struct{ name, source, text, then string }{
		{"timeout", "setTimeout(() => { throw new Error('in timeout') }, 1); setTimeout(() => n++, 2); let n = 0", "Error: in timeout", "0"},
		{"immediate", "setImmediate(() => { throw new Error('in immediate') }); setTimeout(() => n++, 2); let n = 0", "Error: in immediate", "0"},
		{"interval", "let n = 0; const h = setInterval(() => { if (++n === 1) throw new Error('in interval') }, 1)", "Error: in interval", "1"},
		{"microtask", "let n = 0; queueMicrotask(() => { throw new Error('in microtask') }); queueMicrotask(() => n++)", "Error: in microtask", "1"},
		{"not an error", "let n = 0; queueMicrotask(() => { throw { code: 1 } })", "Uncaught { code: 1 }", "0"},
	} {
		first := run(t, v8.Config{}, test.source)
		if first.Status != v8.Exception || !strings.HasPrefix(first.text, test.text) {
			t.Errorf("%s: %v %q, want %q", test.name, first.Status, first.text, test.text)
			continue
		}
		then := run(t, v8.Config{Heap: first.heap, Start: start.Add(time.Hour)}, "new Promise(done => setTimeout(() => done(n), 9))")
		if then.text != test.then {
			t.Errorf("%s, later: %v %q, want %q", test.name, then.Status, then.text, test.then)
		}
	}
}

// Unref'd timers are kept in the heap with the rest of their delay.
func TestUnrefPersists(t *testing.T) {
	first := run(t, v8.Config{}, "const t0 = Date.now(); const h = setTimeout(() => console.log('fired', Date.now() - start), 10).unref(); let start; await new Promise(r => setTimeout(r, 4))")
	if first.Status != v8.Completed {
		t.Fatal(first.Status, first.text)
	}
	then := run(t, v8.Config{Heap: first.heap, Start: start.Add(time.Hour)}, "start = Date.now(); h.ref(); undefined")
	if want := "fired 6"; len(then.out) != 1 || !strings.HasSuffix(then.out[0], want) {
		t.Errorf("got %q, want %s", then.out, want)
	}
}

// Only the start time and the seed determine the clock and randomness.
func TestClockAndRandomness(t *testing.T) {
	const source = `
		const d = new Date(), all = [Date.now(), +d, d.toISOString(), Date() === d.toString(), performance.now(), performance.timeOrigin, performance.toJSON(),
			new Date(5).getTime(), new Date(2020, 0).getTime() === Date.UTC(2020, 0), Date.parse('2020-01-01'), new Date('2020-01-01T00:00:00Z').getTime(), d instanceof Date, d.constructor === Date,
			Date.name, Date.length, Date.UTC.length, Object.getOwnPropertyNames(Date).sort().join(), new (class extends Date {})() instanceof Date, Reflect.construct(Date, [], Object) instanceof Date];
		await new Promise(r => setTimeout(r, 3));
		all.push(Date.now() - d, performance.now(), new Date() - d);
		all.push(Math.random(), Math.random(), crypto.randomUUID(), Array.from(crypto.getRandomValues(new Uint16Array(4))), Array.from({ length: 3 }, Math.random));
		all.push(Object.keys(globalThis).length, Object.prototype.toString.call(crypto), Object.prototype.toString.call(performance));
		all`
	wantStart := `[1700000000000,1700000000000,"2023-11-14T22:13:20.000Z",true,0,1700000000000,{"timeOrigin":1700000000000},5,true,1577836800000,1577836800000,true,true,"Date",7,7,"UTC,length,name,now,parse,prototype",true,false,3,3,3,0.`
	var texts []string
	for _, mode := range modes {
		for _, seed := range []byte{1, 1, 2} {
			mode.cfg.Seed = [16]byte{seed}
			r, _ := print(t, mode.cfg, source)
			if r.Status != v8.Completed || !strings.HasPrefix(textOf(r), wantStart) || !strings.HasSuffix(textOf(r), `0,"[object Crypto]","[object Performance]"]`) {
				t.Errorf("%s: %v %s\nwant %s", mode.name, r.Status, textOf(r), wantStart)
			}
			texts = append(texts, textOf(r))
		}
	}
	if texts[0] != texts[1] || texts[0] == texts[2] || texts[0] != texts[3] || texts[3] != texts[4] || texts[2] != texts[5] {
		t.Errorf("by seed 1, 1, 2, and the same in a plain isolate:\n%s", strings.Join(texts, "\n"))
	}
	for _, test := range []struct{ source, want string }{
		{"crypto.getRandomValues(new Float32Array(1))", "TypeMismatchError 17"},
		{"crypto.getRandomValues({})", "TypeMismatchError 17"},
		{"crypto.getRandomValues(new Uint8Array(65537))", "QuotaExceededError 22"},
		{"new Crypto()", "TypeError undefined"},
		{"new Performance()", "TypeError undefined"},
	} {
		r, _ := print(t, v8.Config{}, "try { "+test.source+"; 'no error' } catch (e) { e.name + ' ' + e.code }")
		if textOf(r) != test.want {
			t.Errorf("%s: %s, want %s", test.source, textOf(r), test.want)
		}
	}
	r, _ := print(t, v8.Config{}, `[crypto.getRandomValues(new Uint8Array(0)).length, crypto.getRandomValues(new BigInt64Array(2)).length, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())]`)
	if textOf(r) != "[0,2,true]" {
		t.Error(textOf(r))
	}
}

// The timers of console.time use the virtual clock, also across runs.
func TestConsoleTime(t *testing.T) {
	for _, test := range []struct {
		after time.Duration
		want  string
	}{
		{0, "t: 0ms"}, {1500 * time.Microsecond, "t: 1.5ms"}, {999 * time.Millisecond, "t: 999ms"}, {1234 * time.Millisecond, "t: 1.234s"},
		{time.Minute, "t: 1:00.000 (m:ss.mmm)"}, {61*time.Second + 5*time.Millisecond, "t: 1:01.005 (m:ss.mmm)"}, {2*time.Hour + 3*time.Minute + 4*time.Second, "t: 2:03:04.000 (h:mm:ss.mmm)"},
	} {
		first := run(t, v8.Config{}, "console.time('t')")
		then := run(t, v8.Config{Heap: first.heap, Start: start.Add(test.after)}, "console.timeEnd('t')")
		if len(then.out) != 1 || !strings.HasSuffix(then.out[0], " "+test.want) {
			t.Errorf("after %v: %q, want %q", test.after, then.out, test.want)
		}
	}
}

// Every Intl class works, and its instances can be saved in a heap.
func TestIntl(t *testing.T) {
	for _, test := range []struct{ make, use, want string }{
		{"new Intl.NumberFormat('de', { style: 'currency', currency: 'EUR' })", "it.format(1234.5) + it.formatToParts(1).length + it.resolvedOptions().currency", "1.234,50\u00a0\u20ac5EUR"},
		{"Intl.NumberFormat('en-US')", "[1e6, 2].map(it.format).join('|')", "1,000,000|2"},
		{"new Intl.NumberFormat('en', { get maximumFractionDigits() { return 1 } })", "it.format(1.25) + it.formatRange(1, 2)", "1.31\u20132"},
		{"new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', dateStyle: 'medium' })", "it.format(0) + '|' + it.format(new Date(864e5)) + '|' + it.formatRange(0, 864e5) + '|' + it.format()", "Jan 1, 1970|Jan 2, 1970|Jan 1\u2009\u2013\u20092, 1970|Nov 14, 2023"},
		{"new Intl.DateTimeFormat('de', { timeZone: 'Europe/Berlin', dateStyle: 'short', timeStyle: 'short' })", "it.format(0) + it.formatToParts(0).length + it.resolvedOptions().timeZone", "01.01.70, 01:009Europe/Berlin"},
		{"new Intl.Collator('de')", "['z', '\u00e4', 'a'].sort(it.compare).join('') + it.compare('a', 'b') + it.resolvedOptions().usage", "a\u00e4z-1sort"},
		{"new Intl.PluralRules('en', { type: 'ordinal' })", "[1, 2, 3, 4].map(n => it.select(n)).join()", "one,two,few,other"},
		{"new Intl.ListFormat('en')", "it.format(['a', 'b', 'c'])", "a, b, and c"},
		{"new Intl.RelativeTimeFormat('en', { numeric: 'auto' })", "it.format(-1, 'day') + it.format(2, 'hours')", "yesterdayin 2 hours"},
		{"new Intl.DurationFormat('en')", "it.format({ hours: 1, minutes: 2 })", "1 hr, 2 min"},
		{"new Intl.DisplayNames('en', { type: 'region' })", "it.of('DE')", "Germany"},
		{"new Intl.Segmenter('en', { granularity: 'word' })", "[...it.segment('Hi you')].map(s => s.segment).join('|') + it.segment('ab cd').containing(3).segment", "Hi| |youcd"},
		{"new Intl.Segmenter('en').segment('ae\u0301')[Symbol.iterator]()", "it.next().value.segment.length + it.next().value.segment.length + ',' + it.next().done", "3,true"},
		{"new Intl.Locale('de-Latn-DE', { calendar: 'buddhist' })", "it.language + it.toString() + it.maximize().minimize().baseName + new Intl.NumberFormat(it).format(1.5) + (1.5).toLocaleString(it)", "dede-Latn-DE-u-ca-buddhistde1,51,5"},
		{"{ f: new Intl.NumberFormat('fr').format }", "it.f(1.5)", "1,5"},
	} {
		ask := fmt.Sprintf("const it = %s; const first = %s; first", test.make, test.use)
		for _, mode := range modes {
			// The first use exhausts an iterator.
			o := run(t, mode.cfg, ask)
			if o.Status != v8.Completed || o.text != test.want {
				t.Errorf("%s (%s): %v %q, want %q", test.make, mode.name, o.Status, o.text, test.want)
			}
		}
		made := run(t, v8.Config{}, fmt.Sprintf("const it = %s; 0", test.make))
		if then := run(t, v8.Config{Heap: made.heap}, test.use); then.text != test.want {
			t.Errorf("%s, restored: %v %q, want %q", test.make, then.Status, then.text, test.want)
		}
	}
	for _, test := range []struct{ source, want string }{
		{"(1234567.891).toLocaleString('de') + (12n).toLocaleString('en')", "1.234.567,89112"},
		{"new Date(0).toLocaleDateString('en-US', { timeZone: 'UTC' }) + new Date(0).toLocaleTimeString('de', { timeZone: 'UTC' }) + new Date(0).toLocaleString('en-GB', { timeZone: 'UTC' })", "1/1/197000:00:0001/01/1970, 00:00:00"},
		{"'\u00e4'.localeCompare('b', 'de') + ',' + 'I'.toLocaleLowerCase('tr') + [1.5, 2].toLocaleString('de')", "-1,\u01311,5,2"},
		{"Object.getOwnPropertyNames(Intl).filter(n => /^[A-Z]/.test(n)).every(n => Intl[n].name === n && typeof Intl[n].prototype === 'object' && Intl[n].prototype.constructor === Intl[n])", "true"},
		{"[Intl.NumberFormat, Intl.DateTimeFormat, Intl.Collator].every(C => C() instanceof C && C.supportedLocalesOf(['de', 'xx']).join() === 'de')", "true"},
		{"['Locale', 'PluralRules', 'ListFormat', 'Segmenter', 'DisplayNames', 'RelativeTimeFormat', 'DurationFormat'].every(n => { try { Intl[n]('en', { type: 'region' }); return false } catch (e) { return e instanceof TypeError } })", "true"},
		{"const f = new (class Mine extends Intl.NumberFormat { twice(n) { return this.format(2 * n) } })('de'); f.twice(1.25) + (f instanceof Intl.NumberFormat)", "2,5true"},
		{"try { new Intl.NumberFormat('not a locale') } catch (e) { e.name }", "RangeError"},
		{"try { Intl.NumberFormat.prototype.formatToParts.call({}, 1) } catch (e) { e.name }", "TypeError"},
		{"Intl.getCanonicalLocales('EN-us').join() + Intl.supportedValuesOf('currency').includes('EUR')", "en-UStrue"},
		{"Object.prototype.toString.call(new Intl.NumberFormat) + Object.prototype.toString.call(new Intl.Locale('de'))", "[object Intl.NumberFormat][object Intl.Locale]"},
		{"const n = new Intl.NumberFormat('en'); n.format === n.format", "true"},
		{"new Intl.DateTimeFormat().resolvedOptions().timeZone", "UTC"},
	} {
		for _, mode := range modes {
			if o := run(t, mode.cfg, test.source); o.Status != v8.Completed || o.text != test.want {
				t.Errorf("%s (%s): %v %q, want %q", test.source, mode.name, o.Status, o.text, test.want)
			}
		}
	}
}

// firedTimers keeps the timers that fire.
type firedTimers struct {
	list []v8.Timer
	err  error
}

func (f *firedTimers) TimerFires(t v8.Timer) error {
	f.list = append(f.list, t)
	return f.err
}

// Each timer that fires is reported with its kind, delay and the name of its callback. No code
// runs for that, and the run leaves the heap that it leaves without reports.
func TestTimersAreReported(t *testing.T) {
	const source = `
		let reads = 0;
		const trap = () => { reads++; return "trapped" };
		const named = function named() {}, hidden = () => {};
		Object.defineProperty(hidden, "name", { get: trap });
		setTimeout(named, 5);
		const h = setInterval(function tick() { clearInterval(h) }, 7);
		setImmediate(() => {});
		setTimeout(hidden, 8);
		setTimeout(new Proxy(named, { get: trap, apply() {} }), 9);
		setTimeout(Object.defineProperty(() => {}, "name", { value: "é".repeat(100) }), 10);
		await new Promise(done => setTimeout(done, 20));
		reads`
	for _, mode := range modes {
		var fired firedTimers
		plain, reporting := mode.cfg, mode.cfg
		reporting.Timers, reporting.SkipWaits = &fired, true
		want, got := run(t, plain, source), run(t, reporting, source)
		if got.text != "0" || got.Status != v8.Completed || want.text != got.text || !bytes.Equal(want.heap, got.heap) {
			t.Errorf("%s: %v %s, equal heaps: %t", mode.name, got.Status, got.text, bytes.Equal(want.heap, got.heap))
		}
		var lines []string
		for _, f := range fired.list {
			lines = append(lines, fmt.Sprintf("%d %d %d %s", f.At.Sub(start).Milliseconds(), f.Kind, f.Delay.Milliseconds(), f.Name))
		}
		wanted := []string{"0 2 0 ", "5 0 5 named", "7 1 7 tick", "8 0 8 hidden", "9 0 9 ", "10 0 10 " + strings.Repeat("é", 64), "20 0 20 "}
		if !slices.Equal(lines, wanted) {
			t.Errorf("%s: %q", mode.name, lines)
		}
		refusing := mode.cfg
		refusing.Timers = &firedTimers{err: errors.New("enough")}
		if r := run(t, refusing, "setTimeout(() => {}, 1); 1"); r.Status != v8.Terminated {
			t.Errorf("%s: after a refusal: %v", mode.name, r.Status)
		}
	}
}
