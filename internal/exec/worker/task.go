package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxCode is the maximum size of Task.Code, in bytes.
const MaxCode = 16 << 20

// MaxGlobals is the maximum size of Task.Globals, in bytes.
const MaxGlobals = 16 << 20

// MaxFileName is the maximum length of Task.FileName, in bytes.
const MaxFileName = 1 << 10

// Task is one script to run with all inputs that determine its outcome.
type Task struct {
	// Tenant owns the script. A worker process serves one tenant only. Required.
	Tenant string
	// Session is the session of the run. It matters only with ReuseSession. A task
	// without one shares its worker with no other task then.
	Session string
	// Code is TypeScript or JavaScript: valid UTF-8 without NUL bytes.
	Code []byte
	// FileName is the name of the code in stack traces. Default: main.ts.
	FileName string
	// Heap is the heap to continue from. Empty starts from a fresh isolate. V8 does not
	// check the heap, so the caller MUST have verified its hash. It must be empty unless
	// Stateful is set.
	Heap []byte
	// Stateful saves the heap at the end of the run. Without it the run is faster and has
	// WebAssembly, and no heap is saved.
	Stateful bool
	// HeapLimitBytes limits V8's heap. 0 selects V8's default. ArrayBufferLimitBytes
	// limits the contents of ArrayBuffers, which are not part of V8's heap. 0 means no
	// limit.
	HeapLimitBytes, ArrayBufferLimitBytes int64
	// Timeout limits the real time of the run from the moment that a worker is assigned
	// to it. Waiting, timers and saving the heap count. Required.
	Timeout time.Duration
	// Seed determines Math.random and crypto. Start is the first time that the script's
	// clock shows.
	Seed  [16]byte
	Start time.Time
	// Servers has the tools that the script may call: names of tools by name of their
	// tool server. Host performs the calls; required with Servers.
	Servers map[string][]string
	Host    Host
	// Globals is a JSON object. The worker defines its members as properties of
	// globalThis before it evaluates Code. Empty defines none.
	Globals []byte
	// HideNames omits names that earlier runs chose from warnings, because a warning is
	// kept when the content of a session is shredded.
	HideNames bool
	// HeapSent, if set, is called when the worker has received the task. Heap is not used
	// after that.
	//
	// ReserveHeap, if set, is called with the size in bytes of the saved heap before it is
	// received. If it returns an error, Run returns that error. Its ctx is done when the
	// run is stopped.
	HeapSent    func()
	ReserveHeap func(ctx context.Context, bytes int64) error
}

