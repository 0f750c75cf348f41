package worker

import (
	"errors"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/v8"
)

// confine sets the last layer, the filter of system calls, and names those that
// hold: what the constructor of package v8 set is asked for again, for what was
// asked of the kernel is not what it does. It must be called on the first thread.
func confine(stateful bool) (layers []string, problem error) {
	limit, _ := strconv.ParseUint(os.Args[3], 10, 64)      // 0 proves nothing
	set := append(v8.LockdownLayers(), sandbox.Namespaces) // set by the parent, if at all
	layers = sandbox.Prove(sandbox.Claims{Layers: set, DataLimit: limit, OpenFiles: v8.OpenFiles})
	start, end := v8.Image()
	filter := sandbox.Filter{ProcessID: unix.Getpid(), ImageStart: start, ImageEnd: end, ExecutableMemory: !stateful, ProbeAddress: v8.ProbeAddress}
	// Without the handler the filter would end the process as well, but nobody
	// would learn why.
	if problem = errors.Join(v8.ReportViolations(), filter.Install()); problem == nil {
		layers = append(layers, filter.Prove()...)
	}
	slices.Sort(layers)
	return layers, problem
}
