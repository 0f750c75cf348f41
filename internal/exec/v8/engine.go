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
//   - Without it, each saved heap moves objects to a read-only part of its own, which takes a
//     tenth of the time of saving a small heap and makes the heap larger.
const flags = "--random-seed=7 --no-validate-asm --no-concurrent-recompilation --no-reuse-scope-infos --single-threaded-gc --no-enable-lazy-source-positions --no-extensible-ro-snapshot"

// JITFlags are further flags of a process that optimizes stateful runs. What V8 optimizes decides
// how it stores some values: the same number may be a small integer or a floating-point number. So
// these flags remove what discards optimized code and depends on time. Without optimized code they
// change no heap. The reasons, in order:
//
//   - V8 marks garbage in steps whose number depends on time. A collection discards code that
//     depends on objects which it collects.
//   - Otherwise the measured speed of collections determines when the next one is.
//   - V8 decides where objects are allocated by what collections found, and then discards code.
//   - The size of the space for new objects depends on how fast the script allocates.
const JITFlags = "--no-incremental-marking --heap-growing-percent=100 --no-allocation-site-pretenuring --min-semi-space-size=16"

// processFlags are the flags of V8 in this process.
var processFlags = flags

// AllowJIT adds JITFlags, which Config.JIT needs. It MUST be called before anything else of this
// package, except AddToPrelude.
func AllowJIT() { processFlags = flags + " " + JITFlags }

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
	// JIT reports whether V8 optimizes the code of runs. A heap that is saved can be restored
	// with and without JIT, so it is a part of ID only if SnapshotFormat is 0.
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

// ID returns a short name of the engine. Engines that restore each other's heaps have equal names,
// and other engines have different names.
func (e Engine) ID() string {
	optimizes := e.JIT && e.SnapshotFormat == 0
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%t\n%s\n%d\n%d\n%s\n", e.V8Version, e.Flags, optimizes, e.PreludeSHA256, e.SnapshotFormat, e.ExternalReferences, e.Platform))
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
	if rc := C.daybook_start(cBytes([]byte(processFlags))); rc != 0 {
		return fmt.Errorf("start V8 %s: it refuses the library's build configuration", C.GoString(C.daybook_v8_version()))
	}
	return nil
})
