package worker_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/exec/worker"
	"daybook/internal/modules/wasm"
	"daybook/runner"
)

// constModule returns a module that exports get, which returns a constant of 0 to 63.
func constModule(t testing.TB, name string, constant byte) runner.WASMModule {
	t.Helper()
	b, err := hex.DecodeString("0061736d010000000105016000017f030201000707010367657400000a060104004" + fmt.Sprintf("1%02x0b", constant))
	if err != nil {
		t.Fatal(err)
	}
	return runner.WASMModule{Name: name, SHA256: events.Hash(b), Bytes: b}
}

// padded adds a custom section to a module, which makes it n bytes longer.
func padded(m runner.WASMModule, n int) runner.WASMModule {
	size := make([]byte, 5)
	for i := range size {
		size[i] = byte((n+2)>>(7*i))&0x7f | 0x80
	}
	size[4] &= 0x7f
	m.Bytes = append(append(append(append([]byte{}, m.Bytes...), 0), size...), append([]byte{1, 'x'}, make([]byte, n)...)...)
	m.SHA256 = events.Hash(m.Bytes)
	return m
}

// One worker process gets the modules of each task, whether it keeps them or not.
func TestWASMModules(t *testing.T) {
	t.Parallel()
	p := worker.New(worker.Options{Idle: 1, Stateless: true})
	defer p.Close()
	a, b, c := constModule(t, "a", 1), constModule(t, "b", 2), constModule(t, "c", 3)
	large := padded(constModule(t, "large", 4), 5<<20)
	renamed := a
	renamed.Name = "renamed"
	hidden := b
	hidden.HasImports = true
	for i, step := range []struct {
		modules    []runner.WASMModule
		code, want string
	}{
		{[]runner.WASMModule{a, b}, "a.get() + b.get()", "3"},
		{[]runner.WASMModule{a, b}, "b.get() - a.get()", "1"},
		{nil, "typeof a + typeof __wasm_a", "undefinedundefined"},
		{[]runner.WASMModule{b, c}, "typeof a + b.get() + c.get()", "undefined23"},
		{[]runner.WASMModule{a, renamed}, "a.get() + renamed.get()", "2"},
		{[]runner.WASMModule{large, c}, "large.get() + c.get()", "7"},
		{[]runner.WASMModule{c, large}, "large.get() * 10 + c.get()", "43"},
		{[]runner.WASMModule{hidden}, "typeof b + new WebAssembly.Instance(__wasm_b).exports.get()", "undefined2"},
		{[]runner.WASMModule{c}, "syntax error", ""},
		{[]runner.WASMModule{c, a}, "a.get() + c.get()", "4"},
	} {
		o, err := p.Run(t.Context(), runner.Task{Tenant: "t", Code: []byte(step.code), Timeout: time.Minute, Start: begin, WASMModules: step.modules, HeapLimitBytes: 64 << 20, ArrayBufferLimitBytes: 64 << 20}, discard)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if step.want == "" {
			if o.Reason != runner.ReasonSyntaxError {
				t.Errorf("step %d: %s", i, o.Reason)
			}
			continue
		}
		if o.Status != events.StatusCompleted || *o.Result != step.want {
			t.Errorf("step %d: %s %s %s, want %s", i, o.Status, o.Error, str(o.Result), step.want)
		}
	}
}

func str(s *string) string {
	if s == nil {
		return "<none>"
	}
	return *s
}

func TestRefusedWASMModules(t *testing.T) {
	t.Parallel()
	p := worker.New(worker.Options{Idle: 1, Stateless: true})
	defer p.Close()
	a := constModule(t, "a", 1)
	named := func(m runner.WASMModule, name string) runner.WASMModule { m.Name = name; return m }
	many := make([]runner.WASMModule, wasm.MaxModules+1)
	for i := range many {
		many[i] = named(a, fmt.Sprintf("m%d", i))
	}
	for _, c := range []struct {
		modules  []runner.WASMModule
		stateful bool
		want     string
	}{
		{[]runner.WASMModule{named(a, "a b")}, false, "lacks a valid name"},
		{[]runner.WASMModule{{Name: "a", Bytes: a.Bytes}}, false, "a hash"},
		{[]runner.WASMModule{{Name: "a", SHA256: a.SHA256}}, false, "or bytes"},
		{many, false, "at most 100 modules"},
		{[]runner.WASMModule{padded(a, wasm.MaxBytes)}, false, "67108864 bytes are allowed"},
		{[]runner.WASMModule{a}, true, "stateless runs only"},
	} {
		_, err := p.Run(t.Context(), runner.Task{Tenant: "t", Code: []byte("1"), Timeout: time.Minute, Start: begin, WASMModules: c.modules, Stateful: c.stateful}, discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// BenchmarkWASMModules shows what offered modules cost a run that does not use them, one that
// does, and one in a worker that has to receive them.
func BenchmarkWASMModules(b *testing.B) {
	small, large := constModule(b, "small", 1), padded(constModule(b, "large", 2), 10<<20)
	for _, c := range []struct {
		name    string
		modules []runner.WASMModule
		code    string
	}{
		{"none", nil, "1"},
		{"unused", []runner.WASMModule{small, large}, "1"},
		{"used", []runner.WASMModule{small, large}, "small.get() + large.get()"},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := worker.New(worker.Options{Idle: 1, Stateless: true, MaxRuns: 1 << 30})
			defer p.Close()
			for b.Loop() {
				if _, err := p.Run(b.Context(), runner.Task{Tenant: "t", Code: []byte(c.code), Timeout: time.Minute, Start: begin, WASMModules: c.modules}, discard); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
