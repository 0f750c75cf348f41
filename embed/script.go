package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
	"daybook/ledger"
	"daybook/projections"
)

const projectionSchema = projections.SchemaVersion

// Script is a run that the embedding program requests.
type Script struct {
	// Code is JavaScript or TypeScript.
	Code string
	// Heap is the key of the heap to restore. Empty starts from a fresh isolate, and "none"
	// from a plain one, which has WebAssembly and leaves no heap.
	Heap string
	// FileName is the name in stack traces. Default: main.ts.
	FileName string
	// Session is the named session of the run, or empty.
	Session string
	// LogicalSession is the id of the logical session in which the run takes the next
	// turn, or empty. If it is set, Heap MUST be empty.
	LogicalSession string
	// Tags replace those of the output heap. Nil leaves them.
	Tags map[string]string
	// Files are the sources of other files by path, which the code imports as ./PATH.
	Files map[string]string
	// HeapMemoryMaxMB and ExecutionTimeoutSecs are the limits of the run, in MiB and in
	// s. 0 selects the defaults.
	HeapMemoryMaxMB      int
	ExecutionTimeoutSecs int
	// IdempotencyKey, if set, makes a repeated submission with the same key return the
	// same execution.
	IdempotencyKey string
}

// Submit submits a run and returns its execution id. The request is recorded on return.
func (d *Daybook) Submit(ctx context.Context, s Script) (string, error) {
	r, err := d.ledger.Submit(ctx, ledger.Submission{
		Tenant:               events.DefaultTenant,
		Files:                s.Files,
		Code:                 s.Code,
		FileName:             s.FileName,
		Heap:                 s.Heap,
		Session:              s.Session,
		LogicalSession:       s.LogicalSession,
		Tags:                 s.Tags,
		HeapMemoryMaxMB:      orNil(s.HeapMemoryMaxMB),
		ExecutionTimeoutSecs: orNil(s.ExecutionTimeoutSecs),
		IdempotencyKey:       s.IdempotencyKey,
		Actor:                events.Actor{Principal: "embedder", Transport: "embed"},
	})
	if err != nil {
		return "", err
	}
	return r.ExecutionID, nil
}

func orNil(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// Run submits a run and waits for its end. A failure of the script is a result, not an
// error. If ctx is done first, the execution continues and the result holds its id.
func (d *Daybook) Run(ctx context.Context, s Script) (projections.ExecutionDetail, error) {
	id, err := d.Submit(ctx, s)
	if err != nil {
		return projections.ExecutionDetail{}, err
	}
	return d.wait(ctx, id, true)
}

// Wait blocks until an execution has ended or ctx is done. It returns
// events.ErrNotFound for an id that was never recorded, and ErrClosed or the failure of
// the Daybook if the Daybook ends first.
func (d *Daybook) Wait(ctx context.Context, id string) (projections.ExecutionDetail, error) {
	return d.wait(ctx, id, false)
}

// wait is Wait. recorded reports that the request is known to be recorded.
func (d *Daybook) wait(ctx context.Context, id string, recorded bool) (projections.ExecutionDetail, error) {
	changed, stop := d.projections.Watch(events.DefaultTenant, id)
	defer stop()
	for {
		e, err := d.projections.Execution(ctx, events.DefaultTenant, id)
		switch {
		case err == nil && e.Status.Terminal():
			return e, nil
		case errors.Is(err, events.ErrNotFound) && !recorded:
			// The request is not applied yet, or it was never recorded; the ledger
			// knows.
			if _, err := d.ledger.Requested(ctx, events.DefaultTenant, id); err != nil {
				return e, fmt.Errorf("wait for %s: %w", id, err)
			}
			recorded = true
			continue
		case err != nil && !errors.Is(err, events.ErrNotFound):
			return e, fmt.Errorf("wait for %s: %w", id, err)
		}
		select {
		case <-changed:
		case <-d.done:
			return e, fmt.Errorf("wait for %s: %w", id, cmp.Or(d.Err(), ErrClosed))
		case <-ctx.Done():
			e.ExecutionID = id
			return e, ctx.Err()
		}
	}
}

// Cancel cancels an execution. It returns nil only after the cancellation is recorded.
func (d *Daybook) Cancel(ctx context.Context, id string) error {
	_, err := d.ledger.Cancel(ctx, events.DefaultTenant, id, events.Actor{Principal: "embedder", Transport: "embed"})
	return err
}

// Output returns a page of the output of an execution.
func (d *Daybook) Output(ctx context.Context, id string, q projections.OutputQuery) (projections.OutputPage, error) {
	return d.projections.Output(ctx, events.DefaultTenant, id, q)
}

// History returns every event of an execution, in order.
func (d *Daybook) History(ctx context.Context, id string) ([]events.Event, error) {
	return d.ledger.History(ctx, events.DefaultTenant, id)
}

// Follow calls fn with every event after a position, first the recorded ones and then
// new ones, until ctx is done or fn returns an error. The events of a batch are valid
// until fn returns.
func (d *Daybook) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	return d.store.Follow(ctx, after, fn)
}

