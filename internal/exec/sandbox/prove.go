package sandbox

import (
	"errors"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Claims are what a worker was set up with.
type Claims struct {
	// Layers were set, as far as the one who set them knows.
	Layers []string
	// DataLimit is RLIMIT_DATA, in bytes; OpenFiles is RLIMIT_NOFILE.
	DataLimit, OpenFiles uint64
}

// Prove asks the kernel for each layer and returns, sorted, those that hold, the
// filter excepted. A layer that was not claimed, or only claimed, does not count.
// It must be called on the process's first thread, where the parent-death signal
// is kept, and before Filter.Install, which answers some of these questions
// itself.
func Prove(c Claims) []string {
	proofs := map[string]func() bool{
		// They are made by one call, all or none, so one tells of all: only who is
		// the first in a process namespace has no parent.
		Namespaces: func() bool { return unix.Getpid() == 1 && unix.Getppid() == 0 },
		// Whether more files were open could only be seen before Go opened its own.
		ClosedFiles: func() bool { return true },
		Landlock:    func() bool { return denied("/") && denied("/proc/self/exe") },
		NoCapabilities: func() bool {
			head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var sets [2]unix.CapUserData
			return unix.Capget(&head, &sets[0]) == nil && sets == [2]unix.CapUserData{}
		},
		NoNewPrivileges: func() bool { return got(unix.PR_GET_NO_NEW_PRIVS) == 1 },
		ParentDeath: func() bool {
			var signal int32
			err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
			return err == nil && signal == int32(unix.SIGKILL)
		},
		DataLimit: func() bool { return c.DataLimit > 0 && limited(unix.RLIMIT_DATA, c.DataLimit) },
		Limits: func() bool {
			return limited(unix.RLIMIT_CORE, 0) && limited(unix.RLIMIT_FSIZE, 0) && limited(unix.RLIMIT_NOFILE, c.OpenFiles) &&
				limited(unix.RLIMIT_MEMLOCK, 0) && limited(unix.RLIMIT_MSGQUEUE, 0)
		},
		NotDumpable: func() bool { return got(unix.PR_GET_DUMPABLE) == 0 },
	}
	var proven []string
	for _, layer := range c.Layers {
		if holds := proofs[layer]; holds != nil && holds() && !slices.Contains(proven, layer) {
			proven = append(proven, layer)
		}
	}
	slices.Sort(proven)
	return proven
}

func got(option int) int {
	v, err := unix.PrctlRetInt(option, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return v
}

func denied(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EACCES)
}

func limited(resource int, to uint64) bool {
	var l unix.Rlimit
	return unix.Getrlimit(resource, &l) == nil && l.Cur <= to && l.Max <= to
}
