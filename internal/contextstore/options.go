package contextstore

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime/metrics"
	"time"

	"daybook/events"
	"daybook/projections"
)

// Log stores events about contexts.
type Log interface {
	// Append stores e and returns its position once it is on disk. With a negative
	// after it appends unconditionally; otherwise after must be the position of the
	// last event on e's subject (0: none yet), else the error is events.ErrConflict.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
	// LastContext returns the last edit of a context, or events.ErrNotFound.
	LastContext(ctx context.Context, tenant, key string) (events.Event, error)
	// LastSeq returns the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Views is the read side. *projections.Store implements it.
type Views interface {
	// Context returns a context by its key, or events.ErrNotFound.
	Context(ctx context.Context, tenant, key string) (projections.ContextState, error)
	// IdleContexts returns contexts that were not used since a time: those with something
	// in them, and all of connections.
	IdleContexts(ctx context.Context, since time.Time, limit int) ([]projections.IdleContext, error)
	// Watch signals after each commit about a context until stop is called.
	Watch(tenant, key string) (changed <-chan struct{}, stop func())
	// Wait returns once everything up to seq can be read.
	Wait(ctx context.Context, seq uint64) error
}

// Options set up a Store. Log and Views are required.
type Options struct {
	Log   Log
	Views Views
	// Enter waits until a client of a tenant may edit a context, or returns why it may
	// not. It is called before the context is locked. Default: it may.
	Enter func(ctx context.Context, tenant string) error
	// Keep returns why a context with a key that is not recorded yet cannot be kept for
	// a tenant, or nil. A context that cannot be kept is read with a warning. Default: nil.
	Keep func(ctx context.Context, tenant, key string) error
	// Silent returns why the ledger answers nothing now, or nil. Default: it answers.
	Silent func() error
	// Check reports why the ledger cannot serve now, or nil; for Health.
	Check func(ctx context.Context) error
	// MaxSessions and MaxBytes bound what is held in memory: contexts (10,000) and
	// their size in bytes as text (64 MiB).
	MaxSessions int
	MaxBytes    int64
	// HighWaterBytes is the size of the process's heap from which a fifth of the
	// contexts is dropped (512 MiB).
	HighWaterBytes uint64
	// IdleTTL is how long a context may go unused before it begins anew (30 min).
	IdleTTL time.Duration
	// TenantScope lets all principals of a tenant share the context of a session
	// name. Otherwise each principal with a token has one of its own.
	TenantScope bool
	// SecretKeys are parts of names, in lower case, whose values are kept out of
	// contexts, besides the usual ones.
	SecretKeys []string
	// WithoutAnswers keeps what answers and resources said, and their hashes, out of
	// what is recorded: it may be content that is to be erased one day.
	WithoutAnswers bool
	// Now is the clock; default time.Now.
	Now func() time.Time
	// HeapBytes is the size of the process's heap; default asks the runtime.
	HeapBytes func() uint64
	// Logger gets every read at debug level, and what nobody is told otherwise;
	// default slog.Default.
	Logger *slog.Logger
}

const (
	// answerWait is how long a call may take, so that the client has its answer within
	// 5 s. What cannot be recorded by then is recorded later.
	answerWait = 4500 * time.Millisecond
	// sweepInterval and flushInterval are how often Run looks for idle contexts and
	// records what was noted.
	sweepInterval = time.Minute
	flushInterval = time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil || o.Views == nil {
		return o, errors.New("conversation: Log and Views must both be set")
	}
	o.MaxSessions = cmp.Or(o.MaxSessions, 10_000)
	o.MaxBytes = cmp.Or(o.MaxBytes, 64<<20)
	o.HighWaterBytes = cmp.Or(o.HighWaterBytes, 512<<20)
	o.IdleTTL = cmp.Or(o.IdleTTL, 30*time.Minute)
	if o.Check == nil {
		o.Check = func(context.Context) error { return nil }
	}
	if o.Silent == nil {
		o.Silent = func() error { return nil }
	}
	if o.Enter == nil {
		o.Enter = func(context.Context, string) error { return nil }
	}
	if o.Keep == nil {
		o.Keep = func(context.Context, string, string) error { return nil }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.HeapBytes == nil {
		o.HeapBytes = heapBytes
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
