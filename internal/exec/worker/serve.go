package worker

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"daybook/events"
	"daybook/internal/exec/v8"
	"daybook/internal/globals"
)

// Exit codes of a worker that exits without a signal. V8's fatal handlers use 86.
const (
	exitClean    = 0  // the parent closed the pipe
	exitProtocol = 87 // the parent did not speak the protocol
)

// server is the worker's end of the worker protocol.
type server struct {
	in       frameReader
	out      io.Writer
	stateful bool // the kind of all its tasks

	// Only the goroutine that runs jobs uses these.
	prewarmed prewarmedIsolate
	wasm      keptWASM

	// isolateMu is held while a task has an isolate.
	isolateMu sync.Mutex

	mu      sync.Mutex // guards the fields below
	current *v8.Isolate
	stop    bool // a terminate frame arrived since the last task
	link    *hostLink
	// waiting gets the answer to a request for packages. terminate closes it.
	waiting chan modulesAnswer

	writing sync.Mutex // held while frames are written
}

// job is one received task with its program.
type job struct {
	taskHeader
	servers, globals, files, bundle, code []byte
	heap                                  *heapBody
	modules                               []*heapBody // those of the header that are not kept

	cpuAtStart time.Duration // the CPU time of the process when the job started
	program    *program
	linked     *linked
	refused    *sourceError // why the imports cannot be resolved
	encoded    []byte       // the bundle that the task makes
}

// serve runs tasks until the parent closes the pipe, and returns the exit code. It calls
// confine when V8 and the parsers are warm. confine locks the process down and returns the
// names of the layers that are in force, and why others are missing.
func serve(in io.Reader, out io.Writer, confine func(stateful bool) (layers []string, problem error)) int {
	runtime.LockOSThread() // the isolates' thread, the first of the process
	// A worker does one thing at a time. With more processors, the Go runtime would wake
	// up every few microseconds to check whether it can use them.
	runtime.GOMAXPROCS(1)
	// A worker keeps little memory between runs, and a run leaves much garbage. With the
	// default setting, Go would collect garbage in most runs.
	debug.SetGCPercent(800)
	s := &server{in: frameReader{r: bufio.NewReaderSize(in, pipeBuffer)}, out: out}
	var hello helloMessage
	if t, payload, err := s.in.next(); err != nil || t != frameHello || decodeMessage(payload, &hello) != nil || hello.Magic != helloMagic {
		fmt.Fprintln(os.Stderr, "daybook-worker: only a Daybook server starts this process; do not start it by hand")
		return exitProtocol
	}
	s.stateful = hello.Stateful
	if hello.Prelude != "" {
		v8.AddToPrelude(hello.Prelude)
	}
	base, err := readBase(&s.in, hello.BaseSize)
	if err == nil {
		err = s.prepare(base, confine)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "daybook-worker:", err)
		return exitProtocol
	}
	jobs := make(chan *job)
	go s.read(jobs)
	for {
		var j *job
		select {
		case j = <-jobs:
		default:
			// No job waits: prepare for a run like the last one.
			s.prewarmed.prepare()
			j = <-jobs
		}
		switch err := s.run(j); {
		case errors.Is(err, errProtocol):
			fmt.Fprintln(os.Stderr, "daybook-worker:", err)
			return exitProtocol
		case err != nil:
			// The pipe is closed: the parent has ended.
			return exitClean
		}
	}
}

// prepare warms up V8 and the parsers, locks the process down and reports to the parent. At
// the lock-down, V8 and the parsers have done all work that they do once in a process, and no
// user code was received. If base is empty, prepare creates a base heap and sends it.
func (s *server) prepare(base []byte, confine func(bool) ([]string, error)) error {
	made, err := v8.Warm(!s.stateful, base)
	if err != nil {
		return err
	}
	if len(base) > 0 {
		made = nil // the parent has it
	}
	if _, err := typeScript([]byte("let warm: number = 1"), "", s.stateful); err != nil {
		return err
	}
	ready := readyMessage{Engine: v8.CurrentEngine()}
	var problem error
	if ready.Layers, problem = confine(s.stateful); problem != nil {
		ready.Problem = problem.Error()
	}
	ready.BaseSize = len(made)
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeBuffered(s.out, func(w io.Writer) error {
		if err := writeMessage(w, frameReady, ready); err != nil {
			return err
		}
		return writeBody(w, made)
	})
}

