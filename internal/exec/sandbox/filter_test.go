package sandbox_test

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"daybook/internal/exec/sandbox"
)

const (
	allow = uint32(unix.SECCOMP_RET_ALLOW)
	trap  = uint32(unix.SECCOMP_RET_TRAP)
	kill  = uint32(unix.SECCOMP_RET_KILL_PROCESS)
	deny  = uint32(unix.SECCOMP_RET_ERRNO)

	amd64 = 0xc000003e
	pid   = 4242
)

// machine runs the filter as the kernel does.
type machine struct {
	*testing.T
	vm *bpf.VM
}

func newMachine(t *testing.T, f sandbox.Filter) machine {
	t.Helper()
	f.ProcessID = pid
	program, err := sandbox.Program(f)
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatal(err)
	}
	return machine{t, vm}
}

// answer returns the answer of the filter to a call. The kernel passes data to filters in the
// byte order of the machine, but this VM reads it as big-endian.
func (m machine) answer(architecture uint32, number int, args ...uint64) uint32 {
	m.Helper()
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data, uint32(number))
	binary.BigEndian.PutUint32(data[4:], architecture)
	for i, a := range args {
		binary.BigEndian.PutUint32(data[16+8*i:], uint32(a)) // the lower half comes first
		binary.BigEndian.PutUint32(data[20+8*i:], uint32(a>>32))
	}
	n, err := m.vm.Run(data)
	if err != nil {
		m.Fatal(err)
	}
	return uint32(n)
}

// image has the addresses of an ordinary program, pie those of a position-independent one.
var (
	image = sandbox.Filter{ImageStart: 0x400000, ImageEnd: 0x4800000}
	pie   = sandbox.Filter{ImageStart: 0x55d000000000, ImageEnd: 0x55d004000000}
)

