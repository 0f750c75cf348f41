package ledger

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"daybook/events"
)

// Log appends events.
type Log interface {
	// Append stores e and returns its position once it is on disk. With AnyPosition it
	// appends unconditionally. Otherwise after MUST be the position of the last event on
	// e's subject (0: none yet); if it is not, nothing is stored and the error is
	// events.ErrConflict. An append of the same event id that is repeated after an
	// unknown outcome is stored once.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
}

// AnyPosition makes Append unconditional.
const AnyPosition int64 = -1

// Histories reads events from the ledger, oldest first. A subject is one that package
// events returns for an object, not a pattern.
type Histories interface {
	// Execution returns the requested event of an execution and then its other control
	// events, without output. It returns no events for an unknown execution.
	Execution(ctx context.Context, tenant, execution string) ([]events.Event, error)
	// ExecutionEvents calls fn with every event of an execution after a position that was
	// stored before the call, including output, in order. The error is events.ErrNotFound if
	// the execution has none.
	ExecutionEvents(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error
	// Last returns the newest event on a subject, or events.ErrNotFound.
	Last(ctx context.Context, subject string) (events.Event, error)
	// LastWithOther returns the newest event on a subject, or the zero Event, and the
	// position of the newest event on another subject if that is newer (0: it is not).
	LastWithOther(ctx context.Context, subject, other string) (last events.Event, newer uint64, err error)
	// Next returns the first event on a subject stored after a position, or
	// events.ErrNotFound.
	Next(ctx context.Context, subject string, after uint64) (events.Event, error)
	// Each calls fn for each event on a subject stored after a position and before the
	// call. It returns the position of the last event on the subject (0: none), for a
	// conditional append. An error of fn stops it and is returned unchanged.
	Each(ctx context.Context, subject string, after uint64, fn func(events.Event) error) (last uint64, err error)
	// EachAbout is Each for a subject that objects share: it reads only the events about
	// one object, by its id. last is the position of the last event on the subject, about
	// any object.
	EachAbout(ctx context.Context, subject, about string, after uint64, fn func(events.Event) error) (last uint64, err error)
	// EachAboutUntil is EachAbout for the events at positions up to until.
	EachAboutUntil(ctx context.Context, subject, about string, after, until uint64, fn func(events.Event) error) error
	// Removed returns the newest removal of a volume, or the zero value if none was removed.
	Removed() events.Removal
}

// Heaps describes heap blobs by tenant and hash.
type Heaps interface {
	// HeapInfo returns the metadata of a stored heap. Errors are events.ErrNotFound, and
	// events.ErrRemoved for a heap that was removed deliberately.
	HeapInfo(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
	// VerifyHeap reads a heap and checks its hash. Errors are those of HeapInfo and
	// events.ErrDamaged.
	VerifyHeap(ctx context.Context, tenant, hash string) (events.HeapInfo, error)
	// LostHeap returns the position of the event that records the loss of a heap
	// with accepted damage, or events.ErrNotFound.
	LostHeap(ctx context.Context, tenant, hash string) (uint64, error)
}

// Texts stores text that is too large for an event, by tenant and hash.
type Texts interface {
	// PutText stores text under its hash. The same text is stored only once.
	PutText(ctx context.Context, tenant string, text []byte) (hash string, err error)
	// PutEncryptedText stores text encrypted with a content key, under the hash of the
	// encrypted text.
	PutEncryptedText(ctx context.Context, tenant, keyID string, text []byte) (hash string, err error)
	// Text returns a stored text, decrypted if it is encrypted, after it has checked the
	// hash. Errors are events.ErrNotFound, events.ErrShredded and events.ErrDamaged.
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// Canceller reaches the runner of an execution.
type Canceller interface {
	// IsHeld reports whether a runner holds the execution now. It waits at most a few
	// seconds for an answer.
	IsHeld(ctx context.Context, tenant, execution string) (bool, error)
	// RequestCancel asks the runner of an execution to stop it and waits for the answer.
	// It returns false if there is no runner or no answer in time; the caller MUST then
	// end the execution.
	RequestCancel(ctx context.Context, tenant, execution string) (answered bool, err error)
}

// Releaser reaches the queue of requests.
type Releaser interface {
	// Release makes the queue deliver a delayed request to a runner immediately. It
	// returns once the queue has noted that. It does nothing to a request that was never
	// delivered or is acknowledged.
	Release(ctx context.Context, tenant, pool string, position uint64) error
}

// Store is the set of everything that a Ledger reads and writes.
type Store interface {
	Log
	Histories
	Heaps
	Texts
	Canceller
	Releaser
}

// Options configures a Ledger. The zero value is valid.
type Options struct {
	// Pool is the pool that runs are submitted to. Default: events.DefaultPool.
	Pool string
	// Stateless runs every script in a fresh isolate and saves no heap.
	Stateless bool
	// HeapMemoryMB is the default heap limit in MiB. Default: 64. HeapMemoryCeilingMB is
	// the maximum of a request. Default: 256, but at least HeapMemoryMB.
	HeapMemoryMB        int
	HeapMemoryCeilingMB int
	// TimeoutSecs is the default wall-clock limit in seconds. Default: 30.
	TimeoutSecs int
	// OutputMaxBytes limits the stored output of a run in bytes. Default: 64 MiB. A
	// negative value means no limit.
	OutputMaxBytes int64
	// EngineID is the engine of the runners, if known. A heap of another engine is then
	// refused immediately. If EngineID is empty, the runner checks the engine.
	EngineID string
	// MigratesHeaps reports whether the runners migrate heaps of other engines. Such a heap
	// is then refused only if its migration is recorded as different.
	MigratesHeaps bool
	// HostCallHashes records only the hashes of the arguments and answers of host calls.
	HostCallHashes bool
	// Keys holds the content keys; nil for none. EncryptContent encrypts content under the
	// key of its session, or under the key of content without a session, so that it can be
	// shredded.
	Keys           Keys
	EncryptContent bool
	// AnswerTimeout is the time limit of a client's command. A command that takes longer
	// fails with CodeUnavailable. Default: 4.5 s.
	AnswerTimeout time.Duration
	// CancelTimeout is the time that Cancel waits for a runner. Default: 2 s.
	CancelTimeout time.Duration
	// TurnGrace is the time that a turn of a logical session waits for the request of its
	// run. After that the session skips the turn. Default: 5 s.
	TurnGrace time.Duration
	// SessionTurns is the maximum number of waiting turns of a logical session. Default:
	// 1,000. A negative value means no limit.
	SessionTurns int
	// Admit, if set, decides whether a tenant may have one more run. The ledger calls it
	// for a valid submission whose idempotency key is unused, before it records or stores
	// anything. Admit may remove the conversation context of s and add warnings. An error
	// refuses the run: an *Error is the answer, and an *events.UnwritableError becomes a
	// CodeUnavailable with its reason. If the error is nil, the ledger calls done once:
	// with the position of the recorded request, or with 0 if nothing was recorded or
	// another submission used the key first. Default: every run is admitted.
	Admit func(ctx context.Context, s *Submission) (done func(seq uint64), err error)
	// FindLoss, if set, returns the position of the event that records events after a
	// position as lost. It returns false if none are lost.
	FindLoss func(after uint64) (namedAt uint64, lost bool)
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger receives errors that no caller can receive. Default: slog.Default().
	Logger *slog.Logger
}

// Ledger is the write side. It is safe for concurrent use and holds no state that cannot
// be lost.
type Ledger struct {
	recordReader // reads through store, with the keys of opts

	store Store
	opts  Options
	// sessions and heaps serialize, within this process, the writers of the entries of
	// one session and of the tag edits of one heap. They avoid conflicts and keep
	// entries in the order of terminal events. Correctness depends on expected positions
	// only.
	sessions, heaps keyedLocks
	// heads and refs are caches.
	heads headCache
	refs  refCache
}

// New returns a Ledger that uses store. It starts nothing.
func New(store Store, opts Options) *Ledger {
	return &Ledger{recordReader: recordReader{store, opts.Keys}, store: store, opts: opts.withDefaults()}
}

func (o Options) withDefaults() Options {
	o.Pool = cmp.Or(o.Pool, events.DefaultPool)
	o.HeapMemoryMB = cmp.Or(o.HeapMemoryMB, 64)
	o.HeapMemoryCeilingMB = max(cmp.Or(o.HeapMemoryCeilingMB, 256), o.HeapMemoryMB)
	o.TimeoutSecs = cmp.Or(o.TimeoutSecs, 30)
	o.OutputMaxBytes = max(cmp.Or(o.OutputMaxBytes, 64<<20), -1)
	o.SessionTurns = cmp.Or(o.SessionTurns, defaultSessionTurns)
	o.TurnGrace = cmp.Or(o.TurnGrace, turnGrace)
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, defaultAnswerTimeout)
	o.CancelTimeout = cmp.Or(o.CancelTimeout, 2*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func (l *Ledger) newEvent(tenant, traceparent string, d events.Data) events.Event {
	e := events.New(tenant, l.opts.Now(), d)
	e.Traceparent = traceparent
	return e
}
