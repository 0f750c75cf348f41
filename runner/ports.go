package runner

import (
	"context"
	"errors"
	"time"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/ledger"
)

// Delivery is a run request that is delivered to this runner. The request is delivered
// again after Nak, or if its ack deadline passes. The Work port extends the deadline
// while the function that it called runs.
type Delivery struct {
	// Event is the requested event. Unreadable is the reason why it cannot be decoded.
	// Event then has only a position and a tenant, and its Data is an *events.Unknown with
	// the execution's id, which come from its subject.
	Event      events.Event
	Unreadable error
	// Delivered is the number of deliveries of the request, counted from 1. It restarts
	// if the queue loses its count.
	Delivered int
	// ReleaseSlot releases the slot: the script has ended, and the remaining steps need
	// no worker. It MAY be called more than once.
	ReleaseSlot func()
	// Ack reports the request as finished and waits until the queue has stored that.
	Ack func(ctx context.Context) error
	// Nak returns the request, to be delivered again after delay, and waits until the
	// queue has stored that. A second Nak replaces the delay of the first.
	Nak func(ctx context.Context, delay time.Duration) error
}

// Work delivers run requests.
type Work interface {
	// Consume calls fn for each request of a pool, each call on a goroutine of its own.
	// At most slots.Total calls hold a slot at a time. A call that released its slot holds
	// none. Tenants share the slots as slots defines. When ctx is done, Consume takes no
	// more requests and returns after every fn has returned. The end of ctx MUST NOT end
	// the context of fn.
	Consume(ctx context.Context, pool string, slots fairness.Slots, fn func(ctx context.Context, d Delivery)) error
	// ListenCancel calls fn for each request to cancel the execution. fn MAY block. It
	// returns true if the end of the execution is recorded, and ListenCancel then
	// answers the request. stop ends the listening and does not wait for fn.
	ListenCancel(tenant, execution string, fn func() bool) (stop func(), err error)
	// IsHeld reports whether any runner listens for cancel requests of the execution
	// now. It waits a few seconds at most for an answer.
	IsHeld(ctx context.Context, tenant, execution string) (bool, error)
}

// Planner decides what the runner does with a request. *ledger.Ledger is one.
type Planner interface {
	Plan(ctx context.Context, r ledger.Request, redelivered bool) (ledger.Plan, error)
	Start(ctx context.Context, p ledger.Plan, s ledger.Start) (*ledger.StartedAttempt, error)
	HandBack(ctx context.Context, r *ledger.StartedAttempt, reason string) error
	EndUnreadable(ctx context.Context, tenant, execution string, position uint64) error
	// ExplainRemoval returns the error that explains why a recorded heap no longer
	// exists.
	ExplainRemoval(ctx context.Context, tenant, heap string) error
}

// OutputLog records output.
type OutputLog interface {
	AppendOutput(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte int64, lines []events.Line) (seq uint64, err error)
	TruncateOutput(ctx context.Context, r *ledger.StartedAttempt, firstLine, firstByte, limit int64) error
}

// ModuleLog records what scripts import and which WebAssembly modules they can use.
type ModuleLog interface {
	StoreWASM(ctx context.Context, tenant string, module []byte) (events.BlobRef, error)
	RecordModules(ctx context.Context, r *ledger.StartedAttempt, m ledger.LoadedModules) error
}

// ModuleLock finds the packages that scripts import.
type ModuleLock interface {
	// Find returns the admitted packages of a tenant that specifiers name.
	Find(ctx context.Context, tenant string, specifiers []string) (ModuleSet, error)
}

// ModuleSet is the packages that a script imports, with their dependencies.
type ModuleSet struct {
	// Key identifies everything that the bundle of the packages depends on, besides the
	// program that makes it.
	Key      string
	Packages []events.LoadedPackage
	// Request reads the tarballs and returns the task of making the bundle, for Task.Bundle.
	// The error is a *ModulesError if the packages are too many.
	Request func(ctx context.Context) ([]byte, error)
}

// Finisher ends executions.
type Finisher interface {
	Complete(ctx context.Context, r *ledger.StartedAttempt, status events.Status, res ledger.Result) (events.Event, error)
	Finalize(ctx context.Context, r ledger.Request, terminal events.Event) error
}

// HostLog records the host calls of scripts.
type HostLog interface {
	RecordCall(ctx context.Context, r *ledger.StartedAttempt, c ledger.HostCall) error
	RecordReturn(ctx context.Context, r *ledger.StartedAttempt, a ledger.HostReturn) error
}

