package worker

import (
	"context"
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

// base is the base heap of one kind of worker. The first worker of a pool creates it. The
// others receive it, which takes a third of the time and of the CPU time. No user code has
// run in the worker that created it.
type base struct {
	// making holds a token until a worker takes it to create the heap.
	making chan struct{}
	made   chan struct{} // closed when heap is set
	heap   []byte
}

// newBases returns the base heaps of a pool. The key is whether tasks are stateful.
func newBases() map[bool]*base { return map[bool]*base{true: newBase(), false: newBase()} }

func newBase() *base {
	b := &base{making: make(chan struct{}, 1), made: make(chan struct{})}
	b.making <- struct{}{}
	return b
}

// awaitReady waits until a worker is ready. Workers of one kind that start at the same
// time wait for the one of them that creates the base heap.
func (p *Pool) awaitReady(ctx context.Context, w *process, stateful bool) error {
	b := p.bases[stateful]
	// No worker puts the token back once the heap is created.
	select {
	case <-b.made:
		_, err := w.handshake(ctx, stateful, b.heap)
		return err
	case <-b.making:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	made, err := w.handshake(ctx, stateful, nil)
	if err == nil && len(made) > 0 {
		b.heap = made
		close(b.made)
		return nil
	}
	b.making <- struct{}{} // the next one creates it
	return err
}
