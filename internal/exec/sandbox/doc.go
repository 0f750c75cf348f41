// Package sandbox has the layers that confine a worker process, the system call filter,
// and the proofs that the layers are in force.
//
// A constructor in the C code of package v8 sets most layers, before Go starts and the
// process has a second thread. Prove then checks these layers with the kernel. The last
// layer, the filter, is installed with Filter.Install when V8 is warm and before the worker
// receives user code. Filter.Prove checks the filter.
//
// The package does not depend on V8, frames or pools.
//
// Landlock, capabilities and limits are set in internal/exec/v8/lockdown.c, and namespaces in
// internal/exec/v8/spawn.c and internal/exec/worker/start.go.
//
// The files, in reading order:
//
//   - layers.go: decides which layers are required; words what to do if one is missing
//   - prove.go: checks with the kernel which layers other than the filter are in force
//   - filter.go: decides which system calls are permitted, which fail and which end the
//     worker; installs and proves the filter
//   - program.go: assembles rules into a filter program of the kernel
//   - violation.go: finds the system call that a worker was killed for; the names of system
//     calls
package sandbox