// The answer to some calls depends on their arguments.
func TestArguments(t *testing.T) {
	t.Parallel()
	const (
		anonymous = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
		rw        = unix.PROT_READ | unix.PROT_WRITE
		rwx       = rw | unix.PROT_EXEC
		thread    = 0x3d0f00
		heap      = 0x7f0000000000
		high      = uint64(1) << 32
	)
	executable := image
	executable.ExecutableMemory = true
	for _, test := range []struct {
		name   string
		filter sandbox.Filter
		call   int
		args   []uint64
		want   uint32
	}{
		{"mmap anywhere", image, unix.SYS_MMAP, []uint64{0, 4096, rw, anonymous, ^uint64(0)}, allow},
		{"mmap of nothing yet", image, unix.SYS_MMAP, []uint64{heap, 4096, unix.PROT_NONE, anonymous | unix.MAP_NORESERVE}, allow},
		{"mmap at a place", image, unix.SYS_MMAP, []uint64{heap, 4096, rw, anonymous | unix.MAP_FIXED}, allow},
		{"mmap over the program", image, unix.SYS_MMAP, []uint64{0x401000, 4096, rw, anonymous | unix.MAP_FIXED}, trap},
		{"mmap at zero, across the program", image, unix.SYS_MMAP, []uint64{0, 1 << 32, rw, anonymous | unix.MAP_FIXED}, trap},
		{"mmap below, into the program", image, unix.SYS_MMAP, []uint64{0x10000, 1 << 32, rw, anonymous | unix.MAP_FIXED}, trap},
		{"mmap of a file", image, unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_READ, unix.MAP_PRIVATE, 0}, trap},
		{"mmap shared", image, unix.SYS_MMAP, []uint64{0, 4096, rw, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, trap},
		{"mmap executable", image, unix.SYS_MMAP, []uint64{0, 4096, rwx, anonymous}, trap},
		{"mmap executable, where mprotect may", executable, unix.SYS_MMAP, []uint64{0, 4096, rwx, anonymous}, trap},

		{"mprotect", image, unix.SYS_MPROTECT, []uint64{heap, 4096, rw}, allow},
		{"mprotect executable", image, unix.SYS_MPROTECT, []uint64{heap, 4096, rwx}, trap},
		{"mprotect executable only", image, unix.SYS_MPROTECT, []uint64{heap, 4096, unix.PROT_EXEC}, trap},
		{"mprotect executable, permitted", executable, unix.SYS_MPROTECT, []uint64{heap, 4096, rwx}, allow},
		{"mprotect with growth", executable, unix.SYS_MPROTECT, []uint64{heap, 4096, unix.PROT_GROWSDOWN | rw}, trap},
		{"mprotect of the program", executable, unix.SYS_MPROTECT, []uint64{0x401000, 4096, rwx}, trap},
		{"mprotect with upper bits", image, unix.SYS_MPROTECT, []uint64{heap, 4096, high | rw}, trap},
		{"pkey_mprotect with a key", image, unix.SYS_PKEY_MPROTECT, []uint64{heap, 4096, rw, 1}, allow},
		{"pkey_mprotect executable", image, unix.SYS_PKEY_MPROTECT, []uint64{heap, 4096, rwx, 1}, trap},
		{"pkey_mprotect executable only", image, unix.SYS_PKEY_MPROTECT, []uint64{heap, 4096, unix.PROT_EXEC, 15}, trap},
		{"pkey_mprotect executable, permitted", executable, unix.SYS_PKEY_MPROTECT, []uint64{heap, 4096, rwx, 1}, allow},
		{"pkey_mprotect of the program", executable, unix.SYS_PKEY_MPROTECT, []uint64{0x401000, 4096, rwx, 1}, trap},
		{"pkey_mprotect without", image, unix.SYS_PKEY_MPROTECT, []uint64{heap, 4096, rwx, ^uint64(0)}, trap},
		{"pkey_mprotect with key 0", image, unix.SYS_PKEY_MPROTECT, []uint64{heap, 4096, rwx, 0}, trap},
		{"munmap", image, unix.SYS_MUNMAP, []uint64{heap, 4096}, allow},
		{"munmap of the program", image, unix.SYS_MUNMAP, []uint64{0x400000, 4096}, trap},
		{"mremap", image, unix.SYS_MREMAP, []uint64{heap, 4096, 8192, unix.MREMAP_MAYMOVE}, allow},
		{"mremap to a place", image, unix.SYS_MREMAP, []uint64{heap, 4096, 4096, unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED, 0x401000}, trap},
		{"madvise", image, unix.SYS_MADVISE, []uint64{heap, 4096, unix.MADV_DONTNEED}, allow},
		{"madvise poison", image, unix.SYS_MADVISE, []uint64{heap, 4096, unix.MADV_HWPOISON}, trap},

		{"far below a position-independent program", pie, unix.SYS_MPROTECT, []uint64{0x2361d5e4000, 4096, rw}, allow},
		{"far below, but long", pie, unix.SYS_MUNMAP, []uint64{0x2361d5e4000, 1 << 46}, trap},
		{"right below", pie, unix.SYS_MUNMAP, []uint64{0x55cfffff0000, 1 << 20}, trap},
		{"inside", pie, unix.SYS_MPROTECT, []uint64{0x55d000001000, 4096, rw}, trap},
		{"above", pie, unix.SYS_MPROTECT, []uint64{heap, 4096, rw}, allow},
		{"mmap anywhere, position-independent", pie, unix.SYS_MMAP, []uint64{0, 4096, rw, anonymous}, allow},
		{"mmap at zero, position-independent", pie, unix.SYS_MMAP, []uint64{0, 1 << 46, rw, anonymous | unix.MAP_FIXED}, trap},

		{"clone of a thread", image, unix.SYS_CLONE, []uint64{thread}, allow},
		{"clone of a process", image, unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, trap},
		{"clone of a process that shares memory", image, unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, trap},
		{"clone of a thread in a namespace", image, unix.SYS_CLONE, []uint64{thread | unix.CLONE_NEWUSER}, trap},
		{"clone of a thread less one flag", image, unix.SYS_CLONE, []uint64{thread &^ unix.CLONE_THREAD}, trap},
		{"tgkill of itself", image, unix.SYS_TGKILL, []uint64{pid, pid, uint64(unix.SIGURG)}, allow},
		{"tgkill of the parent", image, unix.SYS_TGKILL, []uint64{1, 1, 9}, trap},
		{"tgkill of all", image, unix.SYS_TGKILL, []uint64{^uint64(0), 1, 9}, trap},
		{"rt_sigaction", image, unix.SYS_RT_SIGACTION, []uint64{uint64(unix.SIGSEGV)}, allow},
		{"rt_sigaction of SIGSYS", image, unix.SYS_RT_SIGACTION, []uint64{uint64(unix.SIGSYS)}, kill},
		{"rt_sigaction of SIGSYS, with upper bits", image, unix.SYS_RT_SIGACTION, []uint64{high | uint64(unix.SIGSYS)}, kill},
		{"prctl name", image, unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allow},
		{"prctl dumpable", image, unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 1}, trap},
		{"prctl parent death", image, unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG, 0}, trap},
		{"prctl ptracer", image, unix.SYS_PRCTL, []uint64{unix.PR_SET_PTRACER, 1}, trap},

		{"openat", image, unix.SYS_OPENAT, nil, deny | uint32(unix.EACCES)},
		{"clone3", image, unix.SYS_CLONE3, nil, deny | uint32(unix.ENOSYS)},
		{"ioctl", image, unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, deny | uint32(unix.ENOTTY)},
	} {
		if got := newMachine(t, test.filter).answer(amd64, test.call, test.args...); got != test.want {
			t.Errorf("%s: %#x, want %#x", test.name, got, test.want)
		}
	}
}

