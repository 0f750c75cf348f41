package v8

/*
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// WASMModule is a WebAssembly module of the operator. The global __wasm_NAME is a
// WebAssembly.Module. If the module has no imports, the global NAME is the exports of an
// instance of it. V8 creates both at the first access, and each run has its own.
type WASMModule struct {
	Name string
	// SHA256 is the hash of Bytes. The process compiles equal modules once.
	SHA256 string
	// Bytes is the module in the binary format. It must not be empty, and must not be modified
	// until Dispose.
	Bytes      []byte
	HasImports bool
}

// offerWASM makes the modules of the configuration available to the script.
func (i *Isolate) offerWASM() error {
	if !i.plain {
		return nil
	}
	list := make([]C.daybook_wasm, 0, len(i.wasm))
	for _, m := range i.wasm {
		name, key, imports := []byte(m.Name), []byte(m.SHA256), C.int(0)
		if len(name) == 0 || len(key) == 0 || len(m.Bytes) == 0 {
			return errors.New("offer a WebAssembly module: it has no name, no hash or no bytes")
		}
		if m.HasImports {
			imports = 1
		}
		i.pinned.Pin(&name[0])
		i.pinned.Pin(&key[0])
		i.pinned.Pin(&m.Bytes[0])
		list = append(list, C.daybook_wasm{name: cBytes(name), key: cBytes(key), bytes: cBytes(m.Bytes), has_imports: imports})
	}
	if C.daybook_offer_wasm(i.ptr, unsafe.SliceData(list), C.int(len(list))) != 0 {
		return errors.New("offer the WebAssembly modules: V8 refused them")
	}
	return nil
}
