package runner

import (
	"context"
	"errors"
	"syscall"
	"time"

	"daybook/events"
)

// Workers executes scripts, each contained so that nothing it does reaches the
// runner except through the values below.
type Workers interface {
	// Run executes one script and returns how it ended. lines is called with
	// output in order, never concurrently and never after Run has returned; it
	// owns the slice and may block. Its error stops the script and discards further
	// output. Its context ends when the script is stopped, by ctx or the time limit. Lines
	// written before still come then, and lines must take or refuse them soon. When ctx
	// is done the script is stopped and the error is context.Cause(ctx). A
	// *NotStartedError means that nothing of the script ran. Any other error
	// means that nothing is known about the script's end; the Outcome then holds only
	// Pristine, Warnings and what the run cost.
	Run(ctx context.Context, t Task, lines func(context.Context, []events.Line) error) (Outcome, error)
	// Engine identifies the engine of runs with or without a heap. Neither it
	// nor Layers changes while the Workers live: each answer is asked for once
	// per kind of run.
	Engine(ctx context.Context, stateful bool) (events.Engine, error)
	// Layers names, sorted, the containment layers that workers of such runs have
	// proven to be in force.
	Layers(ctx context.Context, stateful bool) ([]string, error)
}

// NotStartedError is returned by Workers.Run when nothing of the script ran for a reason
// that passes, such as missing descriptors.
type NotStartedError struct{ Err error }

// Error returns the message of the reason.
func (e *NotStartedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *NotStartedError) Unwrap() error { return e.Err }

// reason is what the tenant may read of it: not the paths of this server.
func (e *NotStartedError) reason() string {
	const reason = "no worker could be started"
	if errno, ok := errors.AsType[syscall.Errno](e.Err); ok {
		return reason + ": " + errno.Error()
	}
	return reason
}

// Task is a script to execute.
type Task struct {
	// Tenant owns the script; workers are never shared between tenants.
	Tenant string
	// Session is the session the run belongs to, empty for none.
	Session string
	// Code is the source, JavaScript or TypeScript; FileName its name in stacks.
	Code     []byte
	FileName string
	// Heap is the verified heap to restore; nil for a fresh isolate.
	Heap []byte
	// Stateful asks for a heap in the Outcome.
	Stateful bool
	// HeapLimitBytes and ArrayBufferLimitBytes bound the isolate's memory.
	HeapLimitBytes        int64
	ArrayBufferLimitBytes int64
	// Timeout is the wall-clock limit, from the call of Run.
	Timeout time.Duration
	// Seed and Start are what the script's randomness and clock begin with.
	Seed  [16]byte
	Start time.Time
	// Servers is what the script may call, tool names by server name; Host
	// carries the calls out, and is nil when there are none.
	Servers map[string][]string
	Host    Host
	// Globals is the JSON of an object: its members are properties of globalThis
	// before the script is evaluated. Empty for none.
	Globals []byte
	// HideNames leaves names that earlier runs chose out of warnings.
	HideNames bool
	// HeapSent, if set, is called once the worker has received Heap. ReserveHeap, if
	// set, is called before a heap is received, with its size in bytes.
	HeapSent    func()
	ReserveHeap func(ctx context.Context, bytes int64) error
}

// Host carries out what a running script calls. Workers call its methods one
// after another.
type Host interface {
	// Call begins a call, numbered from 1, and must not wait for its answer; the
	// receiver owns the arguments. An error ends the run.
	Call(ctx context.Context, number int, server, tool string, arguments []byte) error
	// Next is called while calls are pending, and blocks until one is answered or
	// until the script's clock reaches due, which is zero when the script waits
	// for no timer. Of an answer and a timer the earlier one is first, and of
	// equals the timer. ctx ends when the run is to end.
	Next(ctx context.Context, due time.Time) (HostAnswer, error)
}

// HostAnswer is a Host's word to a waiting script.
type HostAnswer struct {
	// Number is the call that is answered; 0 says that the timer is due.
	Number int
	// OK says that Text is a value as JSON; otherwise it is an error's message.
	OK   bool
	Text []byte
	// At is the script's time of the answer.
	At time.Time
}

// Outcome is how a script ended.
type Outcome struct {
	// Status is "completed", "failed" or "timed_out".
	Status string
	// Result is the script's value, nil when it has none; ResultTruncated marks
	// one cut at its size limit.
	Result          *string
	ResultTruncated bool
	// Error is the message of a failed run; Reason classifies it.
	Error  string
	Reason string
	// Heap is the state left behind; nil when there is none to keep.
	Heap []byte
	// TranspiledSHA256 is the hash of the JavaScript that really ran.
	TranspiledSHA256 string
	// What the run cost.
	CPUTime       time.Duration
	PeakHeapBytes int64
	WallTime      time.Duration
	// TimersCancelled counts the timers, of this run and of earlier ones, that
	// were cancelled because the run failed.
	TimersCancelled int
	// Pristine reports whether the built-in objects of Task.Heap are those of a fresh
	// isolate; nil when there was no heap, or it was not compared.
	Pristine *bool
	// Warnings name what was not as asked for, and what the heap carries.
	Warnings []string
}
