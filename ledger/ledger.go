// Package ledger is the write side of Daybook: the commands, the rules they
// obey, and the events they append. It decides from the stream alone, by
// expected positions, never from a projection.
//
// Commands come from two sides. Clients submit, cancel and tag (submit.go,
// cancel.go, tags.go); runners plan, start, report and finish runs (attempt.go,
// output.go, finish.go, finalize.go). Both end in an append whose acknowledgement
// means the event is on disk.
//
// The package knows no NATS, V8, SQLite or HTTP; what it needs of the world it
// declares here as small interfaces.
package ledger

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"daybook/events"
)

// Log stores events.
type Log interface {
	// Append stores e and returns its position once it is on disk. With
	// AnyPosition it appends unconditionally; otherwise after MUST be the
	// position of the last event on e's subject (0: none yet), else nothing is
	// stored and the error is events.ErrConflict. A repeated append of the same
	// event id after an unknown outcome is stored once.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
}

// AnyPosition tells Append to expect nothing.
const AnyPosition int64 = -1

// Histories reads events back by what they concern, oldest first, straight
// from the stream.
type Histories interface {
	// Execution returns the requested event and then every other control event
	// of an execution (not its output). It is empty for an unknown execution.
	Execution(ctx context.Context, tenant, execution string) ([]events.Event, error)
	// LastControl returns the last of the control events of an execution besides the
	// requested one, or events.ErrNotFound. It does not read the requested event.
	LastControl(ctx context.Context, tenant, execution string) (events.Event, error)
	// ExecutionEvents calls fn with every event of an execution stored before the
	// call, output too, in order. Without any it is events.ErrNotFound.
	ExecutionEvents(ctx context.Context, tenant, execution string, fn func(events.Event) error) error
	// Output calls fn for each output event of an execution stored after the
	// given position.
	Output(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error
	// LastEntry returns the newest entry or reset of a named session, or
	// events.ErrNotFound. The session is named by its key (events.SessionID).
	LastEntry(ctx context.Context, tenant, sessionID string) (events.Event, error)
	// SessionLog calls fn for each event on the subject of a named session, its
	// entries and resets, stored after a position, oldest first.
	SessionLog(ctx context.Context, tenant, sessionID string, after uint64, fn func(events.Event) error) error
	// Entry returns the session entry of an execution, or events.ErrNotFound,
	// looking only at entries stored after the given position.
	Entry(ctx context.Context, tenant, sessionID, execution string, after uint64) (events.Event, error)
	// TagEdits returns the tag edits of a heap, and the events that it was
	// collected by, and the position of the last event on the heap's subject (0:
	// none), for a conditional append.
	TagEdits(ctx context.Context, tenant, heap string) ([]events.Event, uint64, error)
	// HeapEvents calls fn for each event stored after a position on a heap's
	// subject, which other heaps share, and returns the position of the last one
	// there (0: none).
	HeapEvents(ctx context.Context, tenant, heap string, after uint64, fn func(events.Event) error) (last uint64, err error)
}

// Heaps stores heap blobs by tenant and hash.
type Heaps interface {
	// HeapInfo describes a stored heap, or returns events.ErrNotFound, or
	// events.ErrRemoved for one that was removed on purpose.
	HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
	// VerifyHeap reads a heap and checks its hash. The errors are those of HeapInfo,
	// and events.ErrDamaged.
	VerifyHeap(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
	// LostHeap returns the position of the event that records the loss of a heap
	// with accepted damage, or events.ErrNotFound.
	LostHeap(ctx context.Context, tenant, hash string) (uint64, error)
}

// Texts stores text too large for an event, by tenant and hash.
type Texts interface {
	// PutText stores text under its hash; storing it again costs nothing.
	PutText(ctx context.Context, tenant string, text []byte) (hash string, err error)
	// PutEncryptedText stores text encrypted under a key, under the hash of that.
	PutEncryptedText(ctx context.Context, tenant, keyID string, text []byte) (hash string, err error)
	// Text returns a stored text after checking its hash, events.ErrNotFound, or
	// events.ErrDamaged.
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// Canceller reaches the runner of an execution.
type Canceller interface {
	// IsHeld reports whether a runner holds the execution now: it waits a few seconds
	// at most for an answer.
	IsHeld(ctx context.Context, tenant, execution string) (bool, error)
	// RequestCancel asks whoever runs the execution to stop it and waits for
	// the answer. It reports false when nobody runs it or nobody answered in
	// time; the caller then ends the execution itself.
	RequestCancel(ctx context.Context, tenant, execution string) (answered bool, err error)
}

// Releaser reaches the queue of requests.
type Releaser interface {
	// Release has a request delivered to a runner at once that was given back with
	// a delay, and waits until that is noted. It does nothing to a request that was
	// never delivered or is acknowledged.
	Release(ctx context.Context, tenant, pool string, position uint64) error
}

// Store is everything the ledger needs of the world.
type Store interface {
	Log
	Histories
	Heaps
	Texts
	Canceller
	Releaser
	Sessions
	Agents
}

// Options set up a Ledger. The zero value works.
type Options struct {
	// Pool is the pool runs are submitted to; default events.DefaultPool.
	Pool string
	// Stateless makes every run a plain one: no heap in, none out.
	Stateless bool
	// HeapMemoryMB is the default heap limit in MiB (64), HeapMemoryCeilingMB
	// the largest a request may ask for (256; never below the default).
	HeapMemoryMB        int
	HeapMemoryCeilingMB int
	// TimeoutSecs is the default wall-clock limit in seconds (30).
	TimeoutSecs int
	// OutputMaxBytes caps stored output per run: 0 is the default of 64 MiB,
	// negative is uncapped.
	OutputMaxBytes int64
	// EngineID is the engine of the runners, when known: a heap made by another
	// is then refused at once. Empty leaves that to the runner.
	EngineID string
	// HostCallHashes keeps of what scripts call and get only the hashes.
	HostCallHashes bool
	// Keys are those that content is encrypted under; nil without. Erasable encrypts
	// the content of runs in a named session, so that it can be erased.
	Keys                 Keys
	EncryptNamedSessions bool
	// AnswerWait is how long a client's command may take; default 4.5 s. A ledger
	// that takes longer is CodeUnavailable.
	AnswerWait time.Duration
	// CancelWait is how long Cancel waits for a runner (2 s).
	CancelWait time.Duration
	// TurnGrace is how long a turn of a session waits for its run to be requested
	// before it is passed over (5 s).
	TurnGrace time.Duration
	// SessionTurns is how many turns of a logical session may wait at once; 0 is
	// the default of 1,000, negative is unlimited.
	SessionTurns int
	// Admit, if set, decides whether a tenant may have one more run. The ledger calls it
	// for a submission that is valid and whose idempotency key is unused, before it
	// records or stores anything. Admit may remove the conversation context of s and add
	// warnings. An error refuses the run: an *Error is the answer, an
	// *events.UnwritableError the reason of a CodeUnavailable.
	// After a nil error the ledger calls done once: with the position of the recorded
	// request, or with 0 if nothing was recorded or another submission was first with
	// the key. Nil: every run is admitted.
	Admit func(ctx context.Context, s *Submission) (done func(seq uint64), err error)
	// Lost, if set, tells which event names events after a position as lost, and false
	// where none are.
	Lost func(after uint64) (namedAt uint64, lost bool)
	// Now is the clock; default time.Now.
	Now func() time.Time
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

// Ledger is the write side. It is safe for concurrent use and holds no state
// that cannot be lost.
type Ledger struct {
	store Store
	opts  Options
	// sessions and heaps serialize, within this process, the writers of one
	// session's entries and of one bucket of tag edits. They only spare
	// conflicts and keep entries in the order of terminal events; correctness
	// rests on expected positions alone.
	sessions, heaps keyedLocks
	// heads and tagged spare look-ups.
	heads  headCache
	tagged tagged
}

// New makes a ledger over a store. It starts nothing.
func New(store Store, opts Options) *Ledger {
	return &Ledger{store: store, opts: opts.withDefaults()}
}

func (o Options) withDefaults() Options {
	o.Pool = cmp.Or(o.Pool, events.DefaultPool)
	o.HeapMemoryMB = cmp.Or(o.HeapMemoryMB, 64)
	o.HeapMemoryCeilingMB = max(cmp.Or(o.HeapMemoryCeilingMB, 256), o.HeapMemoryMB)
	o.TimeoutSecs = cmp.Or(o.TimeoutSecs, 30)
	o.OutputMaxBytes = max(cmp.Or(o.OutputMaxBytes, 64<<20), -1)
	o.SessionTurns = cmp.Or(o.SessionTurns, defaultSessionTurns)
	o.TurnGrace = cmp.Or(o.TurnGrace, turnGrace)
	o.AnswerWait = cmp.Or(o.AnswerWait, answerWait)
	o.CancelWait = cmp.Or(o.CancelWait, 2*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// commitTimeout is how long an append of a runner may take once it is decided.
const commitTimeout = 30 * time.Second

func (l *Ledger) event(tenant, traceparent string, d events.Data) events.Event {
	e := events.New(tenant, l.opts.Now(), d)
	e.Traceparent = traceparent
	return e
}
