package v8

/*
#include "lockdown.h"
*/
import "C"

// WorkerArg0 and WorkerArg1 are the first two arguments of a process that must
// lock itself down before Go or V8 own a thread. Its third argument is its
// parent's process id, its fourth the limit of its data segment in bytes
// (RLIMIT_DATA, 0 for none). Any other process is left alone.
const (
	WorkerArg0 = "daybook-worker"
	WorkerArg1 = "daybook-worker/1"
)

// LockdownLayers names the layers of confinement that took effect when this
// process started. It is empty in a process that is no worker.
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
	} {
		if bits&layer.bit != 0 {
			layers = append(layers, layer.name)
		}
	}
	return layers
}
