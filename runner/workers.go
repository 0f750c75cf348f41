package runner

import (
	"context"
	"errors"
	"syscall"
	"time"

	"daybook/events"
)

// Workers executes scripts. Each script is contained: it affects the runner only
// through the values below.
type Workers interface {
	// Run executes one script and returns its outcome. It calls lines with output in
	// order, never concurrently, and never after Run has returned. lines owns the slice
	// and MAY block. An error of lines stops the script and discards further output.
	// The context passed to lines ends when the script is stopped, by ctx or the time
	// limit. Lines written before the stop are still passed, and lines MUST accept or
	// refuse them soon.
	//
	// When ctx is done, Run stops the script and returns context.Cause(ctx). A
	// *NotStartedError means that no part of the script ran. After any other error the
	// outcome of the script is unknown; the Outcome then holds only Pristine, Warnings
	// and the resource usage.
	Run(ctx context.Context, t Task, lines func(context.Context, []events.Line) error) (Outcome, error)
	// Engine returns the engine of stateful or of other runs. Its result and that of
	// Layers MUST NOT change while the Workers exist: the runner keeps them.
	Engine(ctx context.Context, stateful bool) (events.Engine, error)
	// Layers returns the sorted names of the sandbox layers that are proven to be
	// active in workers of stateful or of other runs.
	Layers(ctx context.Context, stateful bool) ([]string, error)
}

// NotStartedError is returned by Workers.Run if no part of the script ran for a
// transient reason, such as missing descriptors.
type NotStartedError struct{ Err error }

// Error returns the text of Err.
func (e *NotStartedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NotStartedError) Unwrap() error { return e.Err }

// reason returns the part of the error that the tenant may read. Paths of this server
// are left out.
func (e *NotStartedError) reason() string {
	const reason = "no worker could be started"
	if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
		return reason + ": " + errno.Error()
	}
	return reason
}

// Task is a script to execute with all inputs that determine its outcome.
type Task struct {
	// Tenant owns the script. Workers are never shared between tenants. Required.
	Tenant string
	// Session is the session of the run; empty for none.
	Session string
	// Code is the source, JavaScript or TypeScript: valid UTF-8 without NUL bytes.
	// FileName is its name in stack traces; empty means main.ts.
	Code     []byte
	FileName string
	// Heap is the heap to restore; nil for a fresh isolate. V8 does not check it, so the
	// caller MUST have verified its hash. It MUST be empty unless Stateful is set.
	Heap []byte
	// Stateful requests a heap in the Outcome. Without it the run is faster and has
	// WebAssembly.
	Stateful bool
	// HeapLimitBytes limits V8's heap; 0 selects V8's default. ArrayBufferLimitBytes
	// limits the contents of ArrayBuffers, which are not part of V8's heap; 0 means no
	// limit.
	HeapLimitBytes        int64
	ArrayBufferLimitBytes int64
	// Timeout is the wall-clock limit, measured from the moment that a worker is
	// assigned to the run. Waiting, timers and saving the heap count. Required.
	Timeout time.Duration
	// Seed determines Math.random and crypto. Start is the first time that the script's
	// clock shows.
	Seed  [16]byte
	Start time.Time
	// Servers holds the names of the tools that the script may call, by server. Host
	// performs the calls; it is nil if there are none.
	Servers map[string][]string
	Host    Host
	// Globals is a JSON object. Its members are set as properties of globalThis before
	// the script is evaluated. Empty for none.
	Globals []byte
	// SkipWaits fires timers without waiting for them in real time, for a run whose
	// outcome is recorded. The script's clock and the order of everything are those of a
	// run that waits.
	SkipWaits bool
	// NodeGlobals gives the script the globals of Node: Buffer, process and global.
	NodeGlobals bool
	// JIT lets V8 optimize a stateful run. Without it such a run has no optimizing compiler. The
	// bytes of its heap then differ, so a replay has the JIT of the run; see events.Engine.
	JIT bool
	// OnTimer, if set, is called with each timer that fires, in order with output and host
	// calls, before its callback runs. The first 10,000 timers of a run are reported. An
	// error ends the run. Without it, timers cost nothing.
	OnTimer func(TimerFired) error
	// ListGlobals selects a list of the globals of Heap, as JSON of a globals.List in the
	// Result, in place of a run: no code of a script runs, and there is no heap in the
	// Outcome. Code MUST be empty, and Stateful set.
	ListGlobals bool
	// SkipGlobals is the number of globals to leave out at the beginning of the list.
	SkipGlobals int
	// OnArtifact, if set, is called with each artifact that the script creates, on the
	// goroutine that passes lines and after the lines that precede it. It owns the bytes and
	// MAY block. Its context and its error are those of lines in Workers.Run.
	OnArtifact func(ctx context.Context, a Artifact) error
	// Files is a JSON object with the sources of the other files of the run, by path;
	// empty for none. The script imports them as ./PATH.
	Files []byte
	// Modules provides the packages that the script imports; nil for none.
	Modules Modules
	// WASMModules are the WebAssembly modules that the script can use; nil for none. It MUST
	// be empty if Stateful is set.
	WASMModules []WASMModule
	// Bundle, if not empty, is an encoded bundle.Request: the task makes a bundle in place
	// of a run, and its Result is the encoded bundle. A worker that has run no user code
	// performs it. Code, Heap, Globals, Files, Host and Modules MUST be empty.
	Bundle []byte
	// RestoreAhead says that the next run is likely to start from the heap that this one
	// saves. A worker MAY then restore it before that run is known; see Outcome.HeapStored.
	RestoreAhead bool
	// HeapKey names Heap: within a tenant, equal keys mean equal heaps. Empty if it has no name.
	HeapKey string
	// HideNames omits names that earlier runs chose from warnings, because a warning is
	// kept when the content of a session is shredded.
	HideNames bool
	// OnHeapReceived, if set, is called once the worker has received the task. Heap, Code and
	// WASMModules are not used after that.
	//
	// ReserveHeap, if set, is called with the size in bytes of the saved heap before it
	// is received. If it returns an error, Run returns that error. Its ctx is done when
	// the run is stopped.
	OnHeapReceived func()
	ReserveHeap    func(ctx context.Context, bytes int64) error
}