func (t *Task) check(maxHeapLimit int64) error {
	var problems []error
	add := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if t.Tenant == "" {
		add("tenant is empty")
	}
	switch {
	case len(t.Code) > MaxCode:
		add("code has %d bytes, at most %d are allowed", len(t.Code), MaxCode)
	case !utf8.Valid(t.Code):
		add("code is not valid UTF-8")
	case bytes.IndexByte(t.Code, 0) >= 0:
		add("code contains a NUL byte")
	}
	if len(t.FileName) > MaxFileName || !utf8.ValidString(t.FileName) || strings.ContainsFunc(t.FileName, unicode.IsControl) {
		add("file name is not at most %d bytes of UTF-8 without control characters", MaxFileName)
	}
	if !t.Stateful && len(t.Heap) > 0 {
		add("a stateless run cannot continue from a heap")
	}
	if t.HeapLimitBytes < 0 || t.HeapLimitBytes > maxHeapLimit {
		add("heap limit is %d bytes, the ceiling is %d", t.HeapLimitBytes, maxHeapLimit)
	}
	if t.ArrayBufferLimitBytes < 0 {
		add("array buffer limit is negative")
	}
	if t.Timeout <= 0 {
		add("timeout is missing")
	}
	problems = append(problems, t.checkServers()...)
	if err := t.checkGlobals(); err != nil {
		problems = append(problems, err)
	}
	if us := t.Start.UnixMicro(); us < earliestLine || us > latestLine {
		add("start time %s is outside the years 0 to 9999", t.Start)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("bad task: %w", errors.Join(problems...))
}

func (t *Task) checkServers() (problems []error) {
	if len(t.Servers) > 0 && t.Host == nil {
		problems = append(problems, errors.New("servers are offered, and nobody carries out the calls"))
	}
	named := func(s string) bool { return s != "" && len(s) <= maxCallName && utf8.ValidString(s) }
	for server, tools := range t.Servers {
		if !named(server) {
			problems = append(problems, fmt.Errorf("a server's name is not 1 to %d bytes of UTF-8", maxCallName))
		}
		if slices.ContainsFunc(tools, func(s string) bool { return !named(s) }) {
			problems = append(problems, fmt.Errorf("a tool's name is not 1 to %d bytes of UTF-8", maxCallName))
		}
	}
	return problems
}

func (t *Task) checkGlobals() error {
	if len(t.Globals) == 0 {
		return nil
	}
	if len(t.Globals) > MaxGlobals {
		return fmt.Errorf("globals have %d bytes, at most %d are allowed", len(t.Globals), MaxGlobals)
	}
	var members map[string]json.RawMessage
	if !utf8.Valid(t.Globals) || json.Unmarshal(t.Globals, &members) != nil || members == nil {
		return errors.New("globals are not the JSON of an object")
	}
	return nil
}

// maxHeap returns the size in bytes of the largest heap that a worker may return for the
// task.
func (t *Task) maxHeap() int64 {
	const (
		slack     = 64 << 20 // the base heap, and memory that V8 granted beyond its limit
		unlimited = 1<<31 - 1
	)
	if !t.Stateful {
		return 0
	}
	if t.HeapLimitBytes == 0 || t.ArrayBufferLimitBytes == 0 {
		return unlimited
	}
	return min(t.HeapLimitBytes+t.ArrayBufferLimitBytes+slack, unlimited)
}

// maxResident returns how much memory the process may use for the task, in bytes. 0 means
// that only the limit of its data segment applies.
func (t *Task) maxResident() int64 {
	const process = 384 << 20 // V8, Go, esbuild, and memory that V8 granted beyond its limit
	if t.HeapLimitBytes == 0 || t.ArrayBufferLimitBytes == 0 {
		return 0
	}
	return process + 2*t.HeapLimitBytes + 2*t.ArrayBufferLimitBytes // twice, because saving a heap copies it
}

// Statuses of an Outcome.
const (
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusTimedOut  = "timed_out"
)

// Reasons of an Outcome that did not complete.
const (
	ReasonException          = "exception"           // uncaught error or unhandled rejection
	ReasonSyntaxError        = "syntax_error"        // refused before it ran
	ReasonOutOfMemory        = "out_of_memory"       // the limit of the heap or of the process
	ReasonWorkerDied         = "worker_died"         // the process exited; Error has the reason
	ReasonNeverSettled       = "never_settled"       // an await that nothing can resume
	ReasonUnserializableHeap = "unserializable_heap" // the script ran, but V8 cannot save its heap
	ReasonProtocol           = "protocol"            // the worker broke protocol and was killed
	ReasonTimeout            = "timeout"
	ReasonSandboxViolation   = "sandbox_violation" // a system call that the filter refuses
)

// Outcome is the outcome of a run. A script that fails has an Outcome and is no error.
type Outcome struct {
	Status string // StatusCompleted, StatusFailed, StatusTimedOut
	// Result is the value of a completed run, nil for undefined. ResultTruncated is set
	// if it was cut at 16 MiB.
	Result          *string
	ResultTruncated bool
	// Error describes the failure. Positions in it are those of Task.Code.
	Error  string
	Reason string
	// Heap is the saved heap of a stateful run that completed, threw or never settled.
	// A run that was stopped, or that did not start because of a syntax error, has none.
	Heap []byte
	// TranspiledSHA256 is the hash of the JavaScript that V8 received, in lowercase hex.
	// It is empty if V8 received none.
	TranspiledSHA256 string
	// CPUTime is the CPU time that the worker reports, or that its process used if there
	// is no report. PeakHeapBytes is the peak that the worker reports, 0 if it was killed
	// before that.
	CPUTime       time.Duration
	PeakHeapBytes int64
	WallTime      time.Duration
	// TimersCancelled is the number of timers of this run and of earlier ones that were
	// cancelled because the run failed.
	TimersCancelled int
	// Pristine reports whether the built-in objects of Task.Heap are those of a fresh
	// isolate. It is nil if there was no heap or it was not compared. It is not verified:
	// a script may have taken over the worker that reports it.
	Pristine *bool
	// Warnings are the warnings about the run. Those about Task.Heap come first: changed
	// built-in objects, accessors and read-only globals, timers and finalizers.
	Warnings []string
}

const (
	outOfMemoryText  = "Out of memory: V8 heap limit exceeded. Try increasing heap_memory_max_mb."
	timedOutText     = "Execution timed out"
	linkedErrorsText = "V8 cannot save a heap in which errors refer to each other, through a dozen links, and whose stacks were never read. " +
		"Read error.stack of each error that you link to another one, or keep its message alone."
	// V8 stores literals, property names and similar strings once (internalizes them). In
	// an isolate that can be saved, such a string has at most V8's regular object size.
	longStringText = "A property name, regular expression, tagged template or error message of more than 128 KiB ended the run: V8 cannot keep one in an isolate whose heap is saved. " +
		"Build such text at run time from shorter pieces, shorten it, or run stateless."
)
