package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// The layers, by their recorded names.
const (
	// ClosedFiles: the process has no descriptors other than its three pipes.
	ClosedFiles = "closed_files"
	// Landlock: the process has no access to files, directories, TCP ports and abstract
	// sockets.
	Landlock = "landlock"
	// Namespaces: the worker has user, network, process, mount, IPC and host name
	// namespaces of its own. It is never required, because the other layers do not depend
	// on it and some systems do not permit it.
	Namespaces = "namespaces"
	// NoCapabilities: the process has no capabilities, even if its user is root.
	NoCapabilities = "no_capabilities"
	// NoExecutableMemory: the filter prevents that memory is made executable. Only workers
	// for stateful runs have this layer, because WebAssembly needs executable memory.
	NoExecutableMemory = "no_executable_memory"
	// NoNewPrivileges: executing a program grants no privileges.
	NoNewPrivileges = "no_new_privs"
	// ParentDeath: the worker is killed when its parent dies.
	ParentDeath = "pdeathsig"
	// DataLimit: the size of the data segment is limited.
	DataLimit = "rlimit_data"
	// Limits: the process may have few descriptors, and may not write files, dump core,
	// lock memory or use message queues.
	Limits = "rlimits"
	// Seccomp: the system call filter is installed.
	Seccomp = "seccomp"
	// NotDumpable: other processes of the same user cannot read the memory of the process.
	NotDumpable = "undumpable"
)

// remedies has what to do about each missing layer. Namespaces has no remedy.
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

// Required returns the layers that a worker must have, sorted. Workers for stateful runs
// need one more.
func Required(stateful bool) []string {
	layers := []string{ClosedFiles, Landlock, NoCapabilities, NoNewPrivileges, ParentDeath, DataLimit, Limits, Seccomp, NotDumpable}
	if stateful {
		layers = append(layers, NoExecutableMemory)
	}
	slices.Sort(layers)
	return layers
}

// Known reports whether a layer has this name.
func Known(layer string) bool { return layer == Namespaces || remedies[layer] != "" }

// Missing returns the required layers that are not in reached, sorted.
func Missing(reached []string, stateful bool) []string {
	return slices.DeleteFunc(Required(stateful), func(l string) bool { return slices.Contains(reached, l) })
}

// MissingError is returned when a worker lacks required layers.
type MissingError struct {
	// Layers are the missing layers, at least one.
	Layers []string
	// Details is the cause that the worker reported, or empty.
	Details string
}

func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "workers lack required layers of the sandbox on this machine: %s", strings.Join(e.Layers, ", "))
	for _, l := range e.Layers {
		if remedy := remedies[l]; remedy != "" {
			fmt.Fprintf(&b, "; %s: %s", l, remedy)
		}
	}
	if e.Details != "" {
		fmt.Fprintf(&b, " (the worker reported: %s)", e.Details)
	}
	return b.String()
}
