package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"daybook/internal/dev/tier"
	"daybook/internal/exec/sandbox"
	"daybook/internal/exec/v8"
	"daybook/internal/exec/worker"
)

// assault is what a script can try after it took over its worker: it makes any system calls in the
// worker process while all layers are in force.
type assault struct {
	name string
	do   func() syscall.Errno
	// want is "killed NAME" with the name of the call that the worker is killed for, the
	// error that the call returns, or "allowed".
	want string
}

func call(number uintptr, args ...uintptr) func() syscall.Errno {
	return func() syscall.Errno { return raw(number, args...) }
}

func raw(number uintptr, args ...uintptr) syscall.Errno {
	var a [6]uintptr
	copy(a[:], args)
	_, _, errno := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
	return errno
}

// text returns the address of s as a C string, which is never freed.
func text(s string) uintptr {
	b := append([]byte(s), 0)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

var kept [][]byte

// Attacks whose outcome depends on the kind of the worker.
const (
	executable = "mprotect, executable"
	claim      = "a claim that no memory becomes executable" // EPERM if it is proven
)

const (
	at       = ^uintptr(99) // AT_FDCWD
	loopback = "\x02\x00\x00\x16\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"
)

// parent is the process that the calls try to harm. The filter refuses them.
func parent() uintptr { return above }

var above = uintptr(os.Getppid()) // read before the filter forbids it

func toParent(number uintptr, args ...uintptr) func() syscall.Errno {
	return func() syscall.Errno { return raw(number, append([]uintptr{parent()}, args...)...) }
}

func attacks() []assault { return append(attacksByArguments(), attacksByNumber()...) }

func attacksByArguments() []assault {
	const (
		anonymous = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
		rw        = unix.PROT_READ | unix.PROT_WRITE
		threads   = 0x3d0f00
	)
	passwd := text("/etc/passwd")
	all := []assault{
		// Files.
		{"open", call(unix.SYS_OPEN, passwd, unix.O_RDONLY), "EACCES"},
		{"openat", call(unix.SYS_OPENAT, at, passwd, unix.O_RDONLY), "EACCES"},
		{"openat of the root", call(unix.SYS_OPENAT, at, text("/"), unix.O_DIRECTORY), "EACCES"},
		{"openat of a new file", call(unix.SYS_OPENAT, at, text("/tmp/daybook-attack"), unix.O_CREAT|unix.O_WRONLY, 0o600), "EACCES"},
		{"openat of the parent's memory", call(unix.SYS_OPENAT, at, text(fmt.Sprintf("/proc/%d/mem", above)), unix.O_RDWR), "EACCES"},
		{"openat of the parent's environment", call(unix.SYS_OPENAT, at, text(fmt.Sprintf("/proc/%d/environ", above)), 0), "EACCES"},
		{"openat of its own memory", call(unix.SYS_OPENAT, at, text("/proc/self/mem"), unix.O_RDWR), "EACCES"},
		{"openat2", call(unix.SYS_OPENAT2, at, passwd, text(strings.Repeat("\x00", 24)), 24), "ENOSYS"},
		{"readlink", call(unix.SYS_READLINK, text("/proc/self/exe"), text(strings.Repeat("x", 100)), 100), "EACCES"},
		{"an ioctl of a terminal", call(unix.SYS_IOCTL, 0, unix.TIOCSTI, text("x")), "ENOTTY"},
		{"faccessat2", call(unix.SYS_FACCESSAT2, at, passwd, 0, 0), "ENOSYS"},
		{"clone3", call(unix.SYS_CLONE3, text(strings.Repeat("\x00", 88)), 88), "ENOSYS"},

		// Processes.
		{"clone of a process", call(unix.SYS_CLONE, uintptr(unix.SIGCHLD)), "killed clone"},
		{"clone that shares memory", call(unix.SYS_CLONE, unix.CLONE_VM|uintptr(unix.SIGCHLD)), "killed clone"},
		{"clone in a user namespace", call(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)), "killed clone"},
		{"clone with files of its own", call(unix.SYS_CLONE, threads&^unix.CLONE_FILES), "killed clone"},
		{"tgkill of the parent", func() syscall.Errno { return raw(unix.SYS_TGKILL, parent(), parent(), 0) }, "killed tgkill"},
		{"kill of the parent", toParent(unix.SYS_KILL, 0), "killed kill"},
		{"kill of everybody", call(unix.SYS_KILL, ^uintptr(0), 0), "killed kill"},
		{"ptrace of the parent", func() syscall.Errno { return raw(unix.SYS_PTRACE, unix.PTRACE_ATTACH, parent()) }, "killed ptrace"},
		{"process_vm_readv", toParent(unix.SYS_PROCESS_VM_READV), "killed process_vm_readv"},
		{"process_vm_writev", toParent(unix.SYS_PROCESS_VM_WRITEV), "killed process_vm_writev"},
		{"pidfd_open", toParent(unix.SYS_PIDFD_OPEN), "killed pidfd_open"},
		{"prlimit64 of the parent", toParent(unix.SYS_PRLIMIT64, unix.RLIMIT_NOFILE), "killed prlimit64"},
		{"prctl dumpable", call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1), "killed prctl"},
		{"prctl parent death", call(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0), "killed prctl"},

		// Memory.
		{"mmap, executable", call(unix.SYS_MMAP, 0, 4096, rw|unix.PROT_EXEC, anonymous), "killed mmap"},
		{"mmap of a file", call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE, 0), "killed mmap"},
		{"mmap, shared", call(unix.SYS_MMAP, 0, 4096, rw, unix.MAP_SHARED|unix.MAP_ANONYMOUS), "killed mmap"},
		{"mmap over the handler", func() syscall.Errno {
			start, _ := v8.Image()
			return raw(unix.SYS_MMAP, start, 4096, rw, anonymous|unix.MAP_FIXED)
		}, "killed mmap"},
		{"mprotect of the handler", func() syscall.Errno {
			start, _ := v8.Image()
			return raw(unix.SYS_MPROTECT, start, 4096, rw)
		}, "killed mprotect"},
		{"munmap of the program", func() syscall.Errno {
			start, end := v8.Image()
			return raw(unix.SYS_MUNMAP, start, (end-start)&^4095)
		}, "killed munmap"},
		{"mremap onto the program", func() syscall.Errno {
			start, _ := v8.Image()
			page := fresh()
			return raw(unix.SYS_MREMAP, page, 4096, 4096, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED, start)
		}, "killed mremap"},
		{executable, func() syscall.Errno {
			return raw(unix.SYS_MPROTECT, fresh(), 4096, rw|unix.PROT_EXEC)
		}, "killed mprotect"},
		{"pkey_mprotect, executable", func() syscall.Errno {
			return raw(unix.SYS_PKEY_MPROTECT, fresh(), 4096, rw|unix.PROT_EXEC, 1)
		}, "killed pkey_mprotect"},
		{"mprotect, executable, where the filter is probed", call(unix.SYS_MPROTECT, v8.ProbeAddress, 4096, rw|unix.PROT_EXEC), "EPERM"},
		{claim, func() syscall.Errno {
			start, end := v8.Image()
			filter := sandbox.Filter{ProcessID: unix.Getpid(), ImageStart: start, ImageEnd: end, ProbeAddress: v8.ProbeAddress}
			if slices.Contains(filter.Prove(), sandbox.NoExecutableMemory) {
				return unix.EPERM
			}
			return 0
		}, "EPERM"},
		{"mmap, executable, at the probe's address", call(unix.SYS_MMAP, v8.ProbeAddress, 4096, rw|unix.PROT_EXEC, anonymous), "killed mmap"},
		{"munmap at the probe's address", call(unix.SYS_MUNMAP, v8.ProbeAddress, 4096), "EINVAL"},
		{"another call with the probe's address", call(unix.SYS_SOCKET, v8.ProbeAddress), "killed socket"},
		{"madvise poison", func() syscall.Errno { return raw(unix.SYS_MADVISE, fresh(), 4096, unix.MADV_HWPOISON) }, "killed madvise"},

		// Ways around the filter and its handler.
		{"a handler of its own", call(unix.SYS_RT_SIGACTION, uintptr(unix.SIGSYS), text(strings.Repeat("\x00", 32)), 0, 8), "killed an unknown system call"},
		{"SIGSYS blocked", func() syscall.Errno {
			all := ^uint64(0)
			raw(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&all)), 0, 8)
			return raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
		}, "killed an unknown system call"},
		{"a forged report", func() syscall.Errno {
			fmt.Fprintln(os.Stderr, "daybook-sandbox: refused 0 3221225534")
			return raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
		}, "killed socket"},
		{"x32", call(1<<30|unix.SYS_GETPPID, 0), "killed system call " + strconv.Itoa(1<<30|unix.SYS_GETPPID)},
		{interface32, call32, "killed system call 20 of the 32-bit interface"},
		{"an unassigned number", call(0x3fff_ffff), "killed system call 1073741823"},
		{"from another thread", func() (errno syscall.Errno) {
			var done sync.WaitGroup
			done.Go(func() {
				runtime.LockOSThread()
				errno = raw(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
			})
			done.Wait()
			return errno
		}, "killed socket"},
		{"a filter of its own", call(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER), "killed seccomp"},

		// Other calls.
		{"its own number", call(unix.SYS_GETPID), "allowed"},
		{"an ordinary mmap", call(unix.SYS_MMAP, 0, 4096, rw, anonymous), "allowed"},
		{"its own output", call(unix.SYS_WRITE, 1, text("x"), 0), "allowed"},
		{"an input that was not given", call(unix.SYS_READ, 9, text("x"), 1), "EBADF"},
	}
	for name, family := range map[string]uintptr{"TCP": unix.AF_INET, "TCP of version 6": unix.AF_INET6, "unix": unix.AF_UNIX, "netlink": unix.AF_NETLINK, "vsock": unix.AF_VSOCK, "packet": unix.AF_PACKET, "ALG": unix.AF_ALG} {
		all = append(all, assault{name + " socket", call(unix.SYS_SOCKET, family, unix.SOCK_STREAM), "killed socket"})
	}
	all = append(all, assault{"UDP socket", call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM), "killed socket"})
	return all
}

