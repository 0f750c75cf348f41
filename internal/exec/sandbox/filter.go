package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Filter has the parameters of the system call filter.
type Filter struct {
	// ProcessID is the process id of the process in its own namespace.
	ProcessID int
	// ImageStart and ImageEnd are the bounds of the code and data of the program, which
	// must not be remapped: they contain the handler that reports violations.
	ImageStart, ImageEnd uintptr
	// ExecutableMemory permits making memory executable. Only WebAssembly needs it when V8
	// is warm: the range for compiled code, also optimized code, is executable already.
	ExecutableMemory bool
	// ProbeAddress is the address at which Prove asks for executable memory. No process
	// can map it, and the handler of SIGSYS answers calls there with EPERM. 0 leaves
	// NoExecutableMemory unproven.
	ProbeAddress uintptr
}

// threadFlags are exactly the flags of clone in pthread_create. No other flags are permitted,
// because one missing flag creates a process instead of a thread.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
	unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID

// plainCalls are permitted with any arguments: outside the process they reach only its three
// pipes. The most frequent ones come first.
var plainCalls = []uint32{
	unix.SYS_FUTEX, unix.SYS_GETPID, unix.SYS_NANOSLEEP, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_SCHED_YIELD, unix.SYS_RT_SIGRETURN,
	unix.SYS_WRITEV,                                                                     // the C library reports fatal errors with it
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_CREATE1, unix.SYS_EVENTFD2, // Go's timers and sleepers
	unix.SYS_BRK,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, // attributes of a new thread
	unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY, unix.SYS_TIME, unix.SYS_GETCPU, // on systems without a vDSO
	unix.SYS_RT_SIGPROCMASK, unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_GETTID, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ,
	unix.SYS_GETRANDOM, unix.SYS_GETRUSAGE,
	unix.SYS_SYSINFO, // default sizes of heaps
}

// failedCalls are calls that honest code makes and does not need. They fail with the error of
// a system that lacks what they ask for.
var failedCalls = []struct {
	errno unix.Errno
	calls []uint32
}{
	{unix.ENOSYS, []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_FACCESSAT2}},
	{unix.EACCES, []uint32{unix.SYS_OPEN, unix.SYS_OPENAT, unix.SYS_READLINK, unix.SYS_READLINKAT}},
	{unix.ENOTTY, []uint32{unix.SYS_IOCTL}},
}

// rules returns the rules of the filter. A call without a rule ends the process.
func (f Filter) rules() []rule {
	const (
		readWrite  = unix.PROT_READ | unix.PROT_WRITE
		prSetVMA   = 0x53564d41 // Go names its memory
		lastAdvice = 25         // the last advice of madvise for any user; those for root, from 100 on, poison physical memory
	)
	var rules []rule
	add := func(call uint32, allowed ...[]test) { rules = append(rules, rule{call, allowed, trap}) }
	// elsewhere permits a call on memory outside the program.
	elsewhere := func(call uint32, tests ...test) { add(call, f.outside(tests...)...) }

	protection := uint64(readWrite)
	if f.ExecutableMemory {
		protection |= unix.PROT_EXEC
	}
	elsewhere(unix.SYS_MPROTECT, atMost(2, protection))
	elsewhere(unix.SYS_MUNMAP)
	elsewhere(unix.SYS_MREMAP, atMost(3, unix.MREMAP_MAYMOVE))
	add(unix.SYS_MADVISE, []test{atMost(2, lastAdvice)})
	// Only mprotect may make memory executable, so mmap may not.
	private := flags(3, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE, 0)
	add(unix.SYS_MMAP, append(
		[][]test{{equals(0, 0), atMost(2, readWrite), flags(3, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE, unix.MAP_FIXED)}},
		f.outside(atMost(2, readWrite), private)...)...)

	for _, call := range plainCalls {
		rules = append(rules, rule{call, nil, allow})
	}

	// V8 protects its tables and its code with memory protection keys if the processor has
	// them. It makes its code range executable when it starts, before the filter is
	// installed. After that only WebAssembly does, as with mprotect. With key -1 or 0 the
	// call is the same as mprotect.
	elsewhere(unix.SYS_PKEY_MPROTECT, atMost(2, protection), between(3, 1, 15))
	add(unix.SYS_CLONE, []test{equals(0, threadFlags)})
	add(unix.SYS_TGKILL, []test{equals(0, uint64(f.ProcessID))}) // Go's preemption, abort
	add(unix.SYS_PRCTL, []test{equals(0, prSetVMA)}, []test{equals(0, unix.PR_SET_NAME)}, []test{equals(0, unix.PR_GET_SECCOMP)})
	// A call that sets the handler of SIGSYS ends the process: it comes from code that tries
	// to survive a violation, or from the handler itself, which ends the process in this way.
	// The kernel ignores the upper half of the signal number, the filter does not.
	rules = append(rules, rule{unix.SYS_RT_SIGACTION, [][]test{
		{atMost(0, uint64(unix.SIGSYS)-1)},
		{between(0, uint64(unix.SIGSYS)+1, 64)},
	}, kill})

	for _, a := range failedCalls {
		for _, call := range a.calls {
			rules = append(rules, rule{call, nil, fail(a.errno)})
		}
	}
	return rules
}

