package sandbox

import (
	"fmt"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// threadFlags are those of pthread_create, to the bit. Nothing else may clone: a
// process differs from a thread by a single flag less.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
	unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID

// plainCalls need no look at their arguments: they reach nothing outside the
// process but its three pipes.
var plainCalls = []string{
	"read", "write", "writev", // writev: the C library's last words
	"epoll_pwait", "epoll_ctl", "epoll_create1", "eventfd2", // Go's timers and sleepers
	"brk",
	"futex", "sched_yield", "sched_getaffinity", "sched_getparam", "sched_getscheduler", // the last two: attributes of a thread
	"nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres", "gettimeofday", "time", "getcpu", // where there is no vDSO
	"rt_sigprocmask", "rt_sigreturn", "sigaltstack", "restart_syscall",
	"exit", "exit_group", "gettid", "getpid", "set_robust_list", "rseq",
	"getrandom", "getrusage", "sysinfo", // sysinfo: default sizes of heaps
}

// answered are calls that honest code makes and can do without. The answer is
// that of a system that does not have what they ask for.
var answered = []struct {
	errno unix.Errno
	names []string
}{
	{unix.ENOSYS, []string{"clone3", "openat2", "faccessat2"}},
	{unix.EACCES, []string{"open", "openat", "readlink", "readlinkat"}},
	{unix.ENOTTY, []string{"ioctl"}},
}

// condition is shorter than the library's.
func condition(argument uint32, op seccomp.Operation, value uint64) seccomp.Condition {
	return seccomp.Condition{Argument: argument, Operation: op, Value: value}
}

// policy is the filter. What it does not name ends the process.
func (f Filter) policy() seccomp.Policy {
	const (
		prSetVMA = 0x53564d41 // Go names its memory
		lastHint = 25         // the newest advice of madvise; root's, 100 and up, poison the machine's memory
	)
	var calls []seccomp.NameWithConditions
	call := func(name string, conditions ...seccomp.Condition) {
		calls = append(calls, seccomp.NameWithConditions{Name: name, Conditions: conditions})
	}
	// elsewhere permits a call on memory that is not the program's own.
	elsewhere := func(name string, conditions ...seccomp.Condition) {
		for _, outside := range f.outside() {
			call(name, append(outside, conditions...)...)
		}
	}

	protection := func(argument uint32) []seccomp.Condition {
		if f.ExecutableMemory {
			return []seccomp.Condition{condition(argument, seccomp.LessOrEqual, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC)}
		}
		return []seccomp.Condition{condition(argument, seccomp.LessOrEqual, unix.PROT_READ|unix.PROT_WRITE)}
	}
	// Memory is made executable by mprotect alone.
	anonymous := []seccomp.Condition{
		condition(2, seccomp.LessOrEqual, unix.PROT_READ|unix.PROT_WRITE),
		condition(3, seccomp.BitsSet, unix.MAP_ANONYMOUS),
		condition(3, seccomp.BitsSet, unix.MAP_PRIVATE),
	}
	elsewhere("mmap", anonymous...)
	call("mmap", append(anonymous, condition(0, seccomp.Equal, 0), condition(3, seccomp.BitsNotSet, unix.MAP_FIXED))...)
	elsewhere("mprotect", protection(2)...)
	// With memory keys V8 protects code by them. Key -1 and 0 would be mprotect.
	elsewhere("pkey_mprotect", condition(2, seccomp.LessOrEqual, 7), condition(3, seccomp.GreaterOrEqual, 1), condition(3, seccomp.LessOrEqual, 15))
	elsewhere("munmap")
	elsewhere("mremap", condition(3, seccomp.LessOrEqual, unix.MREMAP_MAYMOVE))
	call("madvise", condition(2, seccomp.LessOrEqual, lastHint))

	call("clone", condition(0, seccomp.Equal, threadFlags))
	call("tgkill", condition(0, seccomp.Equal, uint64(f.ProcessID))) // Go's preemption, abort
	// The kernel reads 32 bits of the number: there must not be more of them.
	call("rt_sigaction", condition(0, seccomp.NotEqual, uint64(unix.SIGSYS)), condition(0, seccomp.LessOrEqual, 64))
	for _, option := range []uint64{prSetVMA, unix.PR_SET_NAME, unix.PR_GET_SECCOMP} {
		call("prctl", condition(0, seccomp.Equal, option))
	}

	p := seccomp.Policy{
		DefaultAction: seccomp.ActionTrap,
		Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionAllow, Names: plainCalls, NamesWithCondtions: calls},
			// Who asks for the handler of SIGSYS wants to outlive a violation, or is
			// that handler, done.
			{Action: seccomp.ActionKillProcess, Names: []string{"rt_sigaction"}},
		},
	}
	for _, a := range answered {
		p.Syscalls = append(p.Syscalls, seccomp.SyscallGroup{Action: seccomp.ActionErrno | seccomp.Action(a.errno), Names: a.names})
	}
	return p
}

// outside lists conditions, each of which proves that memory from the first
// argument on, as long as the second says, is not the program's own.
func (f Filter) outside() [][]seccomp.Condition {
	// BPF cannot add. So what lies below must be far below, and not long.
	const far = 1 << 40
	above := []seccomp.Condition{condition(0, seccomp.GreaterOrEqual, uint64(f.ImageEnd))}
	if f.ImageStart <= far {
		return [][]seccomp.Condition{above}
	}
	below := []seccomp.Condition{
		condition(0, seccomp.LessThan, uint64(f.ImageStart)-far),
		condition(0, seccomp.GreaterThan, 0), // mmap's 0 means anywhere
		condition(1, seccomp.LessOrEqual, far),
	}
	return [][]seccomp.Condition{above, below}
}

// Install installs the filter in every thread of the process. From then on a
// call that is not permitted raises SIGSYS; whoever handles that must end with
// rt_sigaction of SIGSYS, which kills.
func (f Filter) Install() error {
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Flag: seccomp.FilterFlagTSync, Policy: f.policy()})
	if err != nil {
		return fmt.Errorf("install the filter of system calls: %w", err)
	}
	return nil
}

// Prove names, sorted, the layers that come with the filter, if it is in force.
func (f Filter) Prove() []string {
	const filtering = 2 // SECCOMP_MODE_FILTER
	// The kernel would find fault with these arguments; the filter never looks.
	_, _, errno := unix.RawSyscall6(unix.SYS_OPENAT2, ^uintptr(0), 0, 0, 0, 0, 0)
	switch {
	case got(unix.PR_GET_SECCOMP) != filtering || errno != unix.ENOSYS:
		return nil
	case f.ExecutableMemory:
		return []string{Seccomp}
	default:
		return []string{NoExecutableMemory, Seccomp}
	}
}

func callName(number int) string { return arch.X86_64.SyscallNumbers[number] }