// attacksByNumber are calls that the filter refuses with any arguments. It refuses them before the
// kernel checks the user.
func attacksByNumber() (all []assault) {
	passwd := text("/etc/passwd")
	for name, args := range map[string]struct {
		number uintptr
		args   []uintptr
	}{
		"creat": {unix.SYS_CREAT, []uintptr{text("/tmp/daybook-attack"), 0o600}}, "stat": {unix.SYS_STAT, []uintptr{passwd, text(strings.Repeat("\x00", 256))}},
		"newfstatat": {unix.SYS_NEWFSTATAT, []uintptr{at, passwd}}, "statx": {unix.SYS_STATX, []uintptr{at, passwd}}, "access": {unix.SYS_ACCESS, []uintptr{passwd}},
		"unlink": {unix.SYS_UNLINK, []uintptr{text("/tmp/daybook-nothing")}}, "mkdir": {unix.SYS_MKDIR, []uintptr{text("/tmp/daybook-attack")}},
		"rename": {unix.SYS_RENAME, []uintptr{text("/tmp/daybook-nothing"), passwd}}, "symlink": {unix.SYS_SYMLINK, []uintptr{passwd, text("/tmp/daybook-attack")}},
		"chmod": {unix.SYS_CHMOD, []uintptr{text("/tmp/daybook-nothing")}}, "truncate": {unix.SYS_TRUNCATE, []uintptr{text("/tmp/daybook-nothing")}},
		"chdir": {unix.SYS_CHDIR, []uintptr{text("/")}}, "getdents64": {unix.SYS_GETDENTS64, nil}, "open_by_handle_at": {unix.SYS_OPEN_BY_HANDLE_AT, nil},
		"dup": {unix.SYS_DUP, nil}, "pipe2": {unix.SYS_PIPE2, []uintptr{text("        ")}}, "fcntl": {unix.SYS_FCNTL, []uintptr{0, unix.F_GETFD}},
		"inotify_init1": {unix.SYS_INOTIFY_INIT1, nil}, "fanotify_init": {unix.SYS_FANOTIFY_INIT, nil}, "memfd_create": {unix.SYS_MEMFD_CREATE, []uintptr{text("x")}},
		"memfd_secret": {unix.SYS_MEMFD_SECRET, nil},

		"socketpair": {unix.SYS_SOCKETPAIR, []uintptr{unix.AF_UNIX, unix.SOCK_STREAM, 0, text("        ")}},
		"connect":    {unix.SYS_CONNECT, []uintptr{0, text(loopback), 16}}, "bind": {unix.SYS_BIND, []uintptr{0, text(loopback), 16}},
		"sendto": {unix.SYS_SENDTO, nil}, "sendmsg": {unix.SYS_SENDMSG, nil}, "recvmsg": {unix.SYS_RECVMSG, nil}, "accept4": {unix.SYS_ACCEPT4, nil},

		"fork": {unix.SYS_FORK, nil}, "vfork": {unix.SYS_VFORK, nil}, "execve": {unix.SYS_EXECVE, []uintptr{text("/bin/true")}}, "execveat": {unix.SYS_EXECVEAT, []uintptr{at, text("/bin/true")}},
		"tkill": {unix.SYS_TKILL, nil}, "rt_sigqueueinfo": {unix.SYS_RT_SIGQUEUEINFO, nil}, "rt_tgsigqueueinfo": {unix.SYS_RT_TGSIGQUEUEINFO, nil},
		"pidfd_getfd": {unix.SYS_PIDFD_GETFD, nil}, "pidfd_send_signal": {unix.SYS_PIDFD_SEND_SIGNAL, nil}, "process_madvise": {unix.SYS_PROCESS_MADVISE, nil},
		"setpriority": {unix.SYS_SETPRIORITY, nil}, "sched_setaffinity": {unix.SYS_SCHED_SETAFFINITY, nil}, "setrlimit": {unix.SYS_SETRLIMIT, nil},
		"getppid": {unix.SYS_GETPPID, nil}, "setsid": {unix.SYS_SETSID, nil}, "setpgid": {unix.SYS_SETPGID, nil}, "wait4": {unix.SYS_WAIT4, []uintptr{^uintptr(0)}},

		"setuid": {unix.SYS_SETUID, nil}, "setgid": {unix.SYS_SETGID, nil}, "setresuid": {unix.SYS_SETRESUID, nil}, "setgroups": {unix.SYS_SETGROUPS, nil}, "capset": {unix.SYS_CAPSET, nil},
		"unshare": {unix.SYS_UNSHARE, []uintptr{unix.CLONE_NEWUSER}}, "setns": {unix.SYS_SETNS, nil}, "mount": {unix.SYS_MOUNT, nil}, "umount2": {unix.SYS_UMOUNT2, nil},
		"pivot_root": {unix.SYS_PIVOT_ROOT, nil}, "chroot": {unix.SYS_CHROOT, []uintptr{text("/")}}, "fsopen": {unix.SYS_FSOPEN, nil}, "move_mount": {unix.SYS_MOVE_MOUNT, nil},

		"io_uring_setup": {unix.SYS_IO_URING_SETUP, nil}, "io_uring_enter": {unix.SYS_IO_URING_ENTER, nil}, "userfaultfd": {unix.SYS_USERFAULTFD, nil}, "bpf": {unix.SYS_BPF, nil},
		"perf_event_open": {unix.SYS_PERF_EVENT_OPEN, nil}, "keyctl": {unix.SYS_KEYCTL, nil}, "add_key": {unix.SYS_ADD_KEY, nil}, "request_key": {unix.SYS_REQUEST_KEY, nil},
		"shmget": {unix.SYS_SHMGET, nil}, "shmat": {unix.SYS_SHMAT, nil}, "msgget": {unix.SYS_MSGGET, nil}, "semget": {unix.SYS_SEMGET, nil}, "mq_open": {unix.SYS_MQ_OPEN, nil},
		"init_module": {unix.SYS_INIT_MODULE, nil}, "finit_module": {unix.SYS_FINIT_MODULE, nil}, "kexec_load": {unix.SYS_KEXEC_LOAD, nil}, "reboot": {unix.SYS_REBOOT, nil},
		"iopl": {unix.SYS_IOPL, nil}, "ioperm": {unix.SYS_IOPERM, nil}, "modify_ldt": {unix.SYS_MODIFY_LDT, nil}, "arch_prctl": {unix.SYS_ARCH_PRCTL, nil}, "personality": {unix.SYS_PERSONALITY, nil},
		"syslog": {unix.SYS_SYSLOG, nil}, "settimeofday": {unix.SYS_SETTIMEOFDAY, nil}, "sethostname": {unix.SYS_SETHOSTNAME, nil}, "acct": {unix.SYS_ACCT, nil}, "swapon": {unix.SYS_SWAPON, nil},
		"uname": {unix.SYS_UNAME, nil}, "mlockall": {unix.SYS_MLOCKALL, nil}, "mbind": {unix.SYS_MBIND, nil}, "migrate_pages": {unix.SYS_MIGRATE_PAGES, nil}, "remap_file_pages": {unix.SYS_REMAP_FILE_PAGES, nil},
		"landlock_create_ruleset": {unix.SYS_LANDLOCK_CREATE_RULESET, nil}, "timer_create": {unix.SYS_TIMER_CREATE, nil}, "setitimer": {unix.SYS_SETITIMER, nil}, "membarrier": {unix.SYS_MEMBARRIER, nil},
	} {
		all = append(all, assault{name, call(args.number, args.args...), "killed " + name})
	}
	return all
}

