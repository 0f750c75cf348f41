package httpapi

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"daybook/events"
	"daybook/internal/resources/reads"
)

// positionTimeout bounds the wait of a read for the position that it needs.
const positionTimeout = 5 * time.Second

// edgeTimeout bounds the wait of a read for the newest position of the ledger.
const edgeTimeout = 4500 * time.Millisecond

// highWater is the highest position that this handler has returned for a write.
type highWater struct{ seq atomic.Uint64 }

func (h *highWater) advance(seq uint64) {
	for {
		old := h.seq.Load()
		if seq <= old || h.seq.CompareAndSwap(old, seq) {
			return
		}
	}
}

// sequenceHeader is the name of the header of Written.
const sequenceHeader = "Daybook-Sequence"

// Written is the header of the response to every write.
type Written struct {
	Sequence uint64 `header:"Daybook-Sequence" doc:"Position of the write in the ledger. Send it as Daybook-Min-Sequence to read the write from any server."`
}

// noteWrite notes the position of a write for later reads and returns its header.
func (a *api) noteWrite(seq uint64) Written {
	a.wrote.advance(seq)
	return Written{Sequence: seq}
}

// Reading is embedded in the inputs of all reads. Like the other embedded parts of
// inputs and outputs, it is exported because huma ignores unexported ones.
type Reading struct {
	MinSequence uint64 `header:"Daybook-Min-Sequence" doc:"Position of the ledger that the response must include. Waits up to 5 s, then answers 503."`
}

// readCurrent calls read, which looks up an object by its name. If read returns
// events.ErrNotFound, the object may have been written through another interface or
// process, and the projections may not have applied it yet. Then readCurrent waits until
// the projections have applied the newest event, and calls read again.
func readCurrent[T any](ctx context.Context, a *api, read func() (T, error)) (T, error) {
	v, err := read()
	if !errors.Is(err, events.ErrNotFound) {
		return v, err
	}
	asking, stop := context.WithTimeout(ctx, edgeTimeout)
	edge, edgeErr := a.events.LastSeq(asking)
	stop()
	if edgeErr != nil {
		a.logFailure(ctx, "end of the ledger not read", edgeErr)
		return v, unavailable("cannot determine whether the object is recorded: the ledger's NATS server cannot be reached, hangs or is overloaded; try again in a second")
	}
	if edge <= a.q.Applied() {
		return v, err
	}
	if err := a.waitForPosition(ctx, Reading{MinSequence: edge}); err != nil {
		return v, err
	}
	return read()
}

// waitForPosition waits until the projections have applied the position that the client
// asks for and all writes through this handler, so that clients read their own writes.
// It waits at most positionTimeout.
func (a *api) waitForPosition(ctx context.Context, in Reading) error {
	if err := a.q.Damage(); err != nil {
		return fmt.Errorf("the projections have stopped: %w", errors.Join(err, events.ErrDamaged))
	}
	want := max(in.MinSequence, a.wrote.seq.Load())
	if want <= a.q.Applied() {
		return nil
	}
	waiting, stop := context.WithTimeout(ctx, positionTimeout)
	defer stop()
	err := reads.Wait(ctx, func() error { return a.q.Wait(waiting, want) })
	if err != nil && ctx.Err() == nil && waiting.Err() != nil {
		a.countLateRead(ctx, want)
		f := unavailable("the projections have applied position %d, not yet position %d; try again in a second", a.q.Applied(), want)
		return fmt.Errorf("%w: %w", errLate, f)
	}
	return err
}

// lateLogInterval is the minimum time between two warnings about late reads: clients can
// cause any number of late reads.
const lateLogInterval = 10 * time.Second

// errLate is wrapped by the error of a late read.
var errLate = errors.New("late read")

// lateReads counts late reads: reads whose position the projections did not apply within
// positionTimeout.
type lateReads struct {
	reads  atomic.Uint64
	warned rate.Sometimes
	since  atomic.Uint64 // value of reads at the last warning
}

// countLateRead counts a late read and logs a warning, at most every lateLogInterval.
func (a *api) countLateRead(ctx context.Context, want uint64) {
	n := a.late.reads.Add(1)
	if a.countLate != nil {
		a.countLate()
	}
	a.late.warned.Do(func() {
		a.log.WarnContext(ctx, "reads are late: the projections are behind the ledger", "reads", n-a.late.since.Swap(n), "applied", a.q.Applied(), "wanted", want)
	})
}
