package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/internal/globals"
	"daybook/ledger"
	"daybook/runner"
)

// listTimeout limits the time in which a worker restores a heap and lists its globals. Most
// lists take milliseconds; one of 2.7 million small objects took 35 s on two busy cores.
const listTimeout = time.Minute

// lister lists the globals of heaps of a tenant.
type lister struct {
	Options
	tenant, session string
	memory          runner.MemoryAccount // nil for no limit
	skip            int                  // number of globals before the list
}

// Globals lists the globals that scripts added to a heap, without the first skip of them, up to
// globals.MaxSkip. No code of the scripts runs.
// Errors are those of Heaps; a *ledger.Error with CodeConflict for a heap of another engine,
// CodeTooLarge for one that exceeds the memory of a worker, and CodeUnavailable for one that
// cannot be listed now.
func (r *Replayer) Globals(ctx context.Context, tenant, hash string, skip int) (globals.List, error) {
	l := lister{r.opts, tenant, "", nil, skip}
	if r.opts.Memory != nil {
		var memory runner.MemoryAccount
		ctx, memory = r.opts.Memory.OpenAccount(ctx)
		defer memory.Release()
		l.memory = memory
	}
	engine, err := r.engine(ctx, true)
	if err != nil {
		return globals.List{}, notNow(ctx, hash, err)
	}
	heap, info, err := l.read(ctx, hash)
	if err != nil {
		return globals.List{}, err
	}
	if info.EngineID != engine.ID {
		return globals.List{}, &ledger.Error{Code: ledger.CodeConflict, Field: "heap", Message: fmt.Sprintf(
			"heap %s was made by engine %s and cannot be restored by engine %s; migrate it and list the globals of its migration", hash, info.EngineID, engine.ID)}
	}
	return l.list(ctx, hash, heap)
}

// read reads a heap from the blob store.
func (l lister) read(ctx context.Context, hash string) ([]byte, events.HeapInfo, error) {
	heap, info, err := l.Heaps.Heap(ctx, l.tenant, hash)
	if err != nil {
		return nil, info, fmt.Errorf("list the globals of heap %s: %w", hash, err)
	}
	return heap, info, nil
}

// stored lists the globals of a heap of the engine of the workers in the blob store.
func (l lister) stored(ctx context.Context, hash string) (globals.List, error) {
	heap, _, err := l.read(ctx, hash)
	if err != nil {
		return globals.List{}, err
	}
	return l.list(ctx, hash, heap)
}

// list lists the globals of a heap of the engine of the workers.
func (l lister) list(ctx context.Context, hash string, heap []byte) (globals.List, error) {
	t := runner.Task{
		Tenant: l.tenant, Session: l.session, Heap: heap, Stateful: true, ListGlobals: true, SkipGlobals: l.skip, Timeout: listTimeout, Start: time.Unix(0, 0),
		HeapLimitBytes: l.MaxHeapLimitBytes, ArrayBufferLimitBytes: l.MaxHeapLimitBytes,
	}
	if l.memory != nil {
		t.OnHeapReceived = l.memory.Release
	}
	o, err := l.Workers.Run(ctx, t, func(context.Context, []events.Line) error { return errors.New("a list of globals has no output") })
	switch {
	case err != nil:
		return globals.List{}, notNow(ctx, hash, err)
	case o.Reason == runner.ReasonOutOfMemory:
		return globals.List{}, &ledger.Error{Code: ledger.CodeTooLarge, Field: "heap", Message: fmt.Sprintf(
			"heap %s exceeds the memory of a worker that lists its globals, %d MiB; raise the ceiling of heap limits of the server", hash, l.MaxHeapLimitBytes>>20)}
	case o.Status != events.StatusCompleted || o.Result == nil:
		return globals.List{}, notNow(ctx, hash, errors.New(o.Error))
	}
	list, err := globals.Decode([]byte(*o.Result))
	if err != nil {
		return globals.List{}, notNow(ctx, hash, err)
	}
	return list, nil
}

// notNow returns the error of a list that may succeed later.
func notNow(ctx context.Context, hash string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &ledger.Error{Code: ledger.CodeUnavailable, Field: "heap", Err: err, Message: fmt.Sprintf(
		"the globals of heap %s cannot be listed now: the worker did not finish; try again in a few seconds", hash)}
}

// Texts of a difference that no global shows.
const (
	noGlobalDiffers    = "no global differs; the difference is in what globals refer to or in the engine's own state"
	noComparedDiffers  = "no global differs in the part that was compared: %d globals were not compared, and %d in part"
	globalsNotCompared = "the globals were not compared: %s"
)

// heapDifference describes different heaps of one engine, that of the workers: the first global that differs, if there
// is one. recorded and replayed are the hashes of the heaps. The heap of the replay is dropped.
func (p *replay) heapDifference(ctx context.Context, recorded, replayed string) (Difference, error) {
	d := Difference{Part: events.ReplayHeap, Recorded: recorded, Replayed: replayed}
	l := lister{p.replayer.opts, p.rec.Request.Tenant, p.rec.Request.SessionID, p.memory, 0}
	var a, b globals.List
	var err error
	// One heap after the other, because the memory account has space for one.
	if heap := p.outcome.Heap; len(heap) > 0 {
		p.outcome.Heap = nil
		b, err = l.list(ctx, replayed, heap)
	} else {
		b, err = l.stored(ctx, replayed)
	}
	if err == nil {
		a, err = l.stored(ctx, recorded)
	}
	if ctx.Err() != nil {
		return d, context.Cause(ctx)
	}
	if err != nil {
		d.Recorded += "; " + fmt.Sprintf(globalsNotCompared, err)
		return d, nil
	}
	compared := globals.Compare(a, b)
	switch {
	case len(compared.Changes) > 0:
		d.Recorded, d.Replayed = describeChange(compared.Changes[0])
	case compared.Uncompared > 0 || compared.Partial > 0:
		d.Recorded += "; " + fmt.Sprintf(noComparedDiffers, compared.Uncompared, compared.Partial)
	default:
		d.Recorded += "; " + noGlobalDiffers
	}
	return d, nil
}

// describeChange returns the texts of a global in two heaps: its name and the part of its
// preview around the first difference.
func describeChange(c globals.Change) (a, b string) {
	if c.A == nil || c.B == nil {
		a = excerpt(c.Name(), 0, 0) + " does not exist"
		b = a
		if c.A != nil {
			a = describeGlobal(*c.A, excerpt(c.A.Preview, 0, 0))
		} else {
			b = describeGlobal(*c.B, excerpt(c.B.Preview, 0, 0))
		}
		return a, b
	}
	a, b = excerpts(c.A.Preview, c.B.Preview)
	if c.A.Preview == c.B.Preview { // they differ beyond the preview
		a, b = excerpt(c.A.Preview, 0, 0)+" with SHA-256 "+c.A.SHA256[:16], excerpt(c.B.Preview, 0, 0)+" with SHA-256 "+c.B.SHA256[:16]
	}
	return describeGlobal(*c.A, a), describeGlobal(*c.B, b)
}

func describeGlobal(g globals.Global, preview string) string {
	return fmt.Sprintf("%s = %s", excerpt(g.Name, 0, 0), preview)
}
