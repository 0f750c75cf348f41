// Package sandbox holds what confines a worker process and what proves it.
//
// Confinement comes in layers. Most are set by the constructor in package v8,
// before the process owns a second thread; the last one, a filter of system
// calls, is installed by Install once V8 is warm and before any user code comes
// in. Prove then asks the kernel for each layer again, and names those it found.
//
// The package knows the layers, what to do when one is missing, and nothing of
// V8, frames or pools.
package sandbox
