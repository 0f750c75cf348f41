// Package v8 runs JavaScript in a V8 isolate whose whole heap can be saved and
// restored. It is the only package that links V8.
//
// One run is: New restores a heap, or starts from the base heap; Run evaluates
// a script in REPL mode and turns the event loop until nothing is left to wait
// for; Snapshot saves the heap; Dispose frees everything. The result is a pure
// function of the heap, the source, the engine, the seed and the start time.
//
// The package knows nothing about processes, pipes or timeouts, and it is no
// security boundary: a script may be able to crash V8, and with it the process.
// V8 13.6 holds at most one isolate that can be saved at a time; New waits for
// its turn. An Isolate belongs to one operating system thread.
package v8
