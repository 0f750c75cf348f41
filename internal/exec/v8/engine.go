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

// snapshotFormat is the version of the parts of a saved heap that this package defines, rather
// than V8 or the prelude. After a change, older heaps cannot be restored.
const snapshotFormat = 1

// flags are the flags of V8. They are part of the engine's identity, because other flags make
// other heaps. The reasons, in order:
//
//   - The random seed is constant because workers start before their run is known. With a
//     constant seed equal runs make equal heaps, byte for byte.
//   - asm.js modules cannot be saved.
//   - Optimizing on another thread makes heaps depend on timing.
//   - Reused scope infos break direct eval in functions of a restored heap.
//   - Helper threads of the garbage collector take a fifth more time than they save in small
//     heaps, and the other cores are busy with other runs.
//   - Source positions that are computed on demand need bytecode, which saved heaps do not
//     contain. An error whose stack is first read in a later run would have no position.
const flags = "--random-seed=7 --no-validate-asm --no-concurrent-recompilation --no-reuse-scope-infos --single-threaded-gc --no-enable-lazy-source-positions"

// The defaults of scripts on every machine; daybook_start sets them. locale is what V8 calls
// the default locale of ICU.
const (
	locale   = "en-US"
	timeZone = "UTC"
)

// Engine identifies everything that determines what a run does, except its inputs. A heap can
// be restored only by the engine that made it.
type Engine struct {
	V8Version string `json:"v8_version"`
	Flags     string `json:"flags"`
	// JIT reports whether the optimizing compilers are used in isolates that are saved.
	JIT bool `json:"jit"`
	// PreludeSHA256 is the hash of the sources of the prelude and of the platform.
	PreludeSHA256  string `json:"prelude_sha256"`
	SnapshotFormat int    `json:"snapshot_format"`
	// ExternalReferences is the number of native functions and sources that a heap may
	// refer to.
	ExternalReferences int `json:"external_references"`
	// Platform is GOOS/GOARCH. A heap cannot be restored on another platform.
	Platform string `json:"platform"`
	// Locale and TimeZone are the defaults of scripts: a BCP 47 tag and an IANA name. They
	// are the same for all engines so far, and so no part of ID.
	Locale   string `json:"locale,omitempty"`
	TimeZone string `json:"time_zone,omitempty"`
}

// ID returns a short name of the engine. Equal engines have equal names, and different engines
// have different names.
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
		SnapshotFormat:     snapshotFormat,
		ExternalReferences: int(C.daybook_external_references()) + len(sources()),
		Platform:           runtime.GOOS + "/" + runtime.GOARCH,
		Locale:             locale,
		TimeZone:           timeZone,
	}
}

// start starts V8. It is global because V8 has one platform and one set of flags per process and
// cannot be restarted.
var start = sync.OnceValue(func() error {
	for _, s := range sources() {
		C.daybook_add_source(cBytes([]byte(s.name)), cBytes(s.text))
	}
	if rc := C.daybook_start(cBytes([]byte(flags))); rc != 0 {
		return fmt.Errorf("start V8 %s: it refuses the library's build configuration", C.GoString(C.daybook_v8_version()))
	}
	return nil
})
