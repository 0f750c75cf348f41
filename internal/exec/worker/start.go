package worker

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"daybook/internal/exec/v8"
)

// processAttributes returns the attributes that a worker is started with. In namespaces
// of its own it sees no other process, no network and no other user, even if the other
// layers fail.
func processAttributes(way startWay) *syscall.SysProcAttr {
	if way == inOurs {
		return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	return &syscall.SysProcAttr{
		Setpgid: true,
		// The worker sets the parent-death signal itself: Go checks whether the parent
		// is dead, and a parent in another process namespace looks dead to it, because
		// its process id is 0 there.
		Cloneflags: ownNamespaces,
		// No user is root in the namespace, even if the server runs as root.
		UidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getegid(), Size: 1}},
	}
}

const (
	nobody        = 65534
	ownNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
)

// startCommand starts cmd. Its standard input, output and error must be set to files.
func startCommand(cmd *exec.Cmd, way startWay) error {
	if way != inNamespaces {
		return cmd.Start()
	}
	p, err := startIsolated(cmd)
	if err != nil {
		return err
	}
	cmd.Process = p
	return nil
}

func startIsolated(cmd *exec.Cmd) (*os.Process, error) {
	return v8.Isolated{
		Path: cmd.Path, Args: cmd.Args, Dir: cmd.Dir, Namespaces: ownNamespaces, UserID: nobody, GroupID: nobody,
		Files: [3]*os.File{cmd.Stdin.(*os.File), cmd.Stdout.(*os.File), cmd.Stderr.(*os.File)},
	}.Start()
}
