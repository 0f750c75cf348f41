package toolserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// inheritedVariables are the variables of this process's environment that a child gets. Others
// may be secrets, such as tokens.
var inheritedVariables = []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}

// childExitTimeout is the time that a child has to exit after its input is closed.
const childExitTimeout = 2 * time.Second

// child is a server that runs as a child process.
type child struct {
	cmd        *exec.Cmd
	in         io.WriteCloser
	out        *os.File
	exited     chan struct{} // closed once the process is reaped
	once       sync.Once
	router     *answerRouter
	life       context.Context
	log        *slog.Logger
	scrub      scrubber
	strayError atomic.Pointer[error] // why its output ended the connection; nil if it did not
}

// startChild starts the program on a thread that does nothing else and exists until the
// child has exited. The kernel kills a child when the thread that started it exits (see
// childAttributes), so that no child outlives this process.
func startChild(life context.Context, c Config, log *slog.Logger, scrub scrubber, b *answerRouter) (*child, error) {
	cmd := exec.Command(c.Command, c.Args...)
	cmd.Dir = c.Dir
	for _, name := range inheritedVariables {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = childAttributes()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	childLog := &logWriter{log: log, scrub: scrub}
	cmd.Stdout, cmd.Stderr = theirOut, childLog
	cmd.WaitDelay = childExitTimeout
	p := &child{cmd: cmd, in: in, out: out, exited: make(chan struct{}), router: b, life: life, log: log, scrub: scrub}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		theirOut.Close()
		started <- err
		if err != nil {
			return
		}
		_ = cmd.Wait() // only the end matters
		close(p.exited)
		// A process that the child started may still have the pipe open. The pipe is read
		// only for this time.
		_ = out.SetReadDeadline(time.Now().Add(childExitTimeout))
	}()
	if err := <-started; err != nil {
		out.Close()
		return nil, fmt.Errorf("start: %w", startProblem(err))
	}
	return p, nil
}

// startProblem returns an error for a program that does not start. It leaves out the
// path, which may contain a secret.
func startProblem(err error) error {
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return errors.New("the program or its working directory does not exist")
	case errors.Is(err, os.ErrPermission):
		return errors.New("the program may not be executed")
	default:
		return err
	}
}

// Connect returns the connection over the child's pipes.
func (p *child) Connect(ctx context.Context) (sdk.Connection, error) {
	var lastLogged time.Time
	lines := &lineReader{ReadCloser: p.out, reader: bufio.NewReader(p.out), router: p.router, life: p.life}
	lines.onStray = func(line []byte) error {
		shown := p.scrub.scrubLine(string(line[:min(len(line), 2*maxMessage)]))
		if err := lines.stray.add(shown); err != nil {
			p.strayError.Store(&err)
			return err
		}
		p.log.Warn("an MCP server wrote a line to its standard output that is not a message; the line is dropped", "line", shown)
		return nil
	}
	lines.onLong = func() {
		if time.Since(lastLogged) > burstTime {
			lastLogged = time.Now()
			p.log.Warn("an MCP server sent a line longer than 16 MiB, which is left out")
		}
	}
	return trackedTransport{&sdk.IOTransport{Reader: lines, Writer: p, MaxLineLength: maxMessageBytes}, p.router}.Connect(ctx)
}

// problem returns why the output of the child ended the connection, or nil.
func (p *child) problem() error {
	if p == nil {
		return nil
	}
	if err := p.strayError.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *child) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes the input of the child, and kills the child if it does not exit in time.
func (p *child) Close() error {
	p.once.Do(func() {
		_ = p.in.Close()
		t := time.NewTimer(childExitTimeout)
		defer t.Stop()
		select {
		case <-p.exited:
		case <-t.C:
			killChild(p.cmd)
			<-p.exited
		}
		_ = p.out.Close()
	})
	return nil
}

// logWriter logs the standard error of a child within limits: a line has at most
// maxMessage bytes, and a burst at most burstLines lines.
type logWriter struct {
	log   *slog.Logger
	scrub scrubber

	line    []byte
	since   time.Time
	lines   int
	dropped int
}

const (
	burstLines = 100
	burstTime  = 10 * time.Second
)

// Write never fails and never blocks the child.
func (w *logWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		advance, token, _ := bufio.ScanLines(b, false)
		if advance == 0 {
			token = b
		}
		if room := 2*maxMessage - len(w.line); room > 0 {
			w.line = append(w.line, token[:min(room, len(token))]...)
		}
		if advance == 0 {
			break
		}
		w.flush()
		b = b[advance:]
	}
	return n, nil
}

func (w *logWriter) flush() {
	text := w.scrub.scrubLine(string(w.line))
	w.line = w.line[:0]
	if time.Since(w.since) > burstTime {
		if w.dropped > 0 {
			w.log.Warn("dropped log lines of an MCP server", "lines", w.dropped)
		}
		w.since, w.lines, w.dropped = time.Now(), 0, 0
	}
	if w.lines++; w.lines > burstLines {
		w.dropped++
		return
	}
	w.log.Info("log line of an MCP server", "text", text)
}

// childAttributes lets the kernel kill the child with this process. The child has its
// own process group, so that it gets no interrupt from this process's terminal.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killChild(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its group, with the processes that it started
	_ = cmd.Process.Kill()
}