// fresh returns a new page of memory.
func fresh() uintptr {
	page, _, _ := syscall.RawSyscall6(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0), 0)
	return page
}

// interface32 is an attack whose outcome depends on the machine.
const interface32 = "the 32-bit interface"

// has32 reports whether the machine has the interface of 32-bit programs. Without it, as on some virtual
// machines, the interrupt is a fault in every process.
var has32 = sync.OnceValue(func() bool {
	return (&exec.Cmd{Path: "/proc/self/exe", Args: []string{caller32}, Env: []string{}}).Run() == nil
})

// caller32 is the name of a process without a sandbox that makes the call and then exits with 0.
const caller32 = "caller-32"

// expects reports whether an outcome is the one in the table, or the one on this machine.
func (a assault) expects(got string) bool {
	if a.name == interface32 && !has32() {
		return strings.HasPrefix(got, "unexpected fault address")
	}
	return got == a.want
}

// call32 makes a call through the interrupt of 32-bit programs. Its machine code was created before
// the lock-down.
func call32() syscall.Errno {
	function := &interrupt
	(*(*func())(unsafe.Pointer(&function)))()
	return 0
}

var interrupt uintptr // the address of getpid by int 0x80

func makeInterrupt() error {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	copy(page, "\xb8\x14\x00\x00\x00\xcd\x80\xc3") // mov $20, %eax; int $0x80; ret
	interrupt = uintptr(unsafe.Pointer(&page[0]))
	return nil
}

