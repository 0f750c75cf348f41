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
	// Append stores e and returns its position once the event is on disk. If after is
	// negative, Append is unconditional. Otherwise after is the expected position of
	// the last event on e's subject (0: no event yet), and a mismatch returns
	// events.ErrConflict.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
	// Last returns the last event on a subject of package events, or events.ErrNotFound.
	Last(ctx context.Context, subject string) (events.Event, error)
	// LastSeq returns the position of the last event.
	LastSeq(ctx context.Context) (uint64, error)
}

// Views reads contexts from the projections. *projections.Store implements it.
type Views interface {
	// Context returns a context by its key, or events.ErrNotFound.
	Context(ctx context.Context, tenant, key string) (projections.ContextState, error)
	// IdleContexts returns at most limit contexts that were not used since a time:
	// contexts with content, and all contexts of connections.
	IdleContexts(ctx context.Context, since time.Time, limit int) ([]projections.IdleContext, error)
	// Watch signals after each commit that concerns a context, until stop is called.
	Watch(tenant, key string) (changed <-chan struct{}, stop func())
	// Wait returns when all events up to seq can be read.
	Wait(ctx context.Context, seq uint64) error
}

// Options configures a Store. Log and Views are required.
type Options struct {
	Log   Log
	Views Views
	// Enter waits until a client of the tenant may edit a context, or returns the
	// reason why the edit is refused. It is called before the context is locked.
	// Default: edits are always allowed.
	Enter func(ctx context.Context, tenant string) error
	// Keep returns the reason why a tenant cannot record a context whose key is not
	// recorded yet, or nil. Reads of such a context carry the reason as a warning.
	// Default: nil.
	Keep func(ctx context.Context, tenant, key string) error
	// Silent returns the reason why the ledger currently gives no answers, or nil.
	// Default: nil.
	Silent func() error
	// Check returns the reason why the ledger cannot serve now, or nil. Health calls
	// it. Default: nil.
	Check func(ctx context.Context) error
	// MaxSessions bounds the number of contexts in memory. MaxBytes bounds their
	// approximate size in bytes. Default: 10,000 contexts and 64 MiB.
	MaxSessions int
	MaxBytes    int64
	// HighWaterBytes is the size of the Go heap from which each sweep evicts a fifth of
	// the contexts. Default: 512 MiB.
	HighWaterBytes uint64
	// IdleTTL is the idle time after which a context expires. Default: 30 min.
	IdleTTL time.Duration
	// TenantScope shares the context of a session name among all principals of a
	// tenant. Otherwise each principal with a token has a separate context.
	TenantScope bool
	// SecretKeys lists further parts of names, in lower case, whose values are left out
	// of contexts.
	SecretKeys []string
	// Encrypt returns the id of the key under which the content of an event is encrypted;
	// empty for none. earlier is the key of content that the event repeats, or empty. The key
	// is not destroyed until done is called, which is after the append. The error wraps
	// events.ErrShredded if the earlier key was destroyed. Default: nothing is encrypted.
	Encrypt func(tenant, earlier string) (keyID string, done func(), err error)
	// WithoutAnswers omits summaries and hashes of results and resources, and arguments of
	// commands, from recorded notes: they may be content of sessions, and shredding a session
	// does not reach the notes.
	WithoutAnswers bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// HeapBytes returns the size of the Go heap in bytes. Default: the value of the
	// runtime.
	HeapBytes func() uint64
	// Logger receives each read at debug level, and failures that no caller receives.
	// Default: slog.Default.
	Logger *slog.Logger
}

const (
	// callTimeout bounds a call, so that the client has its answer within 5 s. A note
	// that cannot be recorded by then is recorded later.
	callTimeout   = 4500 * time.Millisecond
	sweepInterval = time.Minute
	flushInterval = time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Log == nil || o.Views == nil {
		return o, errors.New("create context store: Log and Views must be set")
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
	if o.Encrypt == nil {
		o.Encrypt = func(string, string) (string, func(), error) { return "", func() {}, nil }
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
