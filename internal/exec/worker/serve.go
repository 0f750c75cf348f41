package worker

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"daybook/internal/exec/v8"
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
	// asked is signalled when order was set.
	asked chan struct{}

	mu      sync.Mutex // guards the fields below
	order   frameType  // the last frameAhead or frameDrop that was not followed; 0 for none
	current *v8.Isolate
	stop    bool // a terminate frame arrived since the last task
	link    *hostLink
	// waiting gets the answer to a request for packages. terminate closes it.
	waiting chan modulesAnswer

	writing sync.Mutex // held while frames are written
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
	s := &server{in: frameReader{r: bufio.NewReaderSize(in, pipeBuffer)}, out: out, asked: make(chan struct{}, 1)}
	var hello helloMessage
	if t, payload, err := s.in.next(); err != nil || t != frameHello || decodeMessage(payload, &hello) != nil || hello.Magic != helloMagic {
		fmt.Fprintln(os.Stderr, "daybook-worker: only a Daybook server starts this process; do not start it by hand")
		return exitProtocol
	}
	s.stateful = hello.Stateful
	if hello.Prelude != "" {
		v8.AddToPrelude(hello.Prelude)
	}
	if hello.JIT {
		v8.AllowJIT()
	}
	base, err := readBase(&s.in, hello.BaseSize)
	if err == nil {
		err = s.prepare(base, hello.JIT, confine)
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
			j = s.nextJob(jobs)
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
// user code was received. If base is empty, prepare creates a base heap and sends it; if jit is set
// too, it then checks that V8 can optimize stateful runs, in the locked process.
func (s *server) prepare(base []byte, jit bool, confine func(bool) ([]string, error)) error {
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
	if jit && len(made) > 0 {
		if err := v8.CheckJIT(); err != nil {
			return err
		}
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
		case frameAhead, frameDrop:
			s.setOrder(t)
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
