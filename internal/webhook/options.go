package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"daybook/events"
)

// Journal keeps the events about webhooks.
type Journal interface {
	// Append stores an event; with after not negative only if that is the
	// position of the last event on its subject. It returns its position.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
	// Webhooks calls fn with every event about webhooks on record, in order.
	Webhooks(ctx context.Context, fn func(events.Event) error) error
}

// Feed is the ledger as a sequence.
type Feed interface {
	// Read returns up to limit events stored after a position.
	Read(ctx context.Context, after uint64, limit int) ([]events.Event, error)
	// LastSeq is the position of the newest event.
	LastSeq(ctx context.Context) (uint64, error)
	// Follow calls fn with each batch of events after a position until ctx ends
	// or fn fails.
	Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error
}

// Reads admits readers of the ledger.
type Reads interface {
	// Enter waits until a tenant may read, and returns a context to read with. The caller
	// MUST call leave.
	Enter(ctx context.Context, tenant string) (inside context.Context, leave func(), err error)
}

// unlimited admits everybody.
type unlimited struct{}

func (unlimited) Enter(ctx context.Context, _ string) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// Options set up a Service. Journal, Feed, Dir and SessionOf are required.
type Options struct {
	Journal Journal
	Feed    Feed
	// Dir is where secrets and positions are kept, for this package alone.
	Dir string
	// SessionOf returns the sessions of a tenant's execution, as events.Selector says.
	SessionOf func(ctx context.Context, tenant string, seq uint64, execution string) ([]string, error)
	// Reads shares the processor time for reading the ledger between tenants. Default:
	// no limit.
	Reads Reads
	// AllowPrivate lets deliveries go to this machine and private networks, and
	// over plain HTTP.
	AllowPrivate bool
	// Timeout bounds one attempt, from dialling to the end of the answer; default
	// 20 s.
	Timeout time.Duration
	// Attempts is how often an event is tried before it is a dead letter; default
	// 15: with the default pauses, for an hour and a quarter.
	Attempts int
	// BackoffFirst is the pause after the first failure, doubled with each one
	// more up to BackoffMax; defaults 1 s and 15 min.
	BackoffFirst, BackoffMax time.Duration
	// MaxPerTenant bounds the webhooks of one tenant; default 64.
	MaxPerTenant int
	// Logger gets what nobody is told otherwise; default slog.Default.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Journal == nil || o.Feed == nil || o.Dir == "" || o.SessionOf == nil {
		return o, errors.New("webhook: Journal, Feed, Dir and SessionOf must all be set")
	}
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.Attempts = cmp.Or(o.Attempts, 15)
	o.BackoffFirst = cmp.Or(o.BackoffFirst, time.Second)
	o.BackoffMax = max(cmp.Or(o.BackoffMax, 15*time.Minute), o.BackoffFirst)
	o.MaxPerTenant = cmp.Or(o.MaxPerTenant, 64)
	if o.Reads == nil {
		o.Reads = unlimited{}
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, nil
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
