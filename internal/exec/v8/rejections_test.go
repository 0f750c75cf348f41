package v8_test

import (
	"testing"
	"time"

	"daybook/internal/exec/v8"
)

// Handlers that are added after the rejection take linear time. When each handler searched the list,
// 100,000 of them took more than two minutes.
func TestManyHandledRejections(t *testing.T) {
	for _, mode := range modes {
		began := time.Now()
		cfg := mode.cfg
		cfg.HeapLimit = 256 << 20
		r, _ := print(t, cfg, `const all = Array.from({ length: 1e5 }, (_, i) => Promise.reject(i));
			const settled = await Promise.allSettled(all); settled.filter(s => s.status === 'rejected').length`)
		if r.Status != v8.Completed || textOf(r) != "100000" {
			t.Errorf("%s: %v %.200s", mode.name, r.Status, textOf(r))
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: took %v", mode.name, took)
		}
	}
}

// The list of rejected promises does not keep handled ones alive.
func TestHandledRejectionsAreReleased(t *testing.T) {
	r, _ := print(t, v8.Config{Plain: true, HeapLimit: 32 << 20}, `
		for (let i = 0; i < 4000; i++) { const p = Promise.reject(new Array(1e4).fill(i)); p.catch(() => {}); await null }
		'done'`)
	if r.Status != v8.Completed || textOf(r) != "done" {
		t.Errorf("%v %.200s", r.Status, textOf(r))
	}
}

// The first rejected promise without a handler ends the run.
func TestFirstUnhandledRejectionEndsTheRun(t *testing.T) {
	for _, mode := range modes {
		r, _ := print(t, mode.cfg, `const list = Array.from({ length: 500 }, (_, i) => Promise.reject('number ' + i));
			for (let i = 0; i < 500; i++) if (i !== 321 && i !== 400) list[i].catch(() => {});`)
		if r.Status != v8.Exception || textOf(r) != "Uncaught 'number 321'" {
			t.Errorf("%s: %v %q", mode.name, r.Status, textOf(r))
		}
	}
}
