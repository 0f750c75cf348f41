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

// Journal stores the events about webhooks.
type Journal interface {
	// Append stores an event and returns its position. If after is not negative, the
	// event is stored only if after is the position of the last event on its subject.
	Append(ctx context.Context, e events.Event, after int64) (uint64, error)
	// EachMatching calls fn with every recorded event on the subjects of a pattern of
	// package events, in order.
	EachMatching(ctx context.Context, pattern string, fn func(events.Event) error) error
}

// Feed reads the ledger as a sequence.
type Feed interface {
	// Read returns up to limit events stored after a position.
	Read(ctx context.Context, after uint64, limit int) ([]events.Event, error)
	// LastSeq returns the position of the newest event.
	LastSeq(ctx context.Context) (uint64, error)
	// Follow calls fn with each batch of events after a position, until ctx is done or
	// fn fails.
	Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error
}

// Reads admits readers of the ledger.
type Reads interface {
	// Enter waits until a tenant may read and returns the context for the reads. The
	// caller MUST call leave.
	Enter(ctx context.Context, tenant string) (inside context.Context, leave func(), err error)
}

// unlimited admits every reader.
type unlimited struct{}

func (unlimited) Enter(ctx context.Context, _ string) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// Options configures a Service. Journal, Feed, Dir and SessionOf are required.
type Options struct {
	Journal Journal
	Feed    Feed
	// Dir is the directory of secrets and positions. Only this package uses it.
	Dir string
	// SessionOf returns the sessions of a tenant's execution; see events.Selector.
	SessionOf func(ctx context.Context, tenant string, seq uint64, execution string) ([]string, error)
	// Reads shares the processor time for reading the ledger between tenants. Default:
	// no limit.
	Reads Reads
	// AllowPrivate permits deliveries to this machine and to private networks, and over
	// plain HTTP.
	AllowPrivate bool
	// Timeout limits one attempt, from dialing to the end of the response. Default: 20 s.
	Timeout time.Duration
	// Attempts is the number of attempts after which an event becomes a dead letter.
	// Default: 15, which takes an hour and a quarter with the default pauses.
	Attempts int
	// BackoffFirst is the pause after the first failed attempt. It doubles after each
	// further one, up to BackoffMax. Defaults: 1 s and 15 min.
	BackoffFirst, BackoffMax time.Duration
	// MaxPerTenant is the maximum number of webhooks of a tenant. Default: 64.
	MaxPerTenant int
	// Logger receives errors that no caller can receive. Default: slog.Default().
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
