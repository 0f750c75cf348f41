package ledger

import (
	"context"
	"time"

	"daybook/events"
)

// Submission asks for a run.
type Submission struct {
	Tenant string
	// Code is the JavaScript or TypeScript source: 1 byte to 16 MiB of valid
	// UTF-8 without NUL.
	Code string
	// FileName is shown in stack traces; empty means "main.ts".
	FileName string
	// Heap is the key of the heap to restore; empty for a fresh isolate.
	Heap string
	// Session is the name to log the run under: 1-128 visible characters, or empty.
	Session string
	// HeapMemoryMaxMB and ExecutionTimeoutSecs override the defaults; nil keeps them.
	HeapMemoryMaxMB      *int
	ExecutionTimeoutSecs *int
	// Tags replace the tags of the output heap on completion. Nil leaves them,
	// empty clears them.
	Tags map[string]string
	// IdempotencyKey, if not empty, makes the same key give the same execution for ever.
	IdempotencyKey string
	Actor          events.Actor
	Traceparent    string
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
	// Ended is the terminal event when the execution has already ended (also
	// when planning itself ended it: cancelled while queued, or too many
	// attempts). There is then nothing to run, only to settle.
	Ended *events.Event
}

// Run is a started attempt. It belongs to one runner goroutine.
type Run struct {
	Plan   Plan
	Runner string
	// Position is the last known position on the control subject.
	Position uint64
}

// Start is what a runner knows when it takes a run.
type Start struct {
	Runner    string
	Engine    events.Engine
	InputHeap string
	Layers    []string
	Warnings  []string
}

// Result is how a runner says a run ended; Finish turns it into the terminal
// event.
type Result struct {
	// Value is the script's result; nil when there is none.
	Value          *string
	ValueTruncated bool
	// Error is the message; empty when completed. Reason classifies it.
	Error            string
	Reason           string
	Heap             *events.HeapRecord
	Output           events.OutputTotals
	TranspiledSHA256 string
	Usage            events.Usage
	Warnings         []string
}

var _ = context.Background // signatures below are implemented in their own files:
//
//	func (l *Ledger) Submit(ctx context.Context, s Submission) (Receipt, error)
//	func (l *Ledger) Cancel(ctx context.Context, tenant, execution string, actor events.Actor) (seq uint64, err error)
//	func (l *Ledger) SetTags(ctx context.Context, tenant, heap string, tags map[string]string, actor events.Actor) (seq uint64, err error)
//	func (l *Ledger) DeleteTags(ctx context.Context, tenant, heap string, keys []string, actor events.Actor) (seq uint64, err error) // keys nil: all
//	func (l *Ledger) History(ctx context.Context, tenant, execution string) ([]events.Event, error) // control and output events in order; CodeNotFound
//
// runner side:
//
//	func (l *Ledger) Plan(ctx context.Context, r Request, redelivered bool) (Plan, error)
//	func (l *Ledger) Start(ctx context.Context, p Plan, s Start) (*Run, error)          // appends started; *EndedError when somebody ended it first
//	func (l *Ledger) AppendOutput(ctx context.Context, r *Run, firstLine, firstByte int64, lines []events.Line) (seq uint64, err error)
//	func (l *Ledger) TruncateOutput(ctx context.Context, r *Run, firstLine, firstByte, limit int64) error
//	func (l *Ledger) HandBack(ctx context.Context, r *Run, reason string) error
//	func (l *Ledger) Finish(ctx context.Context, r *Run, status events.Status, res Result) (events.Event, error) // the terminal event on record, ours or another's
//	func (l *Ledger) Settle(ctx context.Context, r Request, terminal events.Event) error  // tag edit and session entry, if missing
