package v8

/*
#include "bridge.h"
*/
import "C"

// WASMModule is a WebAssembly module of the operator. The global __wasm_NAME is a
// WebAssembly.Module. If the module has no imports, the global NAME is the exports of an
// instance of it. Both are made at the first access, and each run has its own.
type WASMModule struct {
	Name string
	// SHA256 is the hash of Bytes. The process compiles equal modules once.
	SHA256 string
	// Bytes is the module in the binary format. It must not be modified until Dispose.
	Bytes      []byte
	HasImports bool
}

// offerWASM makes the modules available to the script.
func (i *Isolate) offerWASM() {
	if !i.plain || len(i.wasm) == 0 {
		return
	}
	C.daybook_clear_wasm(i.ptr)
	for _, m := range i.wasm {
		i.pinned.Pin(&m.Bytes[0])
		imports := C.int(0)
		if m.HasImports {
			imports = 1
		}
		C.daybook_offer_wasm(i.ptr, cBytes([]byte(m.Name)), cBytes([]byte(m.SHA256)), cBytes(m.Bytes), imports)
	}
}
