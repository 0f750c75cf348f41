package v8_test

import (
	"testing"

	"daybook/internal/exec/v8"
)

// A run that learns from the garbage collector is marked, and no other.
func TestNondeterminism(t *testing.T) {
	for _, test := range []struct {
		name, first, second      string
		readCollected, finalized bool // by the second run
	}{
		{"neither", "1", "2", false, false},
		{"a target that is alive", "var o = {}, w = new WeakRef(o)", "w.deref() === o", false, false},
		{"a target that was collected", "var w = new WeakRef({})", "w.deref() === undefined", true, false},
		{"a WeakRef that is not read", "var w = new WeakRef({})", "typeof w", false, false},
		{"a wrong receiver", "1", "try { WeakRef.prototype.deref.call({}) } catch {}", false, false},
		{"a finalizer", "var done = 0, o = {}, r = new FinalizationRegistry(() => done++); r.register(o, 1)", "o = null", false, true},
		{"a finalizer of a subclass", "class R extends FinalizationRegistry {} var o = {}, r = new R(() => {}); r.register(o, 1)", "o = null", false, true},
		{"a finalizer that throws", "var o = {}, r = new FinalizationRegistry(() => { throw 1 }); r.register(o, 1)", "o = null", false, true},
		{"a finalizer that reads", "var w = new WeakRef({}), o = {}, r = new FinalizationRegistry(() => w.deref()); r.register(o, 1)", "o = null", true, true},
		{"a finalizer of what is alive", "var o = {}, r = new FinalizationRegistry(() => {}); r.register(o, 1)", "1", false, false},
		{"an object that is no longer registered", "var o = {}, r = new FinalizationRegistry(() => {}); r.register(o, 1, r)", "r.unregister(r); o = null", false, false},
		{"user code that replaced methods", "WeakRef.prototype.deref = () => undefined; globalThis.FinalizationRegistry = null; var w = new WeakRef({})", "w.deref()", false, false},
	} {
		first := run(t, v8.Config{}, test.first)
		second := run(t, v8.Config{Heap: first.heap}, test.second)
		if first.ReadCollected || first.Finalized || second.ReadCollected != test.readCollected || second.Finalized != test.finalized || second.Status != v8.Completed {
			t.Errorf("%s: %v, read %t, finalized %t; first read %t, finalized %t", test.name, second.Status, second.ReadCollected, second.Finalized, first.ReadCollected, first.Finalized)
		}
	}
	plain := run(t, v8.Config{Plain: true}, `
		let done = false, kept = [];
		const r = new FinalizationRegistry(() => { done = true });
		(() => r.register({}, 1))();
		for (let i = 0; !done && i < 200; i++) {
			if (kept.push(new Array(1e6).fill(i)) > 8) kept.length = 0; // old objects are collected when the heap has grown
			await new Promise(resolve => setTimeout(resolve, 1));
		}
		done`)
	if plain.text != "true" || !plain.Finalized {
		t.Errorf("in a plain isolate: %v %s, finalized %t", plain.Status, plain.text, plain.Finalized)
	}
}

// Scripts see WeakRef and FinalizationRegistry as the engine made them.
func TestMarksAreInvisible(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"const d = Object.getOwnPropertyDescriptor(WeakRef.prototype, 'deref'); [d.writable, d.enumerable, d.configurable, d.value.name, d.value.length, 'prototype' in d.value].join()", "true,false,true,deref,0,false"},
		{"try { new WeakRef.prototype.deref } catch (e) { e.name }", "TypeError"},
		{"try { WeakRef.prototype.deref.call({}) } catch (e) { e.message }", "Method WeakRef.prototype.deref called on incompatible receiver #<Object>"},
		{"try { WeakRef.prototype.deref.call({}) } catch (e) { e.stack.includes('daybook') }", "false"},
		{"const d = Object.getOwnPropertyDescriptor(globalThis, 'FinalizationRegistry'); [d.writable, d.enumerable, d.configurable, d.value.name, d.value.length, Object.keys(d.value).length].join()", "true,false,true,FinalizationRegistry,1,0"},
		{"try { FinalizationRegistry(() => {}) } catch (e) { e.message }", "Constructor FinalizationRegistry requires 'new'"},
		{"try { new FinalizationRegistry({}) } catch (e) { e.message }", "FinalizationRegistry: cleanup must be callable"},
		{"class R extends FinalizationRegistry {} const r = new R(() => {}); [r instanceof R, r instanceof FinalizationRegistry, r.constructor === R, Object.getPrototypeOf(R) === FinalizationRegistry].join()", "true,true,true,true"},
		{"const r = new FinalizationRegistry(() => {}); [r.constructor === FinalizationRegistry, Object.getPrototypeOf(r) === FinalizationRegistry.prototype, String(r)].join()", "true,true,[object FinalizationRegistry]"},
		{"Reflect.ownKeys(FinalizationRegistry).sort().join()", "length,name,prototype"},
	} {
		for _, plain := range []bool{false, true} {
			if o := run(t, v8.Config{Plain: plain}, test.source); o.text != test.want {
				t.Errorf("%s, plain %t: %v %q, want %q", test.source, plain, o.Status, o.text, test.want)
			}
		}
	}
}
