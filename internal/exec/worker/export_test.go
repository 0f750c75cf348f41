package worker

import (
	"bytes"
	"context"
	"os"
	"slices"
	"time"

	"daybook/events"
	"daybook/internal/exec/sandbox"
	"daybook/runner"
)

// Helpers for tests that need internals of the package.

// UseProgram makes the pool start another program, or this one with other arguments.
func (p *Pool) UseProgram(path string, args ...string) { p.path, p.args = path, args }

// IdleWorkers returns the process ids of the idle workers and their tenants.
func (p *Pool) IdleWorkers() map[int]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	pids := map[int]string{}
	for _, w := range p.idle {
		pids[w.cmd.Process.Pid] = w.owner.tenant
	}
	return pids
}

// MakeBaseHeap returns the base heap that workers of a pool receive.
func MakeBaseHeap(ctx context.Context, stateful bool) ([]byte, error) {
	p := New(Options{Idle: -1})
	defer p.Close()
	_, err := p.Layers(ctx, stateful)
	return p.bases[stateful].heap, err
}

// BaseHeaps returns how many idle workers created a base heap and how many received one.
func (p *Pool) BaseHeaps() (made, received int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		if w.ready.BaseSize > 0 {
			made++
		} else {
			received++
		}
	}
	return made, received
}

// NotePID returns a callback for Run that records the process that the lines come from. The pool
// must run one task only.
func (p *Pool) NotePID(pid *int) func(context.Context, []events.Line) error {
	return func(context.Context, []events.Line) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for w := range p.running {
			*pid = w.cmd.Process.Pid
		}
		return nil
	}
}

// TimeStart starts a worker, stops it and returns how long it took to be ready.
func (p *Pool) TimeStart(ctx context.Context, stateful bool) (time.Duration, error) {
	began := time.Now()
	w, err := p.start(ctx, stateful)
	took := time.Since(began)
	if err == nil {
		w.close()
	}
	return took, err
}

// NewLayers starts a worker, stops it and returns its layers.
func (p *Pool) NewLayers(ctx context.Context) ([]string, error) {
	w, err := p.start(ctx, true)
	if err != nil {
		return nil, err
	}
	defer w.close()
	return w.ready.Layers, nil
}

// LevelNumber returns the number of a level in frames.
func LevelNumber(l events.Level) uint8 { return uint8(slices.Index(levels[:], l)) }

// KeepIdle sets how many workers wait for tasks.
func (p *Pool) KeepIdle(n int) { p.opts.Idle = n }

// A process of this name serves as a worker that has no layers and claims all of them. It starts in
// init, as a worker does, before the packages of the tests are initialized.
var _ = func() bool {
	if os.Args[0] == "bare-worker" {
		os.Exit(serve(os.Stdin, os.Stdout, func(stateful bool) ([]string, error) { return sandbox.Required(stateful), nil }))
	}
	return false
}()

// StartByFork makes the pool start workers with a fork.
func (p *Pool) StartByFork() { p.ways.first = forked }

// Forks reports whether the last workers were started with a fork. The pool must be closed.
func (p *Pool) Forks() bool { return p.ways.first == forked }

// ShareNamespaces makes the pool start workers in the namespaces of the parent.
func (p *Pool) ShareNamespaces() { p.ways.first = inOurs }

// KillIdle kills every idle worker. The pool does not notice it.
func (p *Pool) KillIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		_ = w.cmd.Process.Kill()
	}
}

type (
	FrameReader  = frameReader
	FrameChecker = frameChecker
)

const (
	MaxPayload   = maxPayload
	MaxArguments = maxArguments
	MaxCode      = maxCode
	MaxFileName  = maxFileName
	MaxGlobals   = maxGlobals
	MaxLineText  = maxLineText
)

var (
	ErrClosed      = errClosed
	ErrProtocol    = errProtocol
	WriteFrame     = writeFrame
	WriteBody      = writeBody
	ParseLines     = parseLines
	AppendLine     = appendLine
	NewLineSink    = newLineSink
	IsWorker       = isWorkerProcess
	WorkerArgs     = workerArgs
	TypeScript     = typeScript
	EarliestLine   = earliestLine
	LatestLine     = latestLine
	HelloMagic     = helloMagic
	OutOfMemory    = outOfMemoryText
	TimedOutText   = timedOutText
	DecodeMessage  = decodeMessage
	Confine        = confine
	ProcessCPUTime = processCPUTime
)