// outside returns alternatives for a rule. Each of them ensures that the memory at the first
// argument, with the second argument as its length, is outside the program.
func (f Filter) outside(tests ...test) [][]test {
	// A filter cannot add, so it cannot compute the end of the memory. Memory below the
	// program must start at least 1 TiB below it and have at most 1 TiB.
	const far = 1 << 40
	with := func(place ...test) []test { return append(place, tests...) }
	above := with(atLeast(0, uint64(f.ImageEnd)))
	if f.ImageStart <= far {
		return [][]test{above}
	}
	// Address 0 is excluded, because for mmap it means any address.
	return [][]test{above, with(between(0, 1, uint64(f.ImageStart)-far), atMost(1, far))}
}

// Install installs the filter in every thread of the process. From then on, a call that is not
// permitted raises SIGSYS. The handler of SIGSYS MUST end with rt_sigaction of SIGSYS, for
// which the filter kills the process.
func (f Filter) Install() error {
	if err := f.install(); err != nil {
		return fmt.Errorf("install the filter of system calls: %w", err)
	}
	return nil
}

func (f Filter) install() error {
	instructions, err := program(f.rules())
	if err != nil {
		return err
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	fprog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(code)
	switch {
	case errno != 0:
		return errno
	case thread != 0: // the kernel returns the id of a thread that it could not change
		return errors.New("a thread has a filter of its own")
	}
	return nil
}

// Prove returns the layers of the filter that are in force, sorted. The filter must be
// installed.
func (f Filter) Prove() []string {
	const filtering = 2 // SECCOMP_MODE_FILTER
	// The kernel would refuse these arguments with another error. The filter does not check
	// them.
	_, _, errno := unix.RawSyscall6(unix.SYS_OPENAT2, ^uintptr(0), 0, 0, 0, 0, 0)
	switch {
	case prctlValue(unix.PR_GET_SECCOMP) != filtering || errno != unix.ENOSYS:
		return nil
	case f.ExecutableMemory || !f.deniesExecutableMemory():
		return []string{Seccomp}
	default:
		return []string{NoExecutableMemory, Seccomp}
	}
}

// deniesExecutableMemory asks for executable memory in each way that the kernel has and
// reports whether the filter refuses all of them. The filter must be installed, with a handler
// that answers EPERM at ProbeAddress: at other addresses the process ends. The kernel never
// answers these calls with EPERM.
func (f Filter) deniesExecutableMemory() bool {
	const (
		readWrite = unix.PROT_READ | unix.PROT_WRITE
		page      = 4096
		anonymous = unix.MAP_ANONYMOUS | unix.MAP_PRIVATE
	)
	if f.ProbeAddress == 0 {
		return false
	}
	refused := func(call, length, protection, fourth uintptr) bool {
		_, _, errno := unix.RawSyscall6(call, f.ProbeAddress, length, protection, fourth, ^uintptr(0), 0)
		return errno == unix.EPERM
	}
	for _, protection := range []uintptr{unix.PROT_EXEC, unix.PROT_READ | unix.PROT_EXEC, readWrite | unix.PROT_EXEC} {
		if !refused(unix.SYS_MPROTECT, page, protection, 0) || !refused(unix.SYS_MMAP, 0, protection, anonymous) {
			return false
		}
		for key := range uintptr(16) {
			if !refused(unix.SYS_PKEY_MPROTECT, page, protection, key) {
				return false
			}
		}
	}
	// The same call without executable memory is not refused, so the cause was the protection
	// and not the address.
	return !refused(unix.SYS_MPROTECT, page, readWrite, 0)
}
