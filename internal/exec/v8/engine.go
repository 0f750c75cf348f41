package v8

/*
#include "bridge.h"
*/
import "C"

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync"
)

// SnapshotFormat numbers the layout of saved heaps as far as this package, and
// not V8 or the prelude, decides it. A change makes older heaps unreadable.
const SnapshotFormat = 1

// flags are part of the engine's identity: another value makes other heaps.
//
//   - a constant seed, since workers start before their run is known, and only a
//     constant one makes equal runs equal heaps, byte for byte;
//   - asm.js modules cannot be saved;
//   - optimizing on another thread makes heaps depend on timing;
//   - reused scope infos break direct eval in functions of a restored heap;
//   - source positions computed on demand need bytecode, which saved heaps drop: an
//     error of one run whose stack is first read in another would point nowhere;
//   - helper threads for the garbage collector cost small heaps a fifth more time
//     than they save, and the other cores are busy with other runs.
const flags = "--random-seed=7 --no-validate-asm --no-concurrent-recompilation --no-reuse-scope-infos --single-threaded-gc --no-enable-lazy-source-positions"

// Engine identifies everything besides its inputs that decides what a run does.
// A heap can be restored only by the engine that made it.
type Engine struct {
	V8Version string `json:"v8_version"`
	Flags     string `json:"flags"`
	// JIT tells whether the optimizing compilers run in isolates that are saved.
	JIT            bool   `json:"jit"`
	PreludeSHA256  string `json:"prelude_sha256"`
	SnapshotFormat int    `json:"snapshot_format"`
	// ExternalReferences counts the native functions a heap may refer to. The
	// list only grows.
	ExternalReferences int `json:"external_references"`
	// Platform is GOOS/GOARCH: saved heaps do not travel between processors.
	Platform string `json:"platform"`
}

// ID returns a short name of the engine: equal for equal engines.
func (e Engine) ID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%t\n%s\n%d\n%d\n%s\n", e.V8Version, e.Flags, e.JIT, e.PreludeSHA256, e.SnapshotFormat, e.ExternalReferences, e.Platform))
	return "v8-" + e.V8Version + "-" + hex.EncodeToString(sum[:8])
}

// CurrentEngine returns the identity of the engine linked into this program.
// It does not start V8.
func CurrentEngine() Engine {
	return Engine{
		V8Version:          C.GoString(C.daybook_v8_version()),
		Flags:              flags,
		PreludeSHA256:      preludeSHA256(),
		SnapshotFormat:     SnapshotFormat,
		ExternalReferences: int(C.daybook_external_references()),
		Platform:           runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// V8 has one platform and one set of flags per process and cannot be restarted:
// the one place where global state cannot be avoided.
var start = sync.OnceValue(func() error {
	if rc := C.daybook_start(cBytes([]byte(flags))); rc != 0 {
		return fmt.Errorf("start V8 %s: it refuses the library's build configuration", C.GoString(C.daybook_v8_version()))
	}
	return nil
})
