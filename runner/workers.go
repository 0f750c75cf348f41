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
	// Engine returns the engine of runs with or without a heap. Its result and that of
	// Layers MUST NOT change while the Workers exist: the runner calls each once per
	// kind of run.
	Engine(ctx context.Context, stateful bool) (events.Engine, error)
	// Layers returns the sorted names of the sandbox layers that are proven to be
	// active in workers of such runs.
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

// Task is a script to execute.
type Task struct {
	// Tenant owns the script. Workers are never shared between tenants.
	Tenant string
	// Session is the session of the run; empty for none.
	Session string
	// Code is the source, JavaScript or TypeScript. FileName is its name in stack
	// traces.
	Code     []byte
	FileName string
	// Heap is the verified heap to restore; nil for a fresh isolate.
	Heap []byte
	// Stateful requests a heap in the Outcome.
	Stateful bool
	// HeapLimitBytes and ArrayBufferLimitBytes limit the isolate's memory.
	HeapLimitBytes        int64
	ArrayBufferLimitBytes int64
	// Timeout is the wall-clock limit, measured from the call of Run.
	Timeout time.Duration
	// Seed and Start are the random seed and the start time of the script's clock.
	Seed  [16]byte
	Start time.Time
	// Servers holds the names of the tools that the script may call, by server. Host
	// performs the calls; it is nil if there are none.
	Servers map[string][]string
	Host    Host
	// Globals is a JSON object. Its members are set as properties of globalThis before
	// the script is evaluated. Empty for none.
	Globals []byte
	// HideNames omits names that earlier runs chose from warnings.
	HideNames bool
	// OnHeapReceived, if set, is called once the worker has received Heap. ReserveHeap,
	// if set, is called before a heap is received from the worker, with its size in
	// bytes.
	OnHeapReceived func()
	ReserveHeap    func(ctx context.Context, bytes int64) error
}

// Host performs the host calls of a running script. Workers call its methods one after
// another.
type Host interface {
	// Call starts a call and MUST NOT wait for its answer. Calls are numbered from 1.
	// Call owns arguments. An error ends the run.
	Call(ctx context.Context, number int, server, tool string, arguments []byte) error
	// Next is called while calls are pending. It blocks until a call is answered or the
	// script's clock reaches due; due is zero if the script waits for no timer. If both
	// happen, the earlier one counts; if they are equal, the timer does. ctx ends when
	// the run must end.
	Next(ctx context.Context, due time.Time) (HostAnswer, error)
}

// HostAnswer is the result of Host.Next.
type HostAnswer struct {
	// Number is the number of the answered call, or 0 if the timer is due.
	Number int
	// OK is true if Text is a value as JSON. Otherwise Text is an error message.
	OK   bool
	Text []byte
	// At is the time of the answer on the script's clock.
	At time.Time
}

// Outcome describes how a script ended.
type Outcome struct {
	// Status is "completed", "failed" or "timed_out".
	Status string
	// Result is the script's value; nil for none. ResultTruncated is true if it was cut
	// at its size limit.
	Result          *string
	ResultTruncated bool
	// Error is the message of a failed run. Reason classifies it.
	Error  string
	Reason string
	// Heap is the state at the end; nil if there is none to store.
	Heap []byte
	// TranspiledSHA256 is the hash of the JavaScript that was executed.
	TranspiledSHA256 string
	// CPUTime, PeakHeapBytes and WallTime are the resource usage.
	CPUTime       time.Duration
	PeakHeapBytes int64
	WallTime      time.Duration
	// TimersCancelled counts the timers, of this run and of earlier ones, that were
	// cancelled because the run failed.
	TimersCancelled int
	// Pristine reports whether the built-in objects of Task.Heap are those of a fresh
	// isolate. It is nil if there was no heap or it was not compared.
	Pristine *bool
	// Warnings lists deviations from the Task, and what the heap contains.
	Warnings []string
}
