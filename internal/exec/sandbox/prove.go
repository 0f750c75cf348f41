package sandbox

import (
	"errors"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Claims has the layers and limits that a worker was set up with.
type Claims struct {
	// Layers are the layers that were set without an error.
	Layers []string
	// DataLimit is RLIMIT_DATA, in bytes; OpenFiles is RLIMIT_NOFILE.
	DataLimit, OpenFiles uint64
}

// Prove checks each claimed layer with the kernel and returns those that are in force, sorted.
// It does not check the layers of the filter. ClosedFiles cannot be checked and is returned if
// it is claimed. Prove must be called on the first thread of the process, which has the
// parent-death signal, and before Filter.Install: the filter answers some of the system calls
// that Prove makes.
func Prove(c Claims) []string {
	proofs := map[string]func() bool{
		// The kernel creates all namespaces in one call or none, so it is enough to check
		// one: only the first process of a process namespace has no parent.
		Namespaces: func() bool { return unix.Getpid() == 1 && unix.Getppid() == 0 },
		// Go has opened descriptors of its own, so others cannot be recognized.
		ClosedFiles: func() bool { return true },
		Landlock:    func() bool { return isDenied("/") && isDenied("/proc/self/exe") },
		NoCapabilities: func() bool {
			head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var sets [2]unix.CapUserData
			return unix.Capget(&head, &sets[0]) == nil && sets == [2]unix.CapUserData{}
		},
		NoNewPrivileges: func() bool { return prctlValue(unix.PR_GET_NO_NEW_PRIVS) == 1 },
		ParentDeath: func() bool {
			// unix.Prctl takes a number, not a pointer: if the stack moved before the
			// system call, the kernel would write to the old one.
			var signal int32
			_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0)
			return errno == 0 && signal == int32(unix.SIGKILL)
		},
		DataLimit: func() bool { return c.DataLimit > 0 && isLimited(unix.RLIMIT_DATA, c.DataLimit) },
		Limits: func() bool {
			return isLimited(unix.RLIMIT_CORE, 0) && isLimited(unix.RLIMIT_FSIZE, 0) && isLimited(unix.RLIMIT_NOFILE, c.OpenFiles) &&
				isLimited(unix.RLIMIT_MEMLOCK, 0) && isLimited(unix.RLIMIT_MSGQUEUE, 0)
		},
		NotDumpable: func() bool { return prctlValue(unix.PR_GET_DUMPABLE) == 0 },
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

func prctlValue(option int) int {
	v, err := unix.PrctlRetInt(option, 0, 0, 0, 0)
	if err != nil {
		return -1
	}
	return v
}

func isDenied(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return errors.Is(err, unix.EACCES)
}

func isLimited(resource int, to uint64) bool {
	var l unix.Rlimit
	return unix.Getrlimit(resource, &l) == nil && l.Cur <= to && l.Max <= to
}
