package embed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"daybook/events"
	"daybook/internal/admission"
	"daybook/internal/exec/worker"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/modules"
	"daybook/ledger"
	"daybook/projections"
	"daybook/runner"
)

// startWorkers starts a first worker, so that a machine that cannot run JavaScript
// fails at the start. It then creates the ledger, which needs the id of the engine.
func (d *Daybook) startWorkers(ctx context.Context) error {
	opts := ledger.Options{
		Stateless:           d.opts.Runs.Stateless,
		HeapMemoryMB:        d.opts.Runs.HeapMB,
		HeapMemoryCeilingMB: d.opts.Runs.HeapCeilingMB,
		TimeoutSecs:         d.opts.Runs.TimeoutSecs,
		OutputMaxBytes:      d.opts.Runs.OutputMaxBytes,
		SessionTurns:        d.opts.Access.SessionTurns,
		Keys:                d.ledgerKeys(),
		Admit:               d.gate.Admit,
		FindLoss:            d.lostAfter,
		EncryptContent:      d.opts.Content.Erasable,
		HostCallHashes:      d.opts.Tools.Bodies == hostCallsHashed,
		Logger:              d.opts.Logger,
	}
	if d.runsScripts() {
		d.pool = worker.New(worker.Options{
			Idle:              d.opts.Slots.Total,
			IdleUsed:          d.opts.Slots.Total + max(d.opts.Slots.Extra, 0), // so that a tenant finds its own worker again after a run of another tenant
			MaxHeapLimitBytes: int64(d.opts.Runs.HeapCeilingMB) << 20,
			MemoryShort:       d.memoryShort.Load,
			Stateless:         d.opts.Runs.Stateless,
			BestEffort:        d.opts.Workers.Sandbox == sandboxBestEffort,
			Reuse:             worker.Reuse(d.opts.Workers.Reuse),
			MaxRuns:           d.opts.Workers.MaxRuns,
			MaxAge:            d.opts.Workers.MaxAge,
			JIT:               d.opts.Workers.JIT == jitOn,
			Prelude:           worker.PreludeOf(ctx),
			Logger:            d.opts.Logger,
		})
		engine, err := d.pool.Engine(ctx, true)
		if err != nil {
			return err
		}
		if !d.opts.Runs.Stateless {
			opts.EngineID, opts.MigratesHeaps = engine.ID, true
			err := d.setBaseHeap(ctx, opts.EngineID)
			if isTransient(err) { // the server starts for reading; watchDisk stores the base heap later
				d.baseHeapOf = opts.EngineID
				err = nil
			}
			if err != nil {
				return err
			}
		}
	}
	d.ledger = ledger.New(admission.Log{Store: d.store, Gate: d.gate}, opts)
	return nil
}

// setBaseHeap sets the base heap against which heaps are stored as deltas.
func (d *Daybook) setBaseHeap(ctx context.Context, engineID string) error {
	base, err := d.pool.BaseHeap(ctx)
	if err != nil {
		return err
	}
	return d.store.SetBase(ctx, engineID, base)
}

// isTransient reports whether an error means that the ledger takes no writes now, but
// will take them again without a restart.
func isTransient(err error) bool {
	unwritable, ok := errors.AsType[*events.UnwritableError](err)
	return ok && unwritable.Passes
}

// startTail starts the shared reading of new events.
func (d *Daybook) startTail(ctx context.Context) error {
	last, err := d.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	d.tail = d.store.NewTail()
	d.tailing = startTask(ctx, func(ctx context.Context) {
		_ = d.tail.Run(ctx, last) // its followers receive the error
	})
	return nil
}

