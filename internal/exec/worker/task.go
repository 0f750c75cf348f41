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

// MaxCode is the most source one task may have, in bytes.
const MaxCode = 16 << 20

// MaxGlobals is the most JSON that Task.Globals may have, in bytes.
const MaxGlobals = 16 << 20

// MaxFileName is the longest name a task's code may have, in bytes.
const MaxFileName = 1 << 10

// Task is one script to run, and everything that decides what it does.
type Task struct {
	// Tenant owns the script. A worker process never serves two.
	Tenant string
	// Session narrows that down where workers are reused within a session only;
	// empty is a session of its own.
	Session string
	// Code is TypeScript or JavaScript: valid UTF-8, no NUL byte.
	Code []byte
	// FileName is how stack traces call the code; "" is main.ts.
	FileName string
	// Heap is the heap to continue from; empty starts fresh. The caller has
	// verified its hash: V8 trusts it blindly. Must be empty unless Stateful.
	Heap []byte
	// Stateful asks for a heap back. Without it the run is faster, has
	// WebAssembly, and leaves nothing.
	Stateful bool
	// HeapLimitBytes bounds V8's heap, ArrayBufferLimitBytes the contents of
	// ArrayBuffers, which it does not include. Zero leaves V8's default and no
	// limit of its own.
	HeapLimitBytes, ArrayBufferLimitBytes int64
	// Timeout bounds the run in real time, from the moment a worker has it: awaiting, timers and saving
	// the heap included. Required.
	Timeout time.Duration
	// Seed decides Math.random and crypto, Start what the clock says at first.
	Seed  [16]byte
	Start time.Time
	// Servers is what the script may call: tool names by server name. Host carries
	// the calls out; required with Servers.
	Servers map[string][]string
	Host    Host
	// Globals is the JSON of an object: the worker defines its members as properties
	// of globalThis before it evaluates Code. Empty defines none.
	Globals []byte
	// HideNames leaves names that earlier runs chose out of warnings, because a warning
	// stays when the content of a session is erased.
	HideNames bool
	// HeapSent, if set, is called once the worker has received the task: Heap is not
	// used any more. ReserveHeap, if set, is called before a heap is received, with its
	// size in bytes; its error ends the run as the service's failure. ctx ends with the
	// time of the run.
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

// maxHeap is the largest heap a worker may return for the task.
func (t *Task) maxHeap() int64 {
	const (
		slack     = 64 << 20 // the base heap, and room V8 granted past its limit
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

// maxResident is the most memory the process may use for the task, in bytes; 0
// is what its data segment may have.
func (t *Task) maxResident() int64 {
	const process = 384 << 20 // V8, Go, esbuild, and room V8 granted past its limit
	if t.HeapLimitBytes == 0 || t.ArrayBufferLimitBytes == 0 {
		return 0
	}
	return process + 2*t.HeapLimitBytes + 2*t.ArrayBufferLimitBytes // twice: once more while a heap is saved
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
	ReasonOutOfMemory        = "out_of_memory"       // the heap limit, or the process's
	ReasonWorkerDied         = "worker_died"         // the process ended; Error says how
	ReasonNeverSettled       = "never_settled"       // an await that nothing can resume
	ReasonUnserializableHeap = "unserializable_heap" // ran, but cannot be saved
	ReasonProtocol           = "protocol"            // the worker broke protocol and was killed
	ReasonTimeout            = "timeout"
	ReasonSandboxViolation   = "sandbox_violation" // a system call that no honest worker makes
)

// Outcome is what a run came to. A script that fails is an outcome, not an error.
type Outcome struct {
	Status string // StatusCompleted, StatusFailed, StatusTimedOut
	// Result is the value of a completed run; nil for undefined. It was cut at
	// 16 MiB when ResultTruncated is set.
	Result          *string
	ResultTruncated bool
	// Error says what went wrong, in terms of the task's source.
	Error  string
	Reason string
	// Heap is the saved heap: of a stateful run that completed, threw, or never
	// settled. A run that was cut short, or that never began because of a syntax
	// error, has none.
	Heap []byte
	// TranspiledSHA256 is the hash of the JavaScript that V8 got, in lowercase
	// hex; empty when it got none.
	TranspiledSHA256 string
	// CPUTime is what the worker reports, or what its process used if it could not
	// report. PeakHeapBytes is what the worker reports, 0 if it was killed before it could.
	CPUTime       time.Duration
	PeakHeapBytes int64
	WallTime      time.Duration
	// TimersCancelled counts the timers, of this run and of earlier ones, that
	// were cancelled because the run failed.
	TimersCancelled int
	// Pristine reports whether the built-in objects of Task.Heap are those of a fresh
	// isolate; nil when there was no heap, or it was not compared. It is the worker's
	// word.
	Pristine *bool
	// Warnings begin with those about Task.Heap: changed built-in objects, timers and finalizers.
	Warnings []string
}

const (
	outOfMemoryText  = "Out of memory: V8 heap limit exceeded. Try increasing heap_memory_max_mb."
	timedOutText     = "Execution timed out"
	linkedErrorsText = "V8 cannot save a heap in which errors refer to each other, through a dozen links, and whose stacks were never read. " +
		"Read error.stack of each error that you link to another one, or keep its message alone."
	// V8 keeps literals, property names and the like once for all (internalized),
	// and in an isolate that can be saved only up to its regular object size.
	longStringText = "A property name, regular expression, tagged template or error message of more than 128 KiB ended the run: V8 cannot keep one in an isolate whose heap is saved. " +
		"Build such text at run time from shorter pieces, shorten it, or run stateless."
)
