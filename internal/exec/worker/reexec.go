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

// A program that imports this package is its own worker. The check is in init because
// main is the main of a server, of an embedding program or of a test binary.
func init() {
	if isWorkerProcess(os.Args) {
		os.Exit(serve(os.Stdin, os.Stdout, confine))
	}
}

// isWorkerProcess reports whether a Pool started this process: its arguments are those of
// a worker, and its standard input and output are pipes. serve then requires the hello
// message.
func isWorkerProcess(args []string) bool {
	if len(args) != 4 || args[0] != v8.WorkerArg0 || args[1] != v8.WorkerArg1 {
		return false
	}
	for fd := range 2 {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return false
		}
	}
	return true
}

// workerArgs returns the arguments that a worker is started with. dataLimit is the limit
// of its data segment, in bytes.
func workerArgs(dataLimit int64) []string {
	return []string{v8.WorkerArg0, v8.WorkerArg1, strconv.Itoa(os.Getpid()), strconv.FormatInt(dataLimit, 10)}
}

// confine installs the last layer, the system call filter, and returns the names of the
// layers that are in force. The constructor of package v8 set the other layers; confine
// proves each of them, because a request that the kernel accepted is no evidence. It must
// be called on the first thread of the process.
func confine(stateful bool) (layers []string, problem error) {
	limit, _ := strconv.ParseUint(os.Args[3], 10, 64)      // 0 leaves the layer unproven
	set := append(v8.LockdownLayers(), sandbox.Namespaces) // the parent creates the namespaces if the system permits it
	layers = sandbox.Prove(sandbox.Claims{Layers: set, DataLimit: limit, OpenFiles: v8.OpenFiles})
	start, end := v8.Image()
	filter := sandbox.Filter{ProcessID: unix.Getpid(), ImageStart: start, ImageEnd: end, ExecutableMemory: !stateful, ProbeAddress: v8.ProbeAddress}
	// Without the handler the filter would also end the process, but would not report
	// the system call.
	if problem = errors.Join(v8.ReportViolations(), filter.Install()); problem == nil {
		layers = append(layers, filter.Prove()...)
	}
	slices.Sort(layers)
	return layers, problem
}
