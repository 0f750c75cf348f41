package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// The layers, by the names they have on record.
const (
	// ClosedFiles: three pipes, and no descriptor besides.
	ClosedFiles = "closed_files"
	// Landlock: no file, no directory, no TCP port, no abstract socket.
	Landlock = "landlock"
	// Namespaces: users, network, processes, mounts, System V objects and the
	// host's name are the worker's own, and empty. Never required: the others do
	// without, and not every system permits it.
	Namespaces = "namespaces"
	// NoCapabilities: root's powers are dropped.
	NoCapabilities = "no_capabilities"
	// NoExecutableMemory: the filter bars making memory executable. Only workers
	// of stateful runs have it: WebAssembly needs the right.
	NoExecutableMemory = "no_executable_memory"
	// NoNewPrivileges: nothing that is executed could gain rights.
	NoNewPrivileges = "no_new_privs"
	// ParentDeath: the worker is killed when its parent dies.
	ParentDeath = "pdeathsig"
	// DataLimit bounds the memory of the process.
	DataLimit = "rlimit_data"
	// Limits: few descriptors, no file written, no core, no locked memory.
	Limits = "rlimits"
	// Seccomp: the filter of system calls.
	Seccomp = "seccomp"
	// NotDumpable: no other process of the same user can look inside.
	NotDumpable = "undumpable"
)

// remedies says what to do about a layer that is missing.
var remedies = map[string]string{
	ClosedFiles:        "close_range(2) is needed: Linux 5.9 or later, and a container profile that permits it",
	Landlock:           "Landlock is needed: Linux 5.13 or later with CONFIG_SECURITY_LANDLOCK and \"landlock\" among the modules of the lsm= boot parameter, and a container profile that permits landlock_create_ruleset and landlock_restrict_self",
	NoCapabilities:     "capset(2) is needed: let the container profile permit it, or start the server as a user other than root",
	NoExecutableMemory: "it comes with the seccomp layer",
	NoNewPrivileges:    "prctl(PR_SET_NO_NEW_PRIVS) is needed: let the container profile permit it",
	ParentDeath:        "prctl(PR_SET_PDEATHSIG) is needed: let the container profile permit it",
	DataLimit:          "setrlimit(RLIMIT_DATA) is needed: raise the hard limit the server is started with (ulimit -Hd unlimited)",
	Limits:             "setrlimit is needed: let the container profile permit it",
	Seccomp:            "seccomp filters are needed: Linux 4.14 or later with CONFIG_SECCOMP_FILTER, on amd64, and a container profile that permits seccomp(2)",
	NotDumpable:        "prctl(PR_SET_DUMPABLE) is needed: let the container profile permit it",
}

// Required lists, sorted, the layers a worker must reach. Those that keep heaps
// must reach one more.
func Required(stateful bool) []string {
	layers := []string{ClosedFiles, Landlock, NoCapabilities, NoNewPrivileges, ParentDeath, DataLimit, Limits, Seccomp, NotDumpable}
	if stateful {
		layers = append(layers, NoExecutableMemory)
	}
	slices.Sort(layers)
	return layers
}

// Known tells whether a layer goes by this name.
func Known(layer string) bool { return layer == Namespaces || remedies[layer] != "" }

// Missing lists what reached lacks of what is required, in the same order.
func Missing(reached []string, stateful bool) []string {
	return slices.DeleteFunc(Required(stateful), func(l string) bool { return slices.Contains(reached, l) })
}

// MissingError reports layers that a worker did not reach.
type MissingError struct {
	// Layers is not empty.
	Layers []string
	// Details are what the worker said of the cause, possibly nothing.
	Details string
}

func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "this machine does not confine workers as it must; missing: %s", strings.Join(e.Layers, ", "))
	for _, l := range e.Layers {
		if remedy := remedies[l]; remedy != "" {
			fmt.Fprintf(&b, "; %s: %s", l, remedy)
		}
	}
	if e.Details != "" {
		fmt.Fprintf(&b, " (the worker says: %s)", e.Details)
	}
	return b.String()
}