// givenHeaps are the base heaps that the attacking processes receive. The key is whether their tasks
// are stateful. Each is created once.
var givenHeaps = map[bool]func() ([]byte, error){
	true:  sync.OnceValues(func() ([]byte, error) { return worker.MakeBaseHeap(context.Background(), true) }),
	false: sync.OnceValues(func() ([]byte, error) { return worker.MakeBaseHeap(context.Background(), false) }),
}

// order is the first line of the standard input of an attacking process. The base heap follows it.
type order struct {
	Attack   string
	Stateful bool
}

// An attack is made on the first thread of its process, like the runs of a worker: this thread has
// the parent-death signal.
func init() {
	if os.Args[0] == v8.WorkerArg0 {
		runtime.LockOSThread()
	}
}

// attack makes one attack in a process that was locked down as a worker. It does not return.
func attack() {
	b, err := io.ReadAll(os.Stdin)
	line, heap, _ := bytes.Cut(b, []byte("\n"))
	var o order
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err == nil {
		err = makeInterrupt()
	}
	if err == nil {
		_, err = v8.Warm(!o.Stateful, heap)
	}
	if err != nil {
		fmt.Println("not started:", err)
		os.Exit(1)
	}
	layers, problem := worker.Confine(o.Stateful)
	if missing := sandbox.Missing(layers, o.Stateful); len(missing) != 0 {
		fmt.Println("not confined:", missing, problem)
		os.Exit(1)
	}
	for _, a := range attacks() {
		if a.name != o.Attack {
			continue
		}
		if errno := a.do(); errno != 0 {
			fmt.Print(unix.ErrnoName(errno))
		} else {
			fmt.Print("allowed")
		}
	}
	os.Exit(0)
}