// read receives frames until the process ends. It runs in a goroutine of its own, because a
// terminate frame must arrive during a run, and a closed pipe must end the process at any
// time.
func (s *server) read(jobs chan<- *job) {
	for {
		t, payload, err := s.in.next()
		if err != nil {
			os.Exit(exitClean)
		}
		switch t {
		case frameTerminate:
			s.terminate()
		case frameAnswer:
			if err := s.readAnswer(payload); err != nil {
				fmt.Fprintln(os.Stderr, "daybook-worker:", err)
				os.Exit(exitProtocol)
			}
		case frameModules:
			if err := s.readModules(payload); err != nil {
				fmt.Fprintln(os.Stderr, "daybook-worker:", err)
				os.Exit(exitProtocol)
			}
		case frameTask:
			j, err := s.readTask(payload)
			if err != nil {
				fmt.Fprintln(os.Stderr, "daybook-worker:", err)
				os.Exit(exitProtocol)
			}
			go s.begin(j, jobs)
		default:
			fmt.Fprintf(os.Stderr, "daybook-worker: unexpected frame %q\n", t)
			os.Exit(exitProtocol)
		}
	}
}

func (s *server) readTask(payload []byte) (*job, error) {
	j, err := readJob(&s.in, payload, func() {
		// The isolate of the previous task may hold as much memory as this heap needs.
		s.isolateMu.Lock()
		defer s.isolateMu.Unlock()
	})
	if err != nil {
		return nil, err
	}
	if j.Stateful != s.stateful {
		return nil, errors.New("a task for another kind of worker")
	}
	s.mu.Lock()
	s.stop = false // an earlier terminate frame was for the previous task
	s.mu.Unlock()
	return j, nil
}

// readJob decodes the header of a task and reads its bodies in the order in which process.send
// writes them. It calls ready before it allocates memory for a large heap.
func readJob(in *frameReader, header []byte, ready func()) (_ *job, err error) {
	var j job
	if err := decodeMessage(header, &j.taskHeader); err != nil {
		return nil, err
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		to   *[]byte
		size int
	}{{&j.servers, j.ServersSize}, {&j.globals, j.GlobalsSize}, {&j.files, j.FilesSize}, {nil, 0}, {&j.bundle, j.BundleSize}, {&j.code, j.CodeSize}} {
		if part.to == nil {
			if j.modules, err = readWASM(in, j.WASM); err != nil {
				return nil, err
			}
			continue
		}
		// The announced size may be false.
		if *part.to, err = readPart(in, make([]byte, 0, min(part.size, firstPiece)), part.size); err != nil {
			return nil, err
		}
	}
	if j.HeapSize >= mappedHeap {
		ready()
	}
	if j.heap, err = newHeapBody(j.HeapSize); err != nil {
		return nil, err
	}
	if j.heap.bytes, err = readPart(in, j.heap.bytes, j.HeapSize); err != nil {
		j.heap.release()
		return nil, err
	}
	return &j, nil
}

// firstPiece limits the memory that is allocated for the announced size of a body before any
// of it was received, in bytes.
const firstPiece = 32 << 20

// readPart appends a body of size bytes to the empty slice to.
func readPart(in *frameReader, to []byte, size int) ([]byte, error) {
	for len(to) < size {
		t, data, err := in.next()
		if err != nil || t != frameData || len(data) == 0 || len(to)+len(data) > size {
			return nil, fmt.Errorf("%w: the body of a task does not match its header", errProtocol)
		}
		to = append(to, data...)
	}
	return to, nil
}

// begin prepares the program of a job and sends the job to jobs. It does not run on the
// thread of the isolates, because each step of the transpiler's goroutines would wait for a
// change of threads there.
func (s *server) begin(j *job, jobs chan<- *job) {
	j.cpuAtStart = cpuTime()
	if err := s.frame(frameAccepted, nil); err != nil {
		os.Exit(exitClean) // the pipe is closed: the parent has ended
	}
	switch err := s.prepareJob(j); {
	case err == nil || errors.Is(err, errStopped): // the isolate notices the stop
	case errors.As(err, &j.refused):
	default:
		os.Exit(exitClean) // the pipe is closed
	}
	jobs <- j
}

