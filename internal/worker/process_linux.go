package worker

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// processAttributes are those a worker is started with. In namespaces of its own
// it sees no process, no network and no other user, whatever becomes of the rest.
func processAttributes(isolate bool) *syscall.SysProcAttr {
	if !isolate {
		return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	return &syscall.SysProcAttr{
		Setpgid: true,
		// The parent-death signal is left to the worker: Go checks for a parent that
		// is dead already, and takes one without a number for that.
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		// Nobody is root in there, not even root.
		UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getegid(), Size: 1}},
	}
}

const nobody = 65534

// enlargePipe gives a pipe room. A kernel that grants less only costs time.
func enlargePipe(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize) }

// executable is the running program: not a name in the file system, which may
// have been replaced since.
func executable() string { return "/proc/self/exe" }

// processCPUTime returns the CPU time of a process that has not been reaped. The
// kernel numbers the CPU clock of a process by its pid.
func processCPUTime(pid int) (time.Duration, error) {
	const cpuClockOfProcess = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|cpuClockOfProcess), &t); err != nil {
		return 0, fmt.Errorf("read the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// namespaces tells whether workers may be given namespaces of their own.
const namespaces = true