// ReadTask reads a task from its header and the frames after it, as a worker does, and returns the
// sizes of its parts.
func ReadTask(header, frames []byte) (servers, globals, code, heap int, err error) {
	j, err := readJob(&frameReader{r: bytes.NewReader(frames)}, header, func() {})
	if err != nil {
		return 0, 0, 0, 0, err
	}
	defer j.heap.release()
	return len(j.servers), len(j.globals), len(j.code), len(j.heap.bytes), nil
}

func NewFrameChecker(maxHeap int64) *FrameChecker { return &frameChecker{maxHeap: maxHeap} }

// NewFrameCheckerWithHeap returns the checker of a task with a heap.
func NewFrameCheckerWithHeap(maxHeap int64) *FrameChecker {
	return &frameChecker{maxHeap: maxHeap, hasInputHeap: true}
}

// NewCallingFrameChecker returns the checker of a task that may call tool t of server s.
func NewCallingFrameChecker(maxHeap int64) *FrameChecker {
	return &frameChecker{maxHeap: maxHeap, calls: calls{servers: map[string][]string{"s": {"t"}}}}
}

// Reply lets the host answer a call, or report a due timer for call 0.
func (c *frameChecker) Reply(number int) error {
	return c.calls.takeAnswer(runner.HostAnswer{Number: number, At: time.Unix(0, 0)})
}

// Called returns the number of the call that the last frame completed, 0 for none.
func (c *frameChecker) Called() (number, size int) {
	if c.call == nil {
		return 0, 0
	}
	return c.call.Number, len(c.call.arguments)
}

func (c *frameChecker) Take(t byte, payload []byte) ([]events.Line, error) {
	return c.take(frameType(t), payload)
}
func (c *frameChecker) Complete() bool          { return c.isComplete }
func (c *frameChecker) Outcome() runner.Outcome { return c.outcome() }
func (c *frameChecker) Held() int               { return cap(c.heap) + cap(c.text) }

func (f *frameReader) Next() (byte, []byte, error) {
	t, payload, err := f.next()
	return byte(t), payload, err
}

func (p *program) Source() string {
	return string(p.script(&job{code: p.code, linked: &linked{}}).Source)
}
func (p *program) Code() string                                       { return string(p.code) }
func (s *lineSink) Close() error                                      { return s.close() }
func (f *frameReader) Reset(r interface{ Read([]byte) (int, error) }) { f.r = r }

// RunningWorkers returns the process ids of the running workers.
func (p *Pool) RunningWorkers() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []int
	for w := range p.running {
		pids = append(pids, w.cmd.Process.Pid)
	}
	return pids
}

// RunningCPUTime returns the CPU time that the running workers have used.
func (p *Pool) RunningCPUTime() (total time.Duration) {
	for _, pid := range p.RunningWorkers() {
		used, err := processCPUTime(pid)
		if err != nil {
			continue // the process has ended
		}
		total += used
	}
	return total
}

// ReportedPeak returns the peak heap, in bytes, that a worker with this standard error reported.
func ReportedPeak(stderr string) int64 {
	var p process
	_, _ = p.stderr.Write([]byte(stderr)) // never fails
	return p.reportedPeak()
}

// AheadHeaps returns how many idle workers keep a heap for a next run.
func (p *Pool) AheadHeaps() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		if w.ahead != nil {
			n++
		}
	}
	return n
}

// AheadWorker returns the process id of the idle worker that keeps a heap, 0 for none.
func (p *Pool) AheadWorker() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.idle {
		if w.ahead != nil {
			return w.cmd.Process.Pid
		}
	}
	return 0
}

// WouldContinue reports whether an idle worker keeps the heap of the task.
func (p *Pool) WouldContinue(t runner.Task) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.idle, func(w *process) bool {
		return w.ahead != nil && w.owner == p.opts.owner(&t) && w.ahead.isFor(&t)
	})
}

// ExpireAhead makes the heaps that idle workers keep expire after d.
func (p *Pool) ExpireAhead(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.aheadAge = d
}