// largeFiles is the size of the files of a run, in bytes, above which Go collects garbage more
// often while it converts them.
const largeFiles = 512 << 10

// prepareJob makes the bundle of a job, or the program and what it imports.
func (s *server) prepareJob(j *job) error {
	if j.FilesSize > largeFiles || j.BundleSize > 0 {
		// The garbage of this process counts as memory of the run.
		before := debug.SetGCPercent(50)
		defer func() {
			debug.SetGCPercent(before)
			debug.FreeOSMemory()
		}()
	}
	j.linked = &linked{code: j.code}
	if j.BundleSize > 0 {
		var err error
		if j.encoded, err = bundlePackages(j.bundle); err != nil {
			return &sourceError{err.Error()}
		}
		j.bundle = nil
		return nil
	}
	found, err := s.linkImports(j)
	if err == nil {
		j.linked = found
	}
	j.program = javaScript(j.linked.code, j.FileName, j.Stateful)
	return err
}

func (s *server) terminate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = true
	if s.link != nil {
		s.link.halt()
	}
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
	if s.current != nil {
		s.current.Terminate()
	}
}

func (s *server) setCurrent(i *v8.Isolate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = i
	if i != nil && s.stop {
		i.Terminate()
	}
}

func (s *server) message(t frameType, v any) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeMessage(s.out, t, v)
}

func (s *server) frame(t frameType, payload []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeFrame(s.out, t, payload)
}

