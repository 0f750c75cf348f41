package replay

import (
	"context"
	"hash/fnv"
	"log/slog"
	"time"

	"daybook/events"
)

// maxSampled is the maximum number of executions of the sample that wait. The next pass of
// the scrub selects the others again.
const maxSampled = 256

// SamplerOptions configure a Sampler. All but Poll are required.
type SamplerOptions struct {
	// Every selects one execution in so many, by its id.
	Every int
	// IsIdle reports whether the server executes nothing.
	IsIdle func() bool
	// Poll is the time between two calls of IsIdle. Default: 1 s.
	Poll time.Duration
	// IsReplayed reports whether the present engine has replayed an execution before.
	IsReplayed func(ctx context.Context, tenant, execution string) (bool, error)
	// Replay replays an execution and records the verdict.
	Replay func(ctx context.Context, tenant, execution string) error
	Logger *slog.Logger
}

// Sampler replays a sample of the executions in the ledger, one at a time, while the server
// is idle. Each engine replays an execution of the sample once. Offer and Run are safe for
// concurrent use.
type Sampler struct {
	opts    SamplerOptions
	waiting chan sampled
}

type sampled struct{ tenant, execution string }

// NewSampler returns a Sampler. The caller MUST call Run to start it.
func NewSampler(opts SamplerOptions) *Sampler {
	if opts.Poll == 0 {
		opts.Poll = time.Second
	}
	return &Sampler{opts, make(chan sampled, maxSampled)}
}

// Offer takes an event of the ledger. It never blocks.
func (s *Sampler) Offer(e *events.Event) {
	end := events.EndingOf(e.Data)
	if end == nil || !s.selects(end.ExecutionID) {
		return
	}
	select {
	case s.waiting <- sampled{e.Tenant, end.ExecutionID}:
	default:
	}
}

// selects reports whether an execution is in the sample. Each pass selects the same ones.
func (s *Sampler) selects(execution string) bool {
	h := fnv.New64a()
	_, _ = h.Write([]byte(execution))
	return h.Sum64()%uint64(s.opts.Every) == 0
}

// Run replays the selected executions until ctx is done.
func (s *Sampler) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-s.waiting:
			if s.waitIdle(ctx) != nil {
				return
			}
			if err := s.replay(ctx, next); err != nil && ctx.Err() == nil {
				s.opts.Logger.InfoContext(ctx, "an execution of the sample is not replayed", "tenant", next.tenant, "execution", next.execution, "err", err)
			}
		}
	}
}

func (s *Sampler) replay(ctx context.Context, next sampled) error {
	known, err := s.opts.IsReplayed(ctx, next.tenant, next.execution)
	if known || err != nil {
		return err
	}
	return s.opts.Replay(ctx, next.tenant, next.execution)
}

func (s *Sampler) waitIdle(ctx context.Context) error {
	poll := time.NewTicker(s.opts.Poll)
	defer poll.Stop()
	for !s.opts.IsIdle() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-poll.C:
		}
	}
	return nil
}
