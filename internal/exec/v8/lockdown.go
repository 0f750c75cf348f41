package v8

/*
#include "lockdown.h"
*/
import "C"

import "errors"

// WorkerArg0 and WorkerArg1 are the first two arguments of a process that must
// lock itself down before Go or V8 own a thread. Its third argument is its
// parent's process id, its fourth the limit of its data segment in bytes
// (RLIMIT_DATA, 0 for none). Any other process is left alone.
const (
	WorkerArg0 = "daybook-worker"
	WorkerArg1 = "daybook-worker/1"
)

// OpenFiles is the limit of a worker's open descriptors.
const OpenFiles = C.DAYBOOK_OPEN_FILES

// ProbeAddress is where Filter.Prove of package sandbox asks for executable memory.
// No process can map it. The handler that ReportViolations installs answers mprotect
// and pkey_mprotect there, and mmap of no bytes, with EPERM, and does not end the
// process.
const ProbeAddress = C.DAYBOOK_PROBE_ADDRESS

// LockdownLayers names the layers of confinement that were set when this process
// started, by the names of package sandbox, which proves them. It is empty in a
// process that is no worker.
func LockdownLayers() []string {
	bits := C.daybook_lockdown_layers()
	var layers []string
	for _, layer := range []struct {
		bit  C.int
		name string
	}{
		{C.DAYBOOK_LAYER_PDEATHSIG, "pdeathsig"},
		{C.DAYBOOK_LAYER_UNDUMPABLE, "undumpable"},
		{C.DAYBOOK_LAYER_NO_NEW_PRIVS, "no_new_privs"},
		{C.DAYBOOK_LAYER_CLOSED_FILES, "closed_files"},
		{C.DAYBOOK_LAYER_RLIMITS, "rlimits"},
		{C.DAYBOOK_LAYER_RLIMIT_DATA, "rlimit_data"},
		{C.DAYBOOK_LAYER_LANDLOCK, "landlock"},
		{C.DAYBOOK_LAYER_NO_CAPABILITIES, "no_capabilities"},
	} {
		if bits&layer.bit != 0 {
			layers = append(layers, layer.name)
		}
	}
	return layers
}

// ReportViolations makes a system call that the filter traps write its number to
// standard error and end the process: "daybook-sandbox: refused NUMBER ARCH",
// where ARCH is the kernel's AUDIT_ARCH of the call. Calls at ProbeAddress are the
// exception. It comes right before the filter, which must kill on rt_sigaction of
// SIGSYS.
func ReportViolations() error {
	if C.daybook_report_violations() != 0 {
		return errors.New("catch SIGSYS: not possible on this platform")
	}
	return nil
}

// Image returns where the program itself, its code and its data, lies in memory.
func Image() (start, end uintptr) {
	var s, e C.uintptr_t
	C.daybook_image(&s, &e)
	return uintptr(s), uintptr(e)
}
