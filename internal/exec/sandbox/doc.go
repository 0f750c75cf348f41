// Package sandbox has the layers that confine a worker process, the system call filter,
// and the proofs that the layers are in force.
//
// The constructor in package v8 sets most layers before the process has a second thread.
// Prove then checks each of them with the kernel. The last layer, the filter, is installed
// with Filter.Install when V8 is warm and before the worker receives user code.
// Filter.Prove checks it.
//
// The package does not depend on V8, frames or pools.
//
// The files, in reading order:
//
//   - layers.go: the layers, which of them are required, and what to do if one is missing
//   - prove.go: proves the layers other than the filter
//   - filter.go: the rules of the system call filter, its installation and its proof
//   - program.go: assembles rules into a filter program of the kernel
//   - violation.go: reads which system call a worker was killed for; the names of system
//     calls
package sandbox