// ArtifactLog records the artifacts of scripts.
type ArtifactLog interface {
	RecordArtifact(ctx context.Context, r *ledger.StartedAttempt, a ledger.Artifact) error
}

// Servers calls tools of tool servers for scripts.
type Servers interface {
	// Servers returns the names of the tools that a run may call, by server. It may
	// wait a little for servers that are being connected. A server that fails has no
	// tools.
	Servers(ctx context.Context, r ledger.Request) map[string][]string
	// Call calls a tool and always returns a result. ctx ends with the run.
	Call(ctx context.Context, r ledger.Request, c ledger.HostCall) ServerResult
}

// ServerResult is the result of a host call.
type ServerResult struct {
	Outcome events.HostOutcome
	// Text is a value as JSON if Outcome is ok, otherwise a message. It is valid UTF-8
	// of at most 16 MiB.
	Text []byte
	// Fetch and Requests describe a fetch for the ledger; nil for the call of a tool.
	Fetch    *events.FetchRecord
	Requests []events.FetchRequest
	// Release, if set, returns the memory that Text takes. The runner calls it once it
	// no longer refers to Text.
	Release func()
}

// Ledger is the part of the write side that the runner uses. *ledger.Ledger implements
// and documents it.
type Ledger interface {
	Planner
	OutputLog
	HostLog
	ArtifactLog
	ModuleLog
	Finisher
}

// Heaps stores heap blobs by tenant and hash.
type Heaps interface {
	// Heap returns a heap after it checked the hash. It returns events.ErrNotFound if
	// the tenant never stored the heap, events.ErrRemoved if it was removed,
	// events.ErrDamaged if its bytes do not match the hash, and another error if the
	// store cannot answer now.
	Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error)
	// PutHeap stores a heap and returns its hash. For a heap that is already stored it
	// costs one lookup.
	PutHeap(ctx context.Context, tenant string, blob []byte, engineID string) (hash string, err error)
	// PutEncryptedHeap is PutHeap for a heap that is stored encrypted under a content
	// key.
	PutEncryptedHeap(ctx context.Context, tenant string, blob []byte, engineID, keyID string) (hash string, err error)
}

// Migrations make heaps of other engines again.
type Migrations interface {
	// Migrate returns a heap that the workers can restore in place of a heap of another
	// engine that a run needs. It makes that heap first if none is recorded, which may take
	// as long as all runs that led to it. A *NotMigratedError says that there is none. After
	// ErrMigrationUnfinished another call continues, and after any other error another call
	// may succeed.
	Migrate(ctx context.Context, r ledger.Request, heap string) (migrated string, err error)
}

// NotMigratedError reports that a heap of another engine cannot be migrated.
type NotMigratedError struct {
	// Why is the reason as a clause.
	Why string
}

// Error returns the reason.
func (e *NotMigratedError) Error() string { return "the heap cannot be migrated: " + e.Why }

// ErrMigrationUnfinished is returned by Migrations.Migrate after its share of time. What it has
// reached is recorded, and the run gives its slot to others meanwhile.
var ErrMigrationUnfinished = errors.New("the migration of the heap continues when the run is delivered again")

// Memory limits the memory that the heaps of runs take in this process.
type Memory interface {
	// OpenAccount opens an account for a run. Reading a heap under the returned context
	// first reserves memory for the heap in the account, which may block.
	OpenAccount(ctx context.Context) (context.Context, MemoryAccount)
}

// MemoryAccount is the memory account of one run. It belongs to one goroutine at a
// time.
type MemoryAccount interface {
	// Reserve waits for memory for one heap and reserves it in place of the previous
	// reservation. It fails only with ctx's error.
	Reserve(ctx context.Context, bytes int64) error
	// Release returns the memory. The caller MUST NOT refer to a heap afterwards.
	Release()
}

// unboundedMemory is the Memory of a runner without Options.Memory.
type unboundedMemory struct{}

func (unboundedMemory) OpenAccount(ctx context.Context) (context.Context, MemoryAccount) {
	return ctx, unboundedMemory{}
}
func (unboundedMemory) Reserve(context.Context, int64) error { return nil }
func (unboundedMemory) Release()                             {}

// Texts reads sources, and the values passed to runs, that are too large for an event.
type Texts interface {
	// Text returns a text after it checked the hash. It returns events.ErrNotFound if the
	// tenant never stored the text, events.ErrShredded if its content key is missing,
	// events.ErrDamaged if its bytes do not match the hash, and another error if the store
	// cannot answer now.
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}
