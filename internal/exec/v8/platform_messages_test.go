package v8_test

import (
	"strings"
	"testing"

	"daybook/internal/exec/v8"
)

func TestMessagesOfPlatform(t *testing.T) {
	checkScripts(t, []struct{ source, want string }{
		{"const { port1, port2 } = new MessageChannel(); let got; port2.onmessage = (e) => { got = e.data.x + e.ports.length }; port1.postMessage({ x: 41 }); await new Promise((r) => setTimeout(r, 5)); got", "41"},
		{"const a = new MessageChannel(), b = new MessageChannel(); let got; a.port2.onmessage = (e) => { e.data.postMessage('over') }; b.port2.onmessage = (e) => { got = e.data }; a.port1.postMessage(b.port1, { transfer: { [Symbol.iterator]() { let i = 0; return { next: () => ({ done: i++ > 0, value: b.port1 }) } } } }); await new Promise((r) => setTimeout(r, 5)); got", "over"},
		{"performance.mark('a', { startTime: 3 }); performance.measure('m', { start: 'a', end: 5 }).duration + performance.getEntriesByName('m').length", "3"},
		{"self === globalThis && new MessageEvent('x', { data: 5 }).data", "5"},
	})
}

// An open port keeps no run alive, a message on its way does.
func TestMessagesKeepTheRunAlive(t *testing.T) {
	r := run(t, v8.Config{}, "const { port1, port2 } = new MessageChannel(); port2.onmessage = (e) => console.log(e.data); port1.postMessage('first'); port1.postMessage('second'); 1")
	if got := strings.Join(r.out, "|"); r.Status != v8.Completed || got != "0@0 first|0@0 second" {
		t.Errorf("status %v: %s %q", r.Status, r.text, got)
	}
	again := run(t, v8.Config{Heap: r.heap}, "port1.postMessage('third'); 2")
	if got := strings.Join(again.out, "|"); again.Status != v8.Completed || got != "0@0 third" {
		t.Errorf("after a restore: status %v: %q", again.Status, got)
	}
}

// Messages for a port that has not been started stay in the heap.
func TestWaitingMessagesSurvive(t *testing.T) {
	first := run(t, v8.Config{}, "const { port1, port2 } = new MessageChannel(); port1.postMessage('early'); performance.mark('kept'); 1")
	again := run(t, v8.Config{Heap: first.heap}, "port2.onmessage = (e) => console.log(e.data); performance.getEntriesByName('kept').length")
	if got := strings.Join(again.out, "|"); got != "0@0 early" || again.text != "1" {
		t.Errorf("after a restore: %q %s", got, again.text)
	}
	if c := inspect(t, again.heap); c.Changes != 0 {
		t.Errorf("changes: %+v", c)
	}
}

func TestReportError(t *testing.T) {
	r := run(t, v8.Config{}, "reportError(new RangeError('reported')); console.log('after')")
	if r.Status != v8.Exception || firstLine(r.text) != "RangeError: reported" || len(r.out) != 1 {
		t.Errorf("status %v: %s %q", r.Status, r.text, r.out)
	}
}