// permitted has all calls that the filter permits with some arguments. A change of the filter
// requires a change of this list.
var permitted = []string{
	"brk", "clock_getres", "clock_gettime", "clock_nanosleep", "clone", "epoll_create1", "epoll_ctl", "epoll_pwait", "eventfd2", "exit",
	"exit_group", "futex", "getcpu", "getpid", "getrandom", "getrusage", "gettid", "gettimeofday", "madvise", "mmap", "mprotect", "mremap",
	"munmap", "nanosleep", "pkey_mprotect", "prctl", "read", "restart_syscall", "rseq", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
	"sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_yield", "set_robust_list", "sigaltstack", "sysinfo", "tgkill", "time",
	"write", "writev",
}

// Of all system calls, the filter allows only those in permitted, and none with the numbers of
// another architecture.
func TestEveryCall(t *testing.T) {
	t.Parallel()
	m := newMachine(t, image)
	want := map[int]bool{}
	for _, name := range permitted {
		n := 0
		for sandbox.CallName(n) != name {
			if n++; n > 1024 {
				t.Fatalf("no call is named %q", name)
			}
		}
		want[n] = true
	}
	// Arguments that satisfy the conditions of some call.
	arguments := [][]uint64{
		{}, {0x3d0f00}, {pid}, {15},
		{0x7f0000000000, 4096, 3, 1}, {0x7f0000000000, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS},
	}
	for number := range 1024 {
		allowed := false
		for _, args := range arguments {
			allowed = allowed || m.answer(amd64, number, args...) == allow
			for _, foreign := range []uint32{0x40000003, 0xc00000b7, 0, amd64 + 1} { // 32-bit, arm64, nonsense
				if got := m.answer(foreign, number, args...); got != trap {
					t.Fatalf("call %d of architecture %#x: %#x", number, foreign, got)
				}
			}
			if got := m.answer(amd64, number|1<<30, args...); got == allow {
				t.Fatalf("call %d of x32 is allowed", number)
			}
		}
		if allowed != want[number] {
			t.Errorf("call %d (%s): allowed %t", number, sandbox.CallName(number), allowed)
		}
	}
	for _, number := range []int{-1, 1 << 31, 1<<31 | 1} {
		if got := m.answer(amd64, number); got == allow {
			t.Errorf("call %#x is allowed", uint32(number))
		}
	}
}
