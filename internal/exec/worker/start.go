package worker

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"daybook/internal/exec/v8"
)

// processAttributes returns the attributes of a worker that os/exec starts: forked or
// inOurs. They are not used for inNamespaces: startIsolated (spawn.c) sets the same.
//
// In namespaces of its own a worker cannot reach other processes or the network and cannot
// become another user, even if the other layers fail.
func processAttributes(way startWay) *syscall.SysProcAttr {
	if way == inOurs {
		return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	}
	return &syscall.SysProcAttr{
		Setpgid: true,
		// Pdeathsig is not set. With it, the process that Go starts ends itself if
		// getppid does not return the id of its parent, and in a new process namespace
		// getppid returns 0. The worker sets the signal itself (lockdown.c).
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

// base is the base heap of one kind of worker. The first worker of this kind in the pool
// creates it, or a later one if that fails. Further ones receive it, which takes a third of
// the time and of the CPU time of creating it. A worker creates it before it runs user code.
type base struct {
	// making holds a token while the heap does not exist and no worker creates it.
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

// awaitReady performs the handshake with a started worker: it sends the base heap, or
// takes the one that the worker creates, and returns when the worker is ready. Workers that
// start while another one of their kind creates the base heap wait for it first.
func (p *Pool) awaitReady(ctx context.Context, w *process, stateful bool) error {
	b := p.bases[stateful]
	select {
	case <-b.made:
		_, err := w.handshake(ctx, stateful, b.heap, &p.opts)
		return err
	case <-b.making:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	made, err := w.handshake(ctx, stateful, nil, &p.opts)
	if err == nil && len(made) > 0 {
		b.heap = made
		close(b.made) // the token stays taken
		return nil
	}
	b.making <- struct{}{} // the next one creates it
	return err
}
