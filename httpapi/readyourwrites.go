package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"daybook/events"
	"daybook/internal/resources/reads"
)

// freshWait is how long a read waits for the position it needs.
const freshWait = 5 * time.Second

// edgeWait is how long a read waits for the ledger to say where it ends.
const edgeWait = 4500 * time.Millisecond

// highWater is the highest position this handler has answered a write with.
type highWater struct{ seq atomic.Uint64 }

func (h *highWater) raise(seq uint64) {
	for {
		old := h.seq.Load()
		if seq <= old || h.seq.CompareAndSwap(old, seq) {
			return
		}
	}
}

// sequenceHeader is the header of Written.
const sequenceHeader = "Daybook-Sequence"

// Written is the answer header of every write.
type Written struct {
	Sequence uint64 `header:"Daybook-Sequence" doc:"Position of the write in the ledger. Send it as Daybook-Min-Sequence to read what was written, from any server."`
}

// wroteAt remembers a write, for later reads, and makes its header.
func (a *api) wroteAt(seq uint64) Written {
	a.wrote.raise(seq)
	return Written{Sequence: seq}
}

// Reading is embedded in the input of every read. Like the other embedded
// parts of inputs and outputs it is exported for huma, which sees only those.
type Reading struct {
	MinSequence uint64 `header:"Daybook-Min-Sequence" doc:"Wait up to 5 s until the answer includes this position of the ledger, else 503."`
}

// found reads something by its name. What is not found may only be too new for
// the read side, written through another interface or process: then it is read
// again once the read side has come to where the ledger ends now.
func found[T any](ctx context.Context, a *api, read func() (T, error)) (T, error) {
	v, err := read()
	if !errors.Is(err, events.ErrNotFound) {
		return v, err
	}
	asking, stop := context.WithTimeout(ctx, edgeWait)
	edge, edgeErr := a.events.LastSeq(asking)
	stop()
	if edgeErr != nil {
		a.brokeOff(ctx, "reading the end of the ledger", edgeErr)
		return v, unavailable("it is unknown now whether this is recorded: the ledger's NATS server cannot be reached, hangs or is overloaded; try again")
	}
	if edge <= a.q.Applied() {
		return v, err
	}
	if err := a.waitForPosition(ctx, Reading{MinSequence: edge}); err != nil {
		return v, err
	}
	return read()
}

// waitForPosition waits until the read side has applied what the client asks for and
// what was written through this handler: reads follow own writes unasked.
func (a *api) waitForPosition(ctx context.Context, in Reading) error {
	if err := a.q.Damage(); err != nil {
		return fmt.Errorf("the read side has stopped: %w", errors.Join(err, events.ErrDamaged))
	}
	want := max(in.MinSequence, a.wrote.seq.Load())
	if want <= a.q.Applied() {
		return nil
	}
	waiting, stop := context.WithTimeout(ctx, freshWait)
	defer stop()
	err := reads.Wait(ctx, func() error { return a.q.Wait(waiting, want) })
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		a.sawLate(ctx, want)
		f := unavailable("the read side has come to position %d, not yet to %d; try again", a.q.Applied(), want)
		return fmt.Errorf("%w: %w", errLate, f)
	}
	return err
}
