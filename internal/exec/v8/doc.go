// Package v8 runs JavaScript in a V8 isolate whose whole heap can be saved and restored. It
// is the only package that links V8. It also has the parts of worker processes that need C:
// lock-down before Go starts, and starting a process in namespaces.
//
// A run has four steps. New restores a heap, or the base heap. Run evaluates a script in REPL
// mode and runs the event loop until nothing is pending. Snapshot saves the heap. Dispose
// frees everything. A plain isolate saves no heap, and Renew prepares it for another run. The
// heap, the source, the engine, the seed and the start time determine the result.
//
// The package does not know frames, pools and time limits. It is no security boundary: a
// script may be able to crash V8 and the process with it. V8 13.6 supports one isolate that can
// be saved at a time, so New blocks until the previous isolate of the process is disposed of.
// An Isolate belongs to one thread of the operating system.
//
// The Go files, in reading order:
//
//   - isolate.go: Isolate: creates it from a heap, runs a script, saves the heap; creates the
//     base heap; names scripts
//   - engine.go: Engine, which identifies what made a heap; the flags of V8
//   - jit.go: CheckJIT: checks that V8 can optimize runs whose heaps are saved
//   - prelude.go: the sources: the JavaScript that sets up a context, and the parts of the
//     platform
//   - carried.go: Inspect: finds what earlier runs left in the input heap besides values
//   - globals.go: Isolate.Globals: describes the globals of user code without running it
//   - bytes.go: converts between Go and C; receives output and host calls from C
//   - lockdown.go: reports the layers that the constructor of a worker process has set
//   - spawn.go: starts a process in namespaces without a fork of this one
//   - wasm.go: WASMModule: the WebAssembly modules that a plain isolate offers
//   - cgo.go: compiler flags, and the module with the library
//   - headers.go: the module with V8's headers, for a test
//
// The JavaScript of the prelude is in prelude, whose files are evaluated in the order of their
// names. A directory in it is a group, which a run evaluates when it first needs it
// (01_groups.js): 06_stack writes stack traces, 30_intl has the constructors of Intl,
// 40_inspect writes values and errors as text, 65_calls sends host calls, 70_result writes the
// result of a run, 85_clone clones values, and 86_intrinsics finds built-in objects that earlier
// runs changed. 50_console.js has the console, 60_timers.js the timers, 66_mcp.js the objects
// under mcp, whose methods start host calls, 69_regexps.js prepares regular expressions to be
// saved, 87_globals.js writes globals without a run, 88_platform.js evaluates the parts of the
// platform, which are in platform/*.js, when a script first uses them, and 89_modules.js
// evaluates the modules that scripts import.
//
// The C and C++ files, in reading order:
//
//   - bridge.h: the functions that Go calls, and those of Go that are called
//   - isolate.h, isolate.cc: creates, sets up and disposes of an isolate and its context
//   - renew.cc: gives a plain isolate a new context for the next run
//   - loop.cc: runs a script: evaluation, event loop, answers of the host; decides when and
//     how the run ends
//   - host.cc: the functions that the prelude calls, such as those for output and host calls
//   - globals.cc: lists the properties that user code added to the global object; describes
//     the globals of a heap
//   - source.h, source.cc: keeps the sources outside V8's heap
//   - prepare.cc: prepares regular expressions and errors to be saved
//   - wasm.cc: compiles the offered WebAssembly modules when a script first reads them
//   - snapshot.cc: saves the heap
//   - limits.cc, budget.h, budget.cc: decides when the heap of a run is too large, and when
//     an ArrayBuffer is refused
//   - random.h, random.cc: draws random numbers from the seed
//   - feature_window.h, compiler_window.h: change one byte of the isolate, which has no setter, for
//     the first context and for the script of a run
//   - platform.cc, glibc_compat.c: starts V8 in the process; ends the
//     process after a fatal error of V8
//   - v8abi.h: declarations of the parts of V8 that the bridge uses
//   - lockdown.h, lockdown.c: restricts a worker before Go starts: files, capabilities,
//     limits
//   - violation.c: writes the number of a refused system call before the worker ends
//   - spawn.h, spawn.c: starts a process in namespaces
package v8