// startProjections opens the projections and keeps them up to date. It blocks until
// they have applied every event that was recorded before the call, unless the ledger is
// damaged or the disk is full.
func (d *Daybook) startProjections(ctx context.Context) error {
	last, err := d.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	opts := d.projectionOptions()
	opts.DiskFull = d.disk.Low() != nil
	built, err := projections.Prepare(ctx, opts, d.store, d.readableEnd(last))
	if errors.Is(err, events.ErrDamaged) { // the store has reported the event
		if readable := d.readableEnd(last); readable < last {
			built, err = projections.Prepare(ctx, opts, d.store, readable)
		}
	}
	if err != nil {
		return err
	}
	if built && last > 0 {
		d.opts.Logger.InfoContext(ctx, "rebuilt the projections", "events", last)
	}
	d.projections, err = projections.Open(ctx, opts)
	if err != nil {
		return err
	}
	if applied := d.projections.Applied(); applied > last && !d.damage.Damaged() {
		d.damage.Report(damage.Finding{
			Stream: "LEDGER", First: last + 1, Last: applied, By: damage.FoundAtStart,
			What: "recorded events are missing; " + d.projectionsFile() + " was derived from them",
		})
	}
	if d.damage.Damaged() && d.projections.Applied() >= last {
		return d.checkAnswers(last) // no further event arrives
	}
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stopProjector, d.projectorDone = stop, make(chan struct{})
	waiting, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	go func() {
		defer close(d.projectorDone)
		if err := d.projections.Run(following, d.tail); err != nil && following.Err() == nil {
			err = fmt.Errorf("follow the ledger: %w", err)
			d.failOrGoReadOnly(err)
			giveUp(err) // the event that Start waits for never arrives
		}
	}()
	err = d.projections.Wait(waiting, last)
	if d.damage.Damaged() && ctx.Err() == nil {
		return d.checkAnswers(last)
	}
	if _, full := errors.AsType[*events.UnwritableError](err); full {
		return nil // answers wait for the missing events, which are applied once space is free
	}
	if err != nil {
		if waiting.Err() != nil {
			return context.Cause(waiting)
		}
		return err
	}
	return nil
}

// runsScripts reports whether this process runs scripts.
func (d *Daybook) runsScripts() bool { return !d.opts.Runs.Elsewhere && !d.damage.Damaged() }

func (d *Daybook) projectionsFile() string {
	return filepath.Join(d.opts.DataDir, "projections.db")
}

func (d *Daybook) startRunner(ctx context.Context) error {
	if !d.runsScripts() {
		return nil
	}
	opts := runner.Options{
		Slots:          d.opts.Slots.Total,
		Shares:         d.opts.Slots.shares(),
		OutputRate:     d.opts.outputRate(),
		Ledger:         d.ledger,
		Work:           d.store,
		Heaps:          d.store,
		Texts:          d.store,
		Workers:        d.pool,
		Memory:         runMemory{d.budget},
		NodeGlobals:    d.opts.Runs.NodeGlobals,
		WASMModules:    d.wasm,
		Modules:        &modules.Lock{Admitted: d.ledger, Texts: d.store},
		DrainTimeout:   d.opts.Runs.DrainWait,
		CheckRecording: d.store.Silent,
		Logger:         d.opts.Logger,
	}
	if d.replays.migrator != nil {
		opts.Migrations = runMigrations{d}
	}
	d.acp = d.newAgent()
	if !d.opts.Runs.Stateless || d.toolServers != nil || d.fetch != nil {
		opts.Servers = callables{d.toolServers, d.acp, d.fetch}
	}
	d.prepareWork(ctx)
	d.runner = runner.New(opts)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stopRunner, d.runnerDone = stop, make(chan struct{})
	go func() {
		defer close(d.runnerDone)
		if err := d.runner.Run(running); err != nil {
			d.failOrGoReadOnly(fmt.Errorf("run scripts: %w", err))
		}
	}()
	return nil
}

// prepareWork restores the queues of tenants that have unfinished runs and whose
// consumer configuration was lost. It logs a failure: the next request of the tenant
// restores its queue too.
func (d *Daybook) prepareWork(ctx context.Context) {
	tenants, err := d.projections.UnfinishedTenants(ctx)
	if err == nil {
		err = d.store.PrepareWork(ctx, events.DefaultPool, tenants...)
	}
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "the queues of tenants with unfinished runs are not prepared", "error", err)
	}
}
