package ledger

import (
	"encoding/json"
	"time"

	"daybook/events"
)

// Submission holds the arguments of Submit.
type Submission struct {
	Tenant string
	// Code is the JavaScript or TypeScript source: up to 16 MiB of valid UTF-8
	// without NUL. Empty code completes without a result.
	Code string
	// FileName is shown in stack traces; empty means "main.ts".
	FileName string
	// Heap is the key of the heap to restore; empty for a fresh isolate. HeapNone selects a
	// plain isolate: the run leaves no heap, and has WebAssembly.
	Heap string
	// RequireHeap refuses a heap that is not recorded, with CodeNotFound. Otherwise the
	// run starts from a fresh isolate, with a warning. RequireHeap is not part of the
	// fingerprint of the request: a repeated submission is answered as before.
	RequireHeap bool
	// Session is the name to log the run under: 1-128 visible characters, or empty.
	Session string
	// LogicalSession is the id of the logical session in which the run takes the next
	// turn, or empty. The run starts from the heap of the turn before, after that turn
	// has ended. Heap MUST then be empty.
	LogicalSession string
	// Interactive reports that a user waits for the run. An interactive run is not
	// started again after an interruption.
	Interactive bool
	// HeapMemoryMaxMB and ExecutionTimeoutSecs override the defaults; nil keeps them.
	HeapMemoryMaxMB      *int
	ExecutionTimeoutSecs *int
	// Tags replace the tags of the output heap on completion. Nil leaves them,
	// empty clears them.
	Tags map[string]string
	// Globals are JSON values by name. The run finds them as properties of globalThis
	// before its code is evaluated. At most 16 names are accepted, each an identifier of
	// ASCII characters, with at most 16 MiB of JSON together. They are not part of Code,
	// so that positions and hashes are those of Code.
	Globals map[string]json.RawMessage
	// Files are the sources of further files by path, which the code imports as ./PATH. At
	// most 256 are accepted, with at most 16 MiB together.
	Files map[string]string
	// IdempotencyKey, if not empty, permanently identifies the execution: the same key
	// always returns the same execution.
	IdempotencyKey string
	// Context is the conversation context in which the run is requested; nil for none. It
	// is not part of the fingerprint of the request.
	Context *events.ContextRef
	// Warnings are recorded and returned before those of the ledger. They are not part of
	// the fingerprint of the request.
	Warnings    []string
	Actor       events.Actor
	Traceparent string
}

// HeapNone is the Heap of a Submission whose run restores and leaves no heap, as all runs of
// a server without heaps do.
const HeapNone = "none"

// Receipt is the result of Submit.
type Receipt struct {
	ExecutionID string
	// Seq is the position of the requested event.
	Seq uint64
	// Repeated reports whether the idempotency key identified an earlier execution.
	Repeated bool
	Warnings []string
}

// Request is the request of a run, as a runner receives it.
type Request struct {
	Tenant      string
	Seq         uint64
	RequestedAt time.Time
	Traceparent string
	events.ExecutionRequested
}

// NewRequest returns the request in its event, as a consumer delivers it. It returns
// false for any other event.
func NewRequest(e events.Event) (Request, bool) {
	d, ok := e.Data.(*events.ExecutionRequested)
	if !ok {
		return Request{}, false
	}
	return Request{Tenant: e.Tenant, Seq: e.Seq, RequestedAt: e.Time, Traceparent: e.Traceparent, ExecutionRequested: *d}, true
}

// Plan is the plan of a runner for a request. Ledger.Plan derives it from the ledger.
type Plan struct {
	Request Request
	// Attempt is the next attempt, from 1. Seed and StartTime are those of the first
	// attempt.
	Attempt   int
	Seed      [16]byte
	StartTime time.Time
	// FirstLine and FirstByte are the numbers of the first output line, from 1, and of
	// its first byte, from 0.
	FirstLine, FirstByte int64
	// Position is the last position on the execution's control subject.
	Position uint64
	// WaitFor, if not empty, is the execution whose end the run has to wait for, because an
	// earlier turn of the session has not ended. The end of the last such turn releases
	// the request. PlanAgainAfter, if not 0, is the time after which the run MUST be
	// planned again without a release: an earlier turn has no requested run yet.
	WaitFor        string
	PlanAgainAfter time.Duration
	// Runner is the runner of the attempt before, if that attempt has neither ended nor
	// been handed back; otherwise empty.
	Runner string
	// Heap is the heap to restore; empty for a fresh isolate. It is the requested heap or
	// the session head.
	Heap string
	// Calls are the host calls of earlier attempts, all with their answers. The next
	// attempt receives these answers and does not call again. Callable are the tools by
	// server that the first attempt was allowed to call. CallableKnown reports whether
	// that is recorded.
	Calls         []RecordedCall
	Callable      map[string][]string
	CallableKnown bool
	// First is the first started event of the execution; nil if no attempt was started. All
	// attempts have the globals and the WebAssembly modules of the first.
	First *events.ExecutionStarted
	// Modules is what the script imports, if an earlier attempt has recorded it. The next
	// attempt gets the same.
	Modules *RecordedModules
	// Ended is the terminal event of an execution that has ended, or nil. Planning may
	// have ended it, because it was cancelled in the queue or had too many attempts. The
	// runner then runs nothing and calls Finalize.
	Ended *events.Event
}

// StartedAttempt is a started attempt. It belongs to one runner goroutine.
type StartedAttempt struct {
	Plan   Plan
	Runner string
	// Position is the last known position on the execution's control subject at which the
	// run belonged to this runner.
	Position uint64
	// InputHeap is the heap that was restored; empty for a fresh isolate.
	InputHeap string

	// started is the position of the started event of this attempt.
	started uint64
}

// Start holds what a runner knows when it starts an attempt. InputHeap is the heap that
// it restored. It differs from the requested heap if that one is not recorded.
type Start struct {
	Runner    string
	Engine    events.Engine
	InputHeap string
	// MigratedFrom is the heap of another engine of which InputHeap is a migration; empty if
	// it is none.
	MigratedFrom string
	// Callable are the tools by server that the script may call.
	Callable map[string][]string
	Layers   []string
	Warnings []string
	// NodeGlobals reports whether the script has the globals of Node.
	NodeGlobals bool
	// WASMModules are the WebAssembly modules that the script can use. They MUST be stored.
	WASMModules []events.WASMModule
}

// Result is the outcome of a run, as the runner reports it. Complete turns it into the
// terminal event.
type Result struct {
	// Value is the script's result; nil for none.
	Value          *string
	ValueTruncated bool
	// Error is the error message; empty for a completed run. An empty message of a
	// timed-out or cancelled run becomes the documented one. Reason classifies the error.
	Error            string
	Reason           string
	Heap             *events.HeapRecord
	Output           events.OutputTotals
	TranspiledSHA256 string
	Usage            events.Usage
	// TimersCancelled counts the timers that were cancelled because the run failed.
	TimersCancelled int
	// Pristine reports whether the built-in objects of the input heap are those of a
	// fresh isolate; nil if that is not known.
	Pristine *bool
	// Nondeterministic says why the run may not repeat; empty for most runs.
	Nondeterministic []events.Nondeterminism
	Warnings         []string
}
