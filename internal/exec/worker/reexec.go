package worker

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"

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
