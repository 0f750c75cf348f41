// Package v8 runs JavaScript in a V8 isolate whose whole heap can be saved and restored. It
// is the only package that links V8. It also has the parts of worker processes that need C:
// lock-down before Go starts, and starting a process in namespaces.
//
// A run has four steps. New restores a heap, or the base heap. Run evaluates a script in REPL
// mode and runs the event loop until nothing is pending. Snapshot saves the heap. Dispose
// frees everything. The heap, the source, the engine, the seed and the start time determine
// the result.
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
//   - prelude.go: joins the JavaScript that sets up a context
//   - carried.go: Inspect: finds what earlier runs left in the input heap besides values
//   - bytes.go: converts between Go and C; receives output and host calls from C
//   - lockdown.go: reports the layers that the constructor of a worker process has set
//   - spawn.go: starts a process in namespaces without a fork of this one
//   - cgo.go: compiler flags, and the module with the library
//   - headers.go: the module with V8's headers, for a test
//
// The JavaScript of the prelude is in prelude/*.js, which is evaluated in the order of the
// file names: 60_timers.js has the timers, 65_calls.js the objects under mcp, whose methods
// start host calls.
//
// The C and C++ files, in reading order:
//
//   - bridge.h: the functions that Go calls, and those of Go that are called
//   - isolate.h, isolate.cc: creates an isolate and its context
//   - loop.cc: a run: evaluation, event loop, answers of the host
//   - host.cc: the functions that the prelude calls, such as those for output and host calls
//   - globals.cc: the properties that user code added to the global object
//   - snapshot.cc: saves the heap
//   - limits.cc, budget.h, budget.cc: limits of the heap and of ArrayBuffers
//   - random.h, random.cc: random numbers from the seed
//   - platform.cc, feature_window.h, glibc_compat.c: V8 in the process
//   - v8abi.h: declarations of the parts of V8 that the bridge uses
//   - lockdown.h, lockdown.c, violation.c: restricts a worker before Go starts; reports a
//     refused system call
//   - spawn.h, spawn.c: starts a process in namespaces
package v8
