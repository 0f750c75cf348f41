package worker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"daybook/internal/exec/sandbox"
	"daybook/runner"
)

// process is one worker process as the parent sees it.
type process struct {
	cmd      *exec.Cmd
	ready    readyMessage
	wasm     sentWASM
	ahead    *aheadHeap // the heap that it keeps while it is idle; nil for none; the pool's mu guards it
	stateful bool       // the kind of its tasks
	owner    owner      // zero while it is fresh
	memory   memory
	born     time.Time
	runs     int
	// lastHeap is the size in bytes of the last heap that it announced. It is the
	// estimate for the next one.
	lastHeap int64

	to      *os.File      // its standard input
	out     *bufio.Writer // collects the frames of a task
	writing sync.Mutex
	from    frameReader // its standard output
	fromEnd *os.File

	stderr  stderrHead
	waiting sync.WaitGroup
	dead    chan struct{} // closed when the process was reaped
}

// pipeSize is the capacity of a pipe in bytes, which is enough for a typical heap.
const pipeSize = 1 << 20

// enlargePipe raises the capacity of a pipe to pipeSize. If the kernel refuses, transfers
// only take longer.
func enlargePipe(f *os.File) { _, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, pipeSize) }

// executable returns the path of the running program. It is not the program's name in the
// file system, because that file may have been replaced since.
func executable() string { return "/proc/self/exe" }

// stderrDrainTimeout is how long the parent still reads from and writes to the pipes of a
// dead worker.
const stderrDrainTimeout = 250 * time.Millisecond

// startProcess starts a worker process; handshake MUST follow. It must be called from a
// thread that lives as long as the worker may: the kernel kills the worker when the
// thread that started it ends.
func startProcess(path string, args []string, way startWay) (*process, error) {
	p := &process{born: time.Now(), dead: make(chan struct{})}
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	pipe := func() (*os.File, *os.File, error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, fmt.Errorf("start worker: %w", err)
		}
		return r, w, nil
	}
	inR, inW, err := pipe()
	if err != nil {
		return nil, err
	}
	theirs = append(theirs, inR)
	outR, outW, err := pipe()
	if err != nil {
		inW.Close()
		return nil, err
	}
	theirs = append(theirs, outW)
	errR, errW, err := pipe()
	if err != nil {
		inW.Close()
		outR.Close()
		return nil, err
	}
	theirs = append(theirs, errW)
	for _, f := range []*os.File{inR, outW} {
		enlargePipe(f)
	}

	p.out = bufio.NewWriterSize(inW, pipeBuffer)
	p.to, p.fromEnd, p.from = inW, outR, frameReader{r: bufio.NewReaderSize(outR, pipeBuffer)}
	p.cmd = &exec.Cmd{
		Path:        path,
		Args:        args,
		Env:         []string{},
		Dir:         "/",
		Stdin:       inR,
		Stdout:      outW,
		Stderr:      errW,
		SysProcAttr: processAttributes(way),
	}
	if err := startCommand(p.cmd, way); err != nil {
		inW.Close()
		outR.Close()
		errR.Close()
		return nil, fmt.Errorf("start worker: %w", err)
	}
	p.waiting.Go(func() {
		defer errR.Close()
		_, _ = io.Copy(&p.stderr, errR) // ends with the process, or at the deadline below
	})
	p.waiting.Go(func() {
		_ = p.cmd.Wait() // ProcessState has how it ended
		close(p.dead)
		// A worker that a script took over may have passed its ends of the pipes to
		// another process. Its own output is in the pipes already.
		end := time.Now().Add(stderrDrainTimeout)
		_ = outR.SetReadDeadline(end)
		_ = errR.SetReadDeadline(end)
		_ = inW.SetWriteDeadline(end)
	})
	return p, nil
}