// run runs one job and reports its end. It returns an error if the pipe is closed, and
// errProtocol if the job cannot be understood.
func (s *server) run(j *job) error {
	end, p := endHeader{}, j.program
	s.isolateMu.Lock()
	defer s.isolateMu.Unlock()
	modules, err := s.wasm.replace(j.WASM, j.modules)
	if err != nil {
		return err
	}
	if j.refused != nil || j.BundleSize > 0 {
		j.heap.release()
		return s.endWithoutScript(j)
	}

	sink := newLineSink(func(b []byte) error { return s.frame(frameLines, b) })
	sink.writeArtifact = s.artifact
	link := s.newLink(sink)
	defer s.dropLink()
	var timers v8.Timers
	var reporter *timerReporter
	if j.ReportTimers {
		reporter = &timerReporter{server: s, sink: sink}
		timers = reporter
	}
	isolate, err := s.prewarmed.take(v8.Config{
		Heap:        j.heap.bytes,
		Plain:       !j.Stateful,
		HeapLimit:   j.HeapLimit,
		BufferLimit: j.BufferLimit,
		Seed:        j.Seed,
		Start:       time.UnixMicro(j.StartMicros),
		Output:      sink,
		Servers:     j.servers,
		Host:        link,
		Globals:     j.globals,
		SkipWaits:   j.SkipWaits,
		NodeGlobals: j.NodeGlobals,
		WASMModules: modules,
		Timers:      timers,
	})
	j.heap.release() // the isolate has a copy, and saving needs the memory
	if err != nil {
		_ = sink.close() // nothing was written
		end.End = endInternal
		return s.end(j, end, "Could not start the isolate: "+err.Error(), nil)
	}
	// The isolate is disposed of after the end was reported.
	defer isolate.Dispose()
	s.setCurrent(isolate)
	if j.ListGlobals {
		return s.listGlobals(j, sink, isolate)
	}
	if j.HeapSize > 0 {
		// An error means that the run was stopped; isolate.Run then returns immediately.
		if carried, err := isolate.Inspect(); err == nil {
			if err := s.message(frameCarried, carried); err != nil {
				return err
			}
		}
	}
	r, err := isolate.Run(p.script(j))
	if err == nil && r.Status == v8.SyntaxError {
		// It may be TypeScript.
		typed, refused := typeScript(j.linked.code, j.FileName, j.Stateful)
		if refused != nil {
			s.setCurrent(nil)
			_ = sink.close() // nothing was written
			return s.end(j, endHeader{End: endSyntax}, refused.Error(), nil)
		}
		if typed != nil {
			p = typed
			r, err = isolate.Run(p.script(j))
		}
	}
	s.setCurrent(nil)
	sum := sha256.Sum256(p.code)
	end.TranspiledSHA256 = hex.EncodeToString(sum[:])
	if closed := sink.close(); closed != nil {
		return closed
	}
	if reporter != nil {
		end.TimersFired, end.ClockMicros = reporter.fired, clockMicros(r.Clock)
	}
	if err != nil {
		end.End = endInternal
		return s.end(j, end, err.Error(), nil)
	}

	end.PeakHeap, end.Truncated = r.PeakHeap, r.Truncated
	if r.ReadCollected {
		end.Nondeterministic = append(end.Nondeterministic, events.ReadCollectedWeakRef)
	}
	if r.Finalized {
		end.Nondeterministic = append(end.Nondeterministic, events.RanFinalizer)
	}
	if len(r.GlobalsRefused) > 0 {
		end.Warnings = append(end.Warnings, refusedText(j.describeValues(r.GlobalsRefused), r.GlobalChange))
	}
	if len(r.GlobalsHidden) > 0 {
		end.Warnings = append(end.Warnings, hiddenText(j.describeValues(r.GlobalsHidden)))
	}
	end.End = endOf(r.Status)
	text := ""
	if r.Text != nil {
		text, end.HasText = *r.Text, true
		if r.Status != v8.Completed {
			text = withHint(p.describe(text, r), j.code)
		}
		if text == "" && r.Status != v8.Completed { // the script set the stack of the error to ""
			text = "Uncaught error without a description"
		}
	}
	var heap []byte
	if j.Stateful && hasHeap(end.End) {
		heap, err = isolate.Snapshot()
		switch {
		case err != nil && end.End == endCompleted:
			end.End, end.HasText, end.Truncated = endUnserializable, true, false
			text = upperFirst(err.Error())
		case err != nil:
			end.Warnings = append(end.Warnings, "heap not saved: "+err.Error())
		default:
			end.TimersCancelled = r.TimersCancelled
		}
	}
	if len(heap) > 0 && (r.AboveLimit || r.BeyondLimit && len(heap) > j.HeapSize+maxFullGrowth) {
		heap, end.TimersCancelled = nil, 0
		if end.End == endCompleted {
			end.End, end.HasText, end.Truncated = endOutOfMemory, false, false
			text = ""
		} else {
			end.Warnings = append(end.Warnings, "heap not saved: it reached heap_memory_max_mb")
		}
	}
	return s.end(j, end, text, heap)
}

// endWithoutScript ends a job whose imports cannot be resolved, or that makes a bundle.
func (s *server) endWithoutScript(j *job) error {
	sum := sha256.Sum256(nil)
	end := endHeader{End: endSyntax, TranspiledSHA256: hex.EncodeToString(sum[:])}
	if j.refused != nil {
		return s.end(j, end, j.refused.text, nil)
	}
	end.End = endCompleted
	return s.end(j, end, string(j.encoded), nil)
}

// listGlobals sends a list of the globals of the isolate, in which no script has run.
func (s *server) listGlobals(j *job, sink *lineSink, isolate *v8.Isolate) error {
	all, err := isolate.Globals(j.SkipGlobals, globals.MaxListed)
	s.setCurrent(nil)
	_ = sink.close() // nothing was written
	sum := sha256.Sum256(nil)
	end := endHeader{End: endCompleted, TranspiledSHA256: hex.EncodeToString(sum[:])}
	var text []byte
	if err == nil {
		text, err = json.Marshal(all)
	}
	switch {
	case errors.Is(err, v8.ErrHeapLimit):
		end.End = endOutOfMemory
	case errors.Is(err, v8.ErrStopped):
		end.End = endTerminated
	case err != nil:
		end.End, text = endInternal, []byte(err.Error())
	}
	if end.End == endOutOfMemory || end.End == endTerminated {
		text = nil
	}
	return s.end(j, end, string(text), nil)
}

// maxFullGrowth limits the growth of the heap in a run that used memory beyond its heap limit,
// in bytes. A larger heap is not saved. A small script changes the size of a heap by less.
const maxFullGrowth = 4 << 10

