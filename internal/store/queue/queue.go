package queue

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
)

// Options configure a Queue. The zero value works.
type Options struct {
	// AckWait is the ack deadline: a request without a heartbeat for this long is
	// delivered to another runner. Runners send heartbeats about three times as often.
	// Default: 10 s.
	AckWait time.Duration
	// Exclusive states that no other process takes requests of this ledger. Requests that
	// an earlier process left unacknowledged are then delivered again immediately and
	// not after AckWait, and cancel requests do not pass through the server.
	Exclusive bool
	// Hold, if set, returns the reason why no requests may be taken now, or nil.
	Hold func() error
}

// Ledger holds the requests. *stream.Ledger implements and documents it.
type Ledger interface {
	Live() (list []stream.LiveVolume, active stream.LiveVolume)
	Active() stream.LiveVolume
	IsLive(n events.Volume) bool
	LiveAt(position uint64) (stream.LiveVolume, bool)
	Refresh(ctx context.Context) error
	Reload(ctx context.Context)
	GetIn(ctx context.Context, n events.Volume, r jet.Request) (events.Stored, error)
	GetBatchIn(ctx context.Context, n events.Volume, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error)
	LastFrom(ctx context.Context, position uint64, subject string) (events.Stored, error)
	Decode(m events.Stored) (events.Event, error)
	DecryptEvent(e events.Event, err error) (events.Event, error)
	Lost() events.Lost
}

// Queue delivers the run requests in the ledger, and forwards cancel requests. It is
// safe for concurrent use and needs no closing.
type Queue struct {
	jet    *jet.Client
	ledger Ledger
	opts   Options
	// holders holds the runs of this process. It is used only with Options.Exclusive.
	holders holders
	// prepared holds the workKey of each consumer that is known to exist in the volume
	// preparing, which is 0 at first.
	prepared  sync.Map
	preparing atomic.Int64
	// forgetAfter is the constant, except in tests.
	forgetAfter time.Duration
	// lookInterval is the constant, except in tests.
	lookInterval time.Duration
	// cancelTimeout is the constant, except in tests.
	cancelTimeout time.Duration
}

// New returns a Queue over a ledger. The ledger MUST call Prepare before it stores an
// event.
func New(client *jet.Client, ledger Ledger, opts Options) *Queue {
	opts.AckWait = cmp.Or(opts.AckWait, 10*time.Second)
	return &Queue{jet: client, ledger: ledger, opts: opts, forgetAfter: forgetAfter, lookInterval: lookInterval, cancelTimeout: cancelTimeout}
}

// holdReason returns the reason why no requests may be taken, because their events could not
// be recorded, or nil.
func (s *Queue) holdReason() error {
	if s.opts.Hold != nil {
		if err := s.opts.Hold(); err != nil {
			return err
		}
	}
	return s.jet.Unwritable()
}