// TimerFired is a timer that fires.
type TimerFired struct {
	// At is the time on the script's clock.
	At   time.Time
	Kind TimerKind
	// Delay is the delay that the timer was set with, in whole milliseconds.
	Delay time.Duration
	// Name is the name of the callback, which the script chose: valid UTF-8 of at most 128
	// bytes; empty if it has none.
	Name string
}

// TimerKind is the function that set a timer.
type TimerKind string

// The kinds of timers.
const (
	TimerTimeout   TimerKind = "setTimeout"
	TimerInterval  TimerKind = "setInterval"
	TimerImmediate TimerKind = "setImmediate"
)

// Artifact is an artifact that a script created. It keeps the limits of package events.
type Artifact struct {
	Name, MIME string
	Bytes      []byte
	// At is the time on the script's clock.
	At time.Time
}

// Host performs the host calls of a running script. Workers call its methods one after
// another.
type Host interface {
	// Call starts a call and MUST NOT wait for its answer. Calls of a run are numbered
	// from 1; server and tool are names in Task.Servers. Call owns arguments. An error
	// ends the run.
	Call(ctx context.Context, number int, server, tool string, arguments []byte) error
	// Next is called while calls are pending. It blocks until a call is answered or the
	// script's clock reaches due; due is zero if the script waits for no timer. ctx ends
	// when the run must end.
	//
	// The order of answers and timers determines what the script does. So after a
	// HostAnswer that reports a due timer, no later answer may have a time before due.
	// The time of an answer to a call MUST NOT be before that of the previous answer,
	// and it MUST be before due: at due, the timer comes first.
	Next(ctx context.Context, due time.Time) (HostAnswer, error)
}

// Modules provides the packages that scripts import.
type Modules interface {
	// Bundle returns the encoded bundle of the packages that specifiers name; Workers call
	// it at most once in a run, before any code of the run. The error is a *ModulesError if
	// it is the author of the script who has to act. Any other error ends the run.
	Bundle(ctx context.Context, specifiers []string) ([]byte, error)
}

// ModulesError says why the imports of a script cannot be provided.
type ModulesError struct{ Text string }

func (e *ModulesError) Error() string { return e.Text }

// HostAnswer is the result of Host.Next.
type HostAnswer struct {
	// Number is the number of the answered call, or 0 if the timer is due.
	Number int
	// OK is true if Text is a value as JSON. Otherwise Text is an error message. Text is
	// valid UTF-8 of at most 16 MiB.
	OK   bool
	Text []byte
	// At is the time of the answer on the script's clock.
	At time.Time
}

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

// Outcome describes how a script ended. A script that fails has an Outcome; Run then
// returns no error.
type Outcome struct {
	// Status is StatusCompleted, StatusFailed or StatusTimedOut.
	Status events.Status
	// Result is the script's value; nil for undefined. ResultTruncated is true if it was
	// cut at 16 MiB.
	Result          *string
	ResultTruncated bool
	// Error is the message of a failed run; positions in it are those of Task.Code.
	// Reason classifies it.
	Error  string
	Reason string
	// Heap is the saved heap of a stateful run that completed, threw or never settled.
	// A run that was stopped, or that did not start because of a syntax error, has none.
	Heap []byte
	// HeapStored, if set, MUST be called with the key of Heap when it is stored: a worker keeps
	// the heap for a Task with this HeapKey. It may be called at any time.
	HeapStored func(key string)
	// TranspiledSHA256 is the hash of the JavaScript that V8 received, in lowercase hex.
	// It is empty if V8 received none.
	TranspiledSHA256 string
	// CPUTime is the CPU time that the worker reports, or that its process used if there
	// is no report. PeakHeapBytes is the peak that the worker reports, 0 if it was
	// killed before that.
	CPUTime       time.Duration
	PeakHeapBytes int64
	WallTime      time.Duration
	// TimersCancelled counts the timers, of this run and of earlier ones, that were
	// cancelled because the run failed.
	TimersCancelled int
	// TimersFired counts the timers that fired, and Clock is the script's clock at the end.
	// They are set only with Task.OnTimer, for a run that was not stopped.
	TimersFired int64
	Clock       time.Time
	// Pristine reports whether the built-in objects of Task.Heap are those of a fresh
	// isolate. It is nil if there was no heap or it was not compared. It is not
	// verified: a script may have taken over the worker that reports it.
	Pristine *bool
	// Nondeterministic says why the run may not repeat, as the worker reports it. It is
	// empty if the worker was killed.
	Nondeterministic []events.Nondeterminism
	// Warnings are the warnings about the run. Those about Task.Heap come first: changed
	// built-in objects, accessors and read-only globals, timers and finalizers.
	Warnings []string
}