// describeValues names values given to a run in a warning.
func (j *job) describeValues(names []string) string {
	if j.HideNames {
		return counted(len(names), "value") + " given to this run"
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
		if len(name) > maxShownName {
			quoted[i] = strconv.Quote(strings.ToValidUTF8(name[:maxShownName], "")) + "…"
		}
	}
	return "the values given to this run as " + joinNames(quoted, len(names))
}

// maxShownName is the length of the part of a longer name that a warning shows, in bytes.
const maxShownName = 60

// refusedText returns the warning about values that the script does not see. change is what an
// earlier run did to the global object, or empty.
func refusedText(values, change string) string {
	if change == "" {
		return fmt.Sprintf("globalThis does not accept %s: an earlier run made properties of these names read-only; give the values other names, or run without the heap", values)
	}
	return fmt.Sprintf("globalThis does not accept %s: an earlier run %s; run without the heap to give them to the script", values, change)
}

// hiddenText returns the warning about values that the script sees only as properties of
// globalThis.
func hiddenText(values string) string {
	return fmt.Sprintf("the script does not see %s: an earlier run declared these names with let, const or class, and the script sees what it declared; read globalThis.NAME, give the values other names, or run without the heap", values)
}

// hasHeap reports whether a run with this end has a heap to save. A run that did not start or
// was stopped has none.
func hasHeap(end string) bool {
	return end == endCompleted || end == endException || end == endNeverSettled
}

func endOf(status v8.Status) string {
	switch status {
	case v8.Completed:
		return endCompleted
	case v8.Exception:
		return endException
	case v8.SyntaxError:
		return endSyntax
	case v8.NeverSettled:
		return endNeverSettled
	case v8.OutOfMemory:
		return endOutOfMemory
	default:
		return endTerminated
	}
}

// describe adds the position in the caller's source to a syntax error.
func (p *program) describe(text string, r v8.Result) string {
	if r.Status != v8.SyntaxError || r.Line == 0 || strings.Contains(text, "\n    at ") {
		return text
	}
	line, column := r.Line, r.Column
	if m := p.consumer(); m != nil {
		if l, c, ok := p.position(m, line, column); ok {
			line, column = l, c
		}
	}
	return fmt.Sprintf("%s\n    at %s:%d:%d", text, p.file, line, column)
}

// end reports the end of a job with the CPU time that it used.
func (s *server) end(j *job, end endHeader, text string, heap []byte) error {
	end.CPUMicros = (cpuTime() - j.cpuAtStart).Microseconds()
	if text != "" {
		end.HasText = true
	}
	end.TextSize, end.HeapSize = int64(len(text)), int64(len(heap))
	s.writing.Lock()
	defer s.writing.Unlock()
	return writeBuffered(s.out, func(w io.Writer) error {
		if err := writeMessage(w, frameEnd, end); err != nil {
			return err
		}
		return writeBody(w, []byte(text), heap)
	})
}

func upperFirst(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}

// cpuTime returns the CPU time of this process, including the threads that collect garbage.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// mappedHeap is the size in bytes from which a worker keeps the heap of a task outside the
// memory of Go. In the memory of Go, the heaps of earlier tasks, and the copies of a slice
// that grows, would remain until this garbage is several times as large as the memory in use.
const mappedHeap = 4 << 20

// heapBody is the memory for the heap of one task.
type heapBody struct {
	bytes  []byte
	mapped []byte // the whole mapping; nil if bytes is in Go's memory
}

// newHeapBody returns memory for a heap of size bytes: bytes is empty and has this
// capacity. A part that is not written to takes no memory. The caller MUST call release.
func newHeapBody(size int) (*heapBody, error) {
	if size < mappedHeap {
		return &heapBody{bytes: make([]byte, 0, size)}, nil
	}
	m, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("get memory for a heap of %d bytes: %w", size, err)
	}
	return &heapBody{bytes: m[:0], mapped: m}, nil
}

// release frees the memory. It may be called more than once.
func (b *heapBody) release() {
	if b.mapped != nil {
		_ = unix.Munmap(b.mapped) // fails only for a range that is not mapped
	}
	b.bytes, b.mapped = nil, nil
}