// handshake starts the protocol and waits until the worker is ready for tasks of one kind.
// It sends base, the base heap, to the worker. If base is empty, it returns the base heap
// that the worker created. Of opts it passes on Prelude, and JIT to a stateful worker. It kills the
// worker when ctx is done.
func (p *process) handshake(ctx context.Context, stateful bool, base []byte, opts *Options) (made []byte, err error) {
	stop := context.AfterFunc(ctx, p.kill)
	defer stop()
	p.stateful = stateful
	err = writeBuffered(p.to, func(w io.Writer) error {
		if err := writeMessage(w, frameHello, helloMessage{Magic: helloMagic, Stateful: stateful, BaseSize: len(base), Prelude: opts.Prelude, JIT: opts.JIT && stateful}); err != nil {
			return err
		}
		return writeBody(w, base)
	})
	var t frameType
	var payload []byte
	if err == nil {
		t, payload, err = p.from.next()
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		p.kill()
		<-p.dead
		return nil, fmt.Errorf("start worker: it ended before it was ready: %s", p.exitReason())
	case t != frameReady:
		return nil, fmt.Errorf("start worker: %w: frame %q instead of ready", errProtocol, t)
	}
	if err := decodeMessage(payload, &p.ready); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	// The worker has run no user code, so its report can be trusted. The names of the
	// layers are still checked, because they are recorded.
	for _, l := range p.ready.Layers {
		if !sandbox.Known(l) {
			return nil, fmt.Errorf("start worker: %w: it reported the unknown layer %.40q", errProtocol, l)
		}
	}
	slices.Sort(p.ready.Layers)
	p.ready.Layers = slices.Compact(p.ready.Layers)
	if made, err = readBase(&p.from, p.ready.BaseSize); err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	return made, nil
}

// readBase reads a base heap of size bytes.
func readBase(in *frameReader, size int) ([]byte, error) {
	if size < 0 || size > maxBaseHeap {
		return nil, fmt.Errorf("%w: a base heap of %d bytes", errProtocol, size)
	}
	base := make([]byte, 0, size)
	for len(base) < size {
		t, data, err := in.next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the base heap: %w", err)
		case t != frameData || len(data) == 0 || len(base)+len(data) > size:
			return nil, fmt.Errorf("%w: the base heap is not of %d bytes", errProtocol, size)
		}
		base = append(base, data...)
	}
	return base, nil
}

func (p *process) alive() bool {
	select {
	case <-p.dead:
		return false
	default:
		return true
	}
}

// kill kills the process and the processes in its group. It is safe to call at any time
// and concurrently.
func (p *process) kill() {
	if p.alive() {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL) // the worker leads a process group
	}
	_ = p.cmd.Process.Kill() // fails only if the process is dead
}

// close kills the process, waits until it was reaped and closes its pipes.
func (p *process) close() {
	p.kill()
	p.to.Close()
	p.waiting.Wait()
	p.fromEnd.Close()
}

// heapPlan says where a worker has the heap of a task from, and whether it keeps the heap that the
// task saves.
type heapPlan struct {
	isKept bool // the worker keeps the heap of the task
	keep   bool
}

// send writes a task to the worker. It fails if the process dies.
func (p *process) send(t *runner.Task, plan heapPlan) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	header := taskHeader{
		FileName:     t.FileName,
		CodeSize:     len(t.Code),
		HeapSize:     len(t.Heap),
		Stateful:     t.Stateful,
		HeapLimit:    t.HeapLimitBytes,
		BufferLimit:  t.ArrayBufferLimitBytes,
		Seed:         t.Seed,
		StartMicros:  t.Start.UnixMicro(),
		GlobalsSize:  len(t.Globals),
		SkipWaits:    t.SkipWaits,
		NodeGlobals:  t.NodeGlobals,
		JIT:          t.JIT,
		HideNames:    t.HideNames,
		ListGlobals:  t.ListGlobals,
		SkipGlobals:  t.SkipGlobals,
		ReportTimers: t.OnTimer != nil,
		FilesSize:    len(t.Files),
		HasModules:   t.Modules != nil,
		BundleSize:   len(t.Bundle),
		KeepHeap:     plan.keep,
		FromKept:     plan.isKept,
	}
	heap := t.Heap
	if plan.isKept {
		heap = nil
	}
	var modules [][]byte
	var kept sentWASM
	header.WASM, modules, kept = p.wasm.headers(t.WASMModules)
	var servers []byte
	if len(t.Servers) > 0 {
		var err error
		if servers, err = json.Marshal(t.Servers); err != nil {
			return fmt.Errorf("encode the tools that may be called: %w", err)
		}
		header.ServersSize = len(servers)
	}
	p.out.Reset(p.to)
	err := writeThrough(p.out, func(w io.Writer) error {
		if err := writeMessage(w, frameTask, header); err != nil {
			return err
		}
		if err := writeBody(w, servers, t.Globals, t.Files); err != nil {
			return err
		}
		if err := writeBody(w, modules...); err != nil {
			return err
		}
		return writeBody(w, t.Bundle, t.Code, heap)
	})
	if err == nil {
		p.wasm = kept
	}
	return err
}