// commit starts a process that makes the attack. It returns the outcome in the form of assault.want.
func (a assault) commit(t *testing.T, stateful bool, credential *syscall.Credential) string {
	t.Helper()
	line, err := json.Marshal(order{a.name, stateful})
	if err != nil {
		t.Fatal(err)
	}
	heap, err := givenHeaps[stateful]()
	if err != nil {
		t.Fatal(err)
	}
	// The input is not a pipe, so isWorkerProcess returns false.
	socket, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(socket[0]), ""), os.NewFile(uintptr(socket[1]), "")
	defer theirs.Close()
	defer ours.Close()
	var stdout, stderr bytes.Buffer
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: worker.WorkerArgs(1 << 30), Env: []string{}, Dir: "/", Stdin: theirs, Stdout: &stdout, Stderr: &stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: credential},
	}
	// The kernel kills the process when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	if _, err := ours.Write(slices.Concat(line, []byte("\n"), heap)); err != nil {
		t.Errorf("send the order to the process: %v", err)
	}
	ours.Close()
	_ = cmd.Wait() // ProcessState has how it ended
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		if ws.Signal() != syscall.SIGSYS {
			return "killed by " + unix.SignalName(ws.Signal()) + stderr.String()
		}
		if ws.CoreDump() {
			t.Error("the process left a core dump")
		}
		return "killed " + sandbox.Violation(stderr.String())
	}
	return stdout.String() + stderr.String()
}