// Rebuilt is the result of a rebuild of the projections.
type Rebuilt struct {
	// Events is the number of events of the ledger.
	Events uint64
	// From is the position of the projection copy with which the rebuild began, or 0 for the
	// first event.
	From uint64
	// Compared are the comparisons of RebuildFromStart.
	Compared []Comparison
}

// Comparison is the result of comparing a file with the rebuilt projections.
type Comparison = projections.Comparison

// Difference is a row that differs.
type Difference = projections.Difference

// Rebuild rebuilds the projections of a stopped Daybook from its ledger. It begins with the newest
// projection copy whose hash is recorded. It writes new files and replaces the old ones at the end.
func Rebuild(ctx context.Context, opts Options) (Rebuilt, error) { return rebuild(ctx, opts, false) }

// RebuildFromStart is Rebuild from the first event. It compares the old projections and each
// projection copy with the new ones, as of the position of each. It replaces the projections also
// if they differ. Content.WithoutKeys MUST not be set.
func RebuildFromStart(ctx context.Context, opts Options) (Rebuilt, error) {
	return rebuild(ctx, opts, true)
}

func rebuild(ctx context.Context, opts Options, fromStart bool) (r Rebuilt, err error) {
	opts, err = opts.withDefaults()
	if err != nil {
		return r, err
	}
	opts.NATS.Addr = "" // no client is served meanwhile
	// An owner is asked to end only for a directory that can be rebuilt.
	if err := opts.checkPlace("rebuild"); err != nil {
		return r, asOption(err)
	}
	if _, err := os.Stat(filepath.Join(opts.DataDir, "jetstream")); opts.NATS.URL == "" && err != nil {
		return r, asOption(fmt.Errorf("there is no ledger in %s: %w", opts.DataDir, err))
	}
	d := newDaybook(opts)
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, take := range []func(context.Context) error{d.checkLedger, d.takeDirectory, d.checkLedger} {
		if err := take(ctx); err != nil {
			return r, err
		}
	}
	if opts.Content.WithoutKeys {
		if err := opts.forgetKeys(); err != nil {
			return r, err
		}
	}
	if err := d.checkFilesAtStart(ctx); err != nil {
		return r, fmt.Errorf("look for damage: %w", err)
	}
	if err := d.damage.Err(); err != nil {
		return r, fmt.Errorf("%w; no file was changed; %s", err, damage.RecoveryAdvice)
	}
	if err := d.openLedger(ctx); err != nil {
		return r, fmt.Errorf("open the ledger: %w", err)
	}
	if r.Events, err = d.store.LastSeq(ctx); err != nil {
		return r, err
	}
	how := d.projectionOptions()
	how.AllowLostKeys, how.Progress = opts.Content.WithoutKeys, opts.Progress
	if fromStart {
		r.Compared, err = projections.RebuildFromStart(ctx, how, d.store, r.Events)
	} else {
		r.From, err = projections.Rebuild(ctx, how, d.store, r.Events)
	}
	return r, err
}