// terminate asks the worker to end its run. It does not wait for a worker that does not
// read: while a task or an answer is being written, it sends nothing and returns false.
// After an error the pipe may hold a part of the request.
func (p *process) terminate() (sent bool, err error) {
	if !p.writing.TryLock() {
		return false, nil
	}
	defer p.writing.Unlock()
	// A frame without a payload fits into any pipe that is being read. If the reader is
	// dead, the run gets an error of its own.
	_ = p.to.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	err = writeFrame(p.to, frameTerminate, nil)
	return true, errors.Join(err, p.to.SetWriteDeadline(time.Time{}))
}

// ranOutOfMemory reports whether the process exited for lack of memory, according to the
// fatal error of V8, Go or the C++ library on its standard error.
func (p *process) ranOutOfMemory() bool {
	s := p.stderr.String()
	return strings.Contains(s, "daybook-v8: oom") || strings.Contains(s, "out of memory") || strings.Contains(s, "cannot allocate memory") || strings.Contains(s, "std::bad_alloc")
}

// reportedPeak returns the peak of the V8 heap, in bytes, that the worker wrote to its
// standard error when V8 ended the process. It returns 0 without such a report.
func (p *process) reportedPeak() int64 {
	for line := range strings.Lines(p.stderr.String()) {
		digits, ok := strings.CutPrefix(line, "daybook-peak-heap: ")
		if !ok {
			continue // other lines may repeat text of a script
		}
		peak, err := strconv.ParseInt(strings.TrimSuffix(digits, "\n"), 10, 64)
		if err != nil {
			return 0
		}
		return max(peak, 0)
	}
	return 0
}

// diedOnLongString reports whether V8 ended the process because of a string that is too
// long for an isolate whose heap is saved.
func (p *process) diedOnLongString() bool {
	return strings.Contains(p.stderr.String(), "daybook-v8: string")
}

// diedOfUnreadStacks reports whether V8 ended the process because of errors whose stacks were
// never read. Their frames refer to compiled code. While V8 saves a heap it defers objects
// behind many references, and compiled code that it deferred cannot be referred to again. The
// worker reads most stacks before it saves a heap; see readStacks in the prelude.
// Regular expressions have compiled forms too, but the worker lets no two of them share one.
func (p *process) diedOfUnreadStacks() bool {
	return strings.Contains(p.stderr.String(), "SerializePendingObject(")
}

// sandboxViolation reports whether the system call filter killed the process, and for which
// call. The signal is evidence; the name of the call is what the worker wrote.
func (p *process) sandboxViolation() (call string, ok bool) {
	ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() || ws.Signal() != syscall.SIGSYS {
		return "", false
	}
	return sandbox.Violation(p.stderr.String()), true
}

// exitReason describes in one line how the process exited.
func (p *process) exitReason() string {
	state := p.cmd.ProcessState
	last := p.stderr.String()
	if i := strings.Index(last, "daybook-v8: "); i >= 0 {
		line, _, _ := strings.Cut(last[i+len("daybook-v8: "):], "\n")
		return "V8 gave up: " + strings.ToValidUTF8(line, "\ufffd")
	}
	how := "unknown"
	if state != nil {
		how = state.String()
		if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			how = fmt.Sprintf("killed by %s (%s)", unix.SignalName(ws.Signal()), ws.Signal())
		}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(last), "\n")
	if line = strings.ToValidUTF8(line, "\ufffd"); line != "" {
		if len(line) > 300 {
			line = strings.ToValidUTF8(line[:300], "") + "..."
		}
		return how + ": " + line
	}
	return how
}

// stderrHead keeps the first 16 KiB of the standard error of a worker. The first line has
// the cause, the rest is a stack trace of this program.
type stderrHead struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// tailLimit is the number of bytes that a stderrHead keeps.
const tailLimit = 16 << 10

// Write never fails, so that the worker does not block on a full pipe.
func (t *stderrHead) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := tailLimit - t.buf.Len(); room > 0 {
		t.buf.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

func (t *stderrHead) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
