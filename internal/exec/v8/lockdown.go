package v8

/*
#include "lockdown.h"
*/
import "C"

import "errors"

// WorkerArg0 and WorkerArg1 are the first two arguments of a process that locks itself down
// before Go or V8 start a thread. Its third argument is the process id of its parent, its fourth
// the limit of its data segment in bytes (RLIMIT_DATA; 0 means no limit). A process with other
// arguments is not locked down.
const (
	WorkerArg0 = "daybook-worker"
	WorkerArg1 = "daybook-worker/1"
)

// OpenFiles is the maximum number of open descriptors of a worker.
const OpenFiles = C.DAYBOOK_OPEN_FILES

// ProbeAddress is the address at which Filter.Prove of package sandbox asks for executable
// memory. No process can map it. The handler that ReportViolations installs answers mprotect,
// pkey_mprotect and mmap of 0 bytes there with EPERM and does not end the process.
const ProbeAddress = C.DAYBOOK_PROBE_ADDRESS

// LockdownLayers returns the layers that were set when this process started. The names are
// those of package sandbox, which proves them. A process that is no worker has none.
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

// ReportViolations installs a handler of SIGSYS for the calls that the filter traps. The handler
// writes "daybook-sandbox: refused NUMBER ARCH" to standard error and ends the process. NUMBER
// is the number of the call, ARCH its AUDIT_ARCH in the kernel. Calls at ProbeAddress do not end
// the process. ReportViolations MUST be called directly before the filter is installed. The filter
// MUST kill the process on rt_sigaction of SIGSYS.
func ReportViolations() error {
	if C.daybook_report_violations() != 0 {
		return errors.New("catch SIGSYS: not possible on this platform")
	}
	return nil
}

// Image returns the bounds of the code and the data of the program in memory.
func Image() (start, end uintptr) {
	var s, e C.uintptr_t
	C.daybook_image(&s, &e)
	return uintptr(s), uintptr(e)
}
