package worker

import (
	"errors"
	"fmt"

	"daybook/internal/exec/v8"
	"daybook/internal/modules/wasm"
	"daybook/runner"
)

func checkWASM(t *runner.Task) (problems []error) {
	total := 0
	for _, m := range t.WASMModules {
		total += len(m.Bytes)
		if !wasm.IsName(m.Name) || len(m.SHA256) != 64 || len(m.Bytes) == 0 {
			problems = append(problems, fmt.Errorf("WebAssembly module %.70q lacks a valid name, a hash or bytes", m.Name))
		}
	}
	if len(t.WASMModules) > wasm.MaxModules || total > wasm.MaxBytes {
		problems = append(problems, fmt.Errorf("%d WebAssembly modules have %d bytes, at most %d modules and %d bytes are allowed", len(t.WASMModules), total, wasm.MaxModules, wasm.MaxBytes))
	}
	if len(t.WASMModules) > 0 && (t.Stateful || len(t.Bundle) > 0) {
		problems = append(problems, errors.New("WebAssembly modules are for stateless runs only"))
	}
	return problems
}

// wasmMemory returns how much memory a process may use for modules, in bytes: for the bytes
// that it keeps, the copy of V8, and the code, which is several times as large.
func wasmMemory(modules []runner.WASMModule) (n int64) {
	for _, m := range modules {
		n += 8 * int64(len(m.Bytes))
	}
	return n
}

// wasmHeader describes a module of a task.
type wasmHeader struct {
	Name       string `json:"name"`
	SHA256     string `json:"sha256"`
	HasImports bool   `json:"has_imports,omitempty"`
	// Size is the size of the module that follows, in bytes; 0 if the worker keeps it from its
	// last task, or an earlier header of this task has it.
	Size int `json:"size,omitempty"`
}

// sentWASM holds the hashes of the modules that a worker keeps: those of its last task.
type sentWASM map[string]bool

// headers returns the headers of the modules of the next task, the modules to send, and what
// the worker keeps once it has received them.
func (s sentWASM) headers(modules []runner.WASMModule) (headers []wasmHeader, send [][]byte, kept sentWASM) {
	kept = sentWASM{}
	for _, m := range modules {
		h := wasmHeader{Name: m.Name, SHA256: m.SHA256, HasImports: m.HasImports}
		if !s[m.SHA256] && !kept[m.SHA256] {
			h.Size = len(m.Bytes)
			send = append(send, m.Bytes)
		}
		kept[m.SHA256] = true
		headers = append(headers, h)
	}
	return headers, send, kept
}

// readWASM reads the modules that follow the header of a task.
func readWASM(in *frameReader, headers []wasmHeader) (bodies []*heapBody, err error) {
	total := 0
	for _, h := range headers {
		if h.Size == 0 {
			continue
		}
		if total += h.Size; h.Size < 0 || h.Size > wasm.MaxBytes || total > wasm.MaxBytes {
			return nil, fmt.Errorf("%w: WebAssembly modules of %d bytes", errProtocol, total)
		}
		b, err := newHeapBody(h.Size)
		if err != nil {
			return nil, err
		}
		if b.bytes, err = readPart(in, b.bytes, h.Size); err != nil {
			return nil, err
		}
		bodies = append(bodies, b)
	}
	return bodies, nil
}

// keptWASM holds the modules of the last task by their hash.
type keptWASM map[string]*heapBody

// replace keeps the modules of a task in place of those of the task before, and returns them.
// bodies are those that came with the task. There must be no isolate.
func (k *keptWASM) replace(headers []wasmHeader, bodies []*heapBody) (modules []v8.WASMModule, err error) {
	next := keptWASM{}
	for _, h := range headers {
		b := next[h.SHA256]
		switch {
		case h.Size > 0 && b == nil:
			b, bodies = bodies[0], bodies[1:]
		case h.Size > 0:
			return nil, fmt.Errorf("%w: a WebAssembly module that was sent twice", errProtocol)
		case b == nil:
			b = (*k)[h.SHA256]
		}
		if b == nil {
			return nil, fmt.Errorf("%w: a WebAssembly module that was never sent", errProtocol)
		}
		next[h.SHA256] = b
		modules = append(modules, v8.WASMModule{Name: h.Name, SHA256: h.SHA256, Bytes: b.bytes, HasImports: h.HasImports})
	}
	for hash, b := range *k {
		if next[hash] != b {
			b.release()
		}
	}
	*k = next
	return modules, nil
}