// Every attack has the outcome in the table, for each user that the server may run as. In the normal
// tier the other user makes only attacks whose outcome depends on more than the number of the call.
func TestAttacks(t *testing.T) {
	t.Parallel()
	users := map[string]*syscall.Credential{"this user": nil}
	if os.Geteuid() == 0 {
		users["nobody"] = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	lanes := make(chan struct{}, 4)
	for user, credential := range users {
		list := attacksByArguments()
		if credential == nil || tier.Nightly() {
			list = attacks()
		}
		for _, a := range list {
			t.Run(user+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				lanes <- struct{}{}
				defer func() { <-lanes }()
				if got := a.commit(t, true, credential); !a.expects(got) {
					t.Errorf("%q, want %q", got, a.want)
				}
			})
		}
	}
}

// Only workers for stateless runs may make memory executable, with the one call that WebAssembly
// needs.
func TestExecutableMemory(t *testing.T) {
	t.Parallel()
	for _, stateful := range []bool{true, false} {
		for name, want := range map[string]string{
			executable:         map[bool]string{true: "killed mprotect", false: "allowed"}[stateful],
			claim:              map[bool]string{true: "EPERM", false: "allowed"}[stateful],
			"mmap, executable": "killed mmap",
		} {
			if got := (assault{name: name}).commit(t, stateful, nil); got != want {
				t.Errorf("stateful %t, %s: %q, want %q", stateful, name, got, want)
			}
		}
	}
}
