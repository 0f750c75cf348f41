package ledger

import (
	"encoding/json"
	"time"

	"daybook/events"
)

// Submission asks for a run.
type Submission struct {
	Tenant string
	// Code is the JavaScript or TypeScript source: up to 16 MiB of valid UTF-8
	// without NUL. Empty code completes without a result.
	Code string
	// FileName is shown in stack traces; empty means "main.ts".
	FileName string
	// Heap is the key of the heap to restore; empty for a fresh isolate.
	Heap string
	// RequireHeap refuses a heap that is not recorded, with CodeNotFound. Otherwise
	// the run starts from a fresh isolate, with a warning. It is no part of what is
	// asked for: a repeated submission is answered as before.
	RequireHeap bool
	// Session is the name to log the run under: 1-128 visible characters, or empty.
	Session string
	// LogicalSession is the id of the session that keeps state in which the run
	// takes the next turn, or empty. It starts from what the turn before leaves,
	// once that has ended; Heap must be empty.
	LogicalSession string
	// Interactive runs have somebody waiting. One that was started and interrupted
	// is not begun anew.
	Interactive bool
	// HeapMemoryMaxMB and ExecutionTimeoutSecs override the defaults; nil keeps them.
	HeapMemoryMaxMB      *int
	ExecutionTimeoutSecs *int
	// Tags replace the tags of the output heap on completion. Nil leaves them,
	// empty clears them.
	Tags map[string]string
	// Globals are values that the run finds as properties of globalThis before its
	// code is evaluated, by name, each as JSON: at most 16 names, each an identifier
	// of ASCII characters, and at most 16 MiB of JSON together. They are no part of
	// the code: positions and hashes are those of Code.
	Globals map[string]json.RawMessage
	// IdempotencyKey, if not empty, makes the same key give the same execution for ever.
	IdempotencyKey string
	// Context is the conversation context the run is asked for in; nil for none. It
	// is no part of what is asked for.
	Context *events.ContextRef
	// Warnings are recorded and returned before those of the ledger. They are no part of
	// what is asked for.
	Warnings    []string
	Actor       events.Actor
	Traceparent string
}

// Receipt answers a submission.
type Receipt struct {
	ExecutionID string
	// Seq is the position of the requested event.
	Seq uint64
	// Repeated is true when an idempotency key found its earlier execution.
	Repeated bool
	Warnings []string
}

// Request is a run to be done, as a runner receives it.
type Request struct {
	Tenant      string
	Seq         uint64
	RequestedAt time.Time
	Traceparent string
	events.ExecutionRequested
}

// NewRequest reads a request from its event, as a consumer delivers it. It
// reports false for any other event.
func NewRequest(e events.Event) (Request, bool) {
	d, ok := e.Data.(*events.ExecutionRequested)
	if !ok {
		return Request{}, false
	}
	return Request{Tenant: e.Tenant, Seq: e.Seq, RequestedAt: e.Time, Traceparent: e.Traceparent, ExecutionRequested: *d}, true
}

// Plan is what a runner is to do with a request, decided from the stream.
type Plan struct {
	Request Request
	// Attempt to run next, from 1. Seed and StartTime are those of the first
	// attempt.
	Attempt   int
	Seed      [16]byte
	StartTime time.Time
	// FirstLine and FirstByte number the output to come.
	FirstLine, FirstByte int64
	// Position is the last position on the execution's control subject.
	Position uint64
	// After is the execution whose end the run has to wait for: its turn has not
	// come. The end of the turns before releases the request. Again, if it is not 0,
	// is the time after which the run MUST be planned again without that: no run was
	// requested for a turn before it yet.
	After string
	Again time.Duration
	// Runner started the attempt before this one, which has neither ended nor been
	// handed back; empty when there is none.
	Runner string
	// Heap is the heap to restore, empty for a fresh isolate: what was asked for,
	// or what the run's session is at.
	Heap string
	// Calls are what earlier attempts called, all with their answers: the next
	// one is given these instead of calling again. Callable is what the first
	// attempt was allowed to call, and Resumed tells that it is known.
	Calls         []RecordedCall
	Callable      map[string][]string
	CallableKnown bool
	// Ended is the terminal event when the execution has already ended (also
	// when planning itself ended it: cancelled while queued, or too many
	// attempts). There is then nothing to run, only to settle.
	Ended *events.Event
}

// StartedAttempt is a started attempt. It belongs to one runner goroutine.
type StartedAttempt struct {
	Plan   Plan
	Runner string
	// Position is the last known position on the control subject at which the run
	// was this runner's.
	Position uint64
	// InputHeap is the heap really restored; empty for a fresh isolate.
	InputHeap string

	// started is the position of the started event of this attempt.
	started uint64
}

// Start is what a runner knows when it takes a run. InputHeap is the heap
// really restored, which differs from the one asked for when that is not on
// record.
type Start struct {
	Runner    string
	Engine    events.Engine
	InputHeap string
	// Callable is what the script may call: tools by server.
	Callable map[string][]string
	Layers   []string
	Warnings []string
}

// Result is how a runner says a run ended; Complete turns it into the terminal
// event.
type Result struct {
	// Value is the script's result; nil when there is none.
	Value          *string
	ValueTruncated bool
	// Error is the message; empty when completed. For a timeout or a cancellation
	// the documented message is filled in. Reason classifies it.
	Error            string
	Reason           string
	Heap             *events.HeapRecord
	Output           events.OutputTotals
	TranspiledSHA256 string
	Usage            events.Usage
	// TimersCancelled counts the timers that were cancelled because the run failed.
	TimersCancelled int
	// Pristine reports whether the built-in objects of the input heap are those of a
	// fresh isolate; nil where that is not known.
	Pristine *bool
	Warnings []string
}
