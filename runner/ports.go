package runner

import (
	"context"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/ledger"
)

// Delivery is a run request in this runner's hands. It is delivered again when
// it is given back or when its holder shows no sign of life; the Work port
// gives signs of life while the function it called is running.
type Delivery struct {
	// Event is the requested event. Unreadable is why it cannot be read; Event then
	// has only a position, a tenant and what it is about, which its subject says.
	Event      events.Event
	Unreadable error
	// Delivered counts deliveries from 1. A lost count may start over.
	Delivered int
	// Free gives up the slot: the script has ended, and what is left to do needs
	// no worker. It may be called more than once.
	Free func()
	// Ack reports the request as dealt with and waits until that is noted.
	Ack func(ctx context.Context) error
	// Nak gives the request back, to be delivered again after delay, and waits
	// until that is noted. A second Nak replaces the delay of the first.
	Nak func(ctx context.Context, delay time.Duration) error
}

// Work hands out run requests.
type Work interface {
	// Consume calls fn for each request of a pool, each call on a goroutine of
	// its own, at most as many at a time as there are slots, not counting those that
	// gave up theirs. Tenants share the slots as they say.
	// When ctx is done it takes no more and
	// returns once every fn has returned. ctx MUST NOT cancel fn's context.
	Consume(ctx context.Context, pool string, slots fairness.Slots, fn func(ctx context.Context, d Delivery)) error
	// ListenCancel calls fn when somebody asks to cancel the execution, from a
	// goroutine that fn may block, and tells the asker when fn answers true: the
	// execution's end is on record. stop ends the listening and does not wait
	// for fn.
	ListenCancel(tenant, execution string, fn func() bool) (stop func(), err error)
	// Held reports whether any runner listens for cancel requests of the execution
	// now. It waits for an answer for a few seconds at most.
	Held(ctx context.Context, tenant, execution string) (bool, error)
}

// Planner decides what is to be done with a request. *ledger.Ledger is one.
type Planner interface {
	Plan(ctx context.Context, r ledger.Request, redelivered bool) (ledger.Plan, error)
	Start(ctx context.Context, p ledger.Plan, s ledger.Start) (*ledger.Run, error)
	HandBack(ctx context.Context, r *ledger.Run, reason string) error
	EndUnreadable(ctx context.Context, tenant, execution string, position uint64) error
	// Removed explains why a heap on record is not there any more.
	Removed(ctx context.Context, tenant, heap string) error
}

// OutputLog records output.
type OutputLog interface {
	AppendOutput(ctx context.Context, r *ledger.Run, firstLine, firstByte int64, lines []events.Line) (seq uint64, err error)
	TruncateOutput(ctx context.Context, r *ledger.Run, firstLine, firstByte, limit int64) error
}

// Finisher ends executions.
type Finisher interface {
	Complete(ctx context.Context, r *ledger.Run, status events.Status, res ledger.Result) (events.Event, error)
	Settle(ctx context.Context, r ledger.Request, terminal events.Event) error
}

// HostLog records what scripts call.
type HostLog interface {
	RecordCall(ctx context.Context, r *ledger.Run, c ledger.HostCall) error
	RecordReturn(ctx context.Context, r *ledger.Run, a ledger.HostReturn) error
}

// Servers are the MCP servers that scripts may call.
type Servers interface {
	// Servers names the tools that a run may call, by server. It may wait a little
	// for servers that are being connected to; one that fails has no tools.
	Servers(ctx context.Context, r ledger.Request) map[string][]string
	// Call calls a tool and always comes to a result. ctx ends with the run.
	Call(ctx context.Context, r ledger.Request, c ledger.HostCall) ServerResult
}

// ServerResult is what a call came to.
type ServerResult struct {
	Outcome events.HostOutcome
	// Text is a value as JSON when the Outcome is ok, and otherwise a message:
	// valid UTF-8 of at most 16 MiB.
	Text []byte
	// Release, if set, gives back the memory that Text takes. The runner calls it once
	// it no longer refers to Text.
	Release func()
}

// Ledger is the runner's side of the write side. *ledger.Ledger implements it
// and documents it.
type Ledger interface {
	Planner
	OutputLog
	HostLog
	Finisher
}

// Heaps stores heap blobs by tenant and hash.
type Heaps interface {
	// Heap returns a heap after checking its hash: events.ErrNotFound when the
	// tenant never stored it, events.ErrRemoved when it was removed,
	// events.ErrDamaged when its bytes are not what the
	// hash says, any other error when that cannot be told now.
	Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error)
	// PutHeap stores a heap and returns its hash. A heap already there costs
	// one look-up.
	PutHeap(ctx context.Context, tenant string, blob []byte, engineID string) (hash string, err error)
	// PutSealedHeap is PutHeap for a heap that is stored encrypted under a key.
	PutSealedHeap(ctx context.Context, tenant string, blob []byte, engineID, keyID string) (hash string, err error)
}

// Memory bounds what the heaps of runs take in this process.
type Memory interface {
	// Hold opens an account for a run. Heaps that are read under the context that it
	// returns are reserved in the account before, and may wait for that.
	Hold(ctx context.Context) (context.Context, HeldMemory)
}

// HeldMemory is the account of a run. It belongs to one goroutine at a time.
type HeldMemory interface {
	// Reserve waits for memory for one heap, in place of the heap before. An error is
	// ctx's.
	Reserve(ctx context.Context, bytes int64) error
	// Release gives the memory back: no reference to a heap is left.
	Release()
}

// unboundedMemory is the Memory of a runner that has no other.
type unboundedMemory struct{}

func (unboundedMemory) Hold(ctx context.Context) (context.Context, HeldMemory) {
	return ctx, unboundedMemory{}
}
func (unboundedMemory) Reserve(context.Context, int64) error { return nil }
func (unboundedMemory) Release()                             {}

// Texts reads sources too large for an event.
type Texts interface {
	// Text returns a text after checking its hash; errors as for Heaps.Heap.
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}
