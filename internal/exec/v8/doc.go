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
//   - isolate.go: Isolate with its configuration, its result and its base heap; the names
//     of scripts in a heap
//   - engine.go: Engine, which identifies what made a heap, and the flags of V8
//   - prelude.go: the JavaScript that sets up a context
//   - carried.go: Inspect, which describes the input heap before a run
//   - bytes.go: conversions between Go and C, and the callbacks for output and host calls
//   - lockdown.go: the layers that the constructor of a worker process sets
//   - spawn.go: starts a process in namespaces without a fork of this one
//   - cgo.go: compiler flags, and the module with the library
//   - headers.go: the module with V8's headers, for a test
package v8
