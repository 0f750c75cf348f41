package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"daybook/events"
)

// Feed delivers the events of the ledger in order.
type Feed interface {
	// Follow calls fn with every event after a position, in batches, until ctx is done
	// or fn fails. last is the newest position known.
	Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error
}

// Run applies events until ctx is done. If a position is missing, it applies no later
// event, because results would be incomplete: it returns an error that wraps
// events.ErrDamaged, and Damage returns the same error from then on. If the file of the
// Store cannot be written, Run retries until it can; see StallError. Any other error ends
// Run.
func (s *Store) Run(ctx context.Context, feed Feed) error {
	ctx, stop := context.WithCancel(ctx)
	var mover sync.WaitGroup
	mover.Go(func() { s.checkpoint(ctx) })
	defer mover.Wait()
	defer stop()
	for {
		err := feed.Follow(ctx, s.Applied(), func(batch []events.Event, _ uint64) error {
			return s.Apply(ctx, batch)
		})
		switch {
		case errors.Is(err, events.ErrDamaged):
			s.SetDamage(err)
			return err
		case !isUnwritable(err):
			return err
		}
		s.stall(ctx, err)
		select {
		case <-time.After(stallRetryInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Apply applies a batch in one transaction. The batch MUST start at the position after
// Applied.
func (s *Store) Apply(ctx context.Context, batch []events.Event) error {
	before := s.Applied()
	for _, e := range batch {
		// A gap is damage, unless removed volumes or recorded losses before the event
		// account for it, or the event opens a volume and names the gap.
		before += e.RemovedBefore + e.LostBefore
		if d, ok := e.Data.(*events.LedgerVolumeOpened); e.Seq != before+1 && (!ok || !d.AccountsForGap(before, e.Seq)) {
			return fmt.Errorf("%w: event %d is followed by %d", events.ErrDamaged, before, e.Seq)
		}
		before = e.Seq
	}
	if len(batch) == 0 {
		return nil
	}
	if err := s.markOpen(); err != nil {
		return err
	}
	// The driver does extra work for each statement that can be interrupted, so ctx is
	// checked between events. If ctx is done, the transaction is rolled back.
	txCtx := context.WithoutCancel(ctx)
	tx, err := s.writer.BeginTx(txCtx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	a := &applier{ctx: txCtx, tx: tx, s: s.stmts, texts: s.opts.Texts, bound: map[*sql.Stmt]*sql.Stmt{}, states: map[executionKey]*executionState{}, usageChanges: map[string]*Usage{}}
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.apply(&batch[i]); err != nil {
			return fmt.Errorf("apply event %d (%s): %w", batch[i].Seq, batch[i].Type, err)
		}
	}
	last := batch[len(batch)-1].Seq
	if err := errors.Join(a.storeExtents(), a.storeContexts(), a.storeUsage(), a.exec(s.stmts.position, last)); err != nil {
		return fmt.Errorf("apply events up to %d: %w", last, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.signalContexts(a.contexts)
	if a.hasErased || s.needsScrub { // before advance publishes the position
		err = s.scrub(txCtx)
	}
	s.advance(batch, a)
	return err
}

// applier applies events within one transaction.
type applier struct {
	ctx context.Context //nolint:containedctx // the applier lives only during one call
	tx  *sql.Tx
	s   *statements
	// texts is Options.Texts.
	texts Texts
	// bound holds the statements used so far, bound to the transaction.
	bound map[*sql.Stmt]*sql.Stmt
	// states holds the executions that events of the batch are about.
	states     map[executionKey]*executionState
	logChanges []logChange
	// hasErased is true if the batch erased content.
	hasErased bool
	// usageChanges holds the changes of the batch to the usage of tenants. hasRecounted
	// is true if the usage of all tenants was counted again, because a volume was removed.
	usageChanges map[string]*Usage
	hasRecounted bool
	// contexts holds the conversation contexts that the batch reads or changes.
	contexts map[contextKey]*contextRow
}

// bind returns a statement bound to the transaction. Binding it at each use took a tenth
// of the time of applying.
func (a *applier) bind(stmt *sql.Stmt) *sql.Stmt {
	b := a.bound[stmt]
	if b == nil {
		b = a.tx.StmtContext(a.ctx, stmt)
		a.bound[stmt] = b
	}
	return b
}

func (a *applier) exec(stmt *sql.Stmt, args ...any) error {
	_, err := a.bind(stmt).ExecContext(a.ctx, args...)
	return err
}

// execCount returns the number of rows changed.
func (a *applier) execCount(stmt *sql.Stmt, args ...any) (int64, error) {
	res, err := a.bind(stmt).ExecContext(a.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (a *applier) queryRow(stmt *sql.Stmt, args ...any) *sql.Row {
	return a.bind(stmt).QueryRowContext(a.ctx, args...)
}

func (a *applier) apply(e *events.Event) error {
	if e.Removed > 0 {
		if err := a.exec(a.s.skip, e.Removed); err != nil {
			return err
		}
	}
	e, err := a.withoutShredded(e)
	if err != nil {
		return err
	}
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		return a.applyRequested(e, d)
	case *events.ExecutionStarted:
		return a.applyStarted(e, d)
	case *events.ExecutionOutput:
		return a.applyOutput(e, d)
	case *events.ExecutionOutputTruncated:
		return a.applyTruncated(e, d)
	case *events.ExecutionCancelRequested:
		return a.applyCancelRequested(e, d)
	case *events.ExecutionHandedBack:
		return a.applyHandedBack(e, d)
	case *events.ExecutionCompleted, *events.ExecutionFailed, *events.ExecutionTimedOut, *events.ExecutionCancelled:
		return a.applyEnd(e, events.EndingOf(d))
	case *events.SessionOpened, *events.SessionExpanded, *events.SessionTurnQueued, *events.SessionTurnSkipped, *events.SessionRebound, *events.SessionReset:
		return a.applyLogical(e)
	case *events.SessionRefAssigned:
		a.usageOf(e.Tenant).ShortNames++
		return a.exec(a.s.sessionRef, e.Tenant, d.Ref, d.SessionID)
	case *events.SessionNamed:
		return nil // the write side reads it by subject
	case *events.HeapTagged:
		return a.applyTagged(e, d)
	case *events.SessionEntryRecorded:
		return a.applyEntry(e, d)
	case *events.WebhookRegistered, *events.WebhookDeleted, *events.WebhookDeadLettered, *events.WebhookDisabled, *events.WebhookRetryRequested, *events.WebhookRedelivered:
		return nil // package webhook reads these by subject
	case *events.AgentSessionCreated, *events.AgentSessionAttached, *events.AgentSessionConfigured, *events.AgentPrompted,
		*events.AgentAnswered, *events.AgentPermissionDecided, *events.AgentSessionClosed, *events.AgentSessionDeleted:
		return a.applyAgent(e)
	case *events.ContextUpdated, *events.ContextCleared, *events.ContextExpired, *events.ContextNoted:
		return a.applyContextEvent(e)
	case *events.SessionShredded:
		return a.applyShredded(e, d)
	case *events.HostCalled:
		return a.applyCalled(e, d)
	case *events.HostReturned:
		return a.applyReturned(e, d)
	case *events.HeapCollected:
		return a.applyHeapCollected(e, d)
	case *events.LedgerVolumeRemoved:
		return a.applyVolumeRemoved(e, d)
	case *events.LedgerVolumeOpened:
		return a.applyLostBlobs(e, d.LostBlobs)
	case *events.BlobsLost:
		return a.applyLostBlobs(e, d.Of(e.Tenant))
	case *events.LedgerCheckpointed, *events.LedgerVolumeSealed, *events.LedgerSignersChanged:
		return nil // they change no table; package audit reads them from the ledger
	case *events.ExecutionArtifactCreated:
		return a.applyArtifact(e, d)
	case *events.ExecutionReplayed:
		return a.applyReplayed(e, d)
	case *events.HeapMigrated:
		return a.applyHeapMigrated(e, d)
	case *events.ExecutionModulesLoaded:
		return a.noteModulesInContext(e, d.ExecutionID)
	case *events.ModuleAdmitted, *events.ModuleRemoved:
		return nil // the write side reads them by subject
	case *events.Unknown:
		return a.unknownType(e, d)
	default:
		return fmt.Errorf("no rule for %T", d)
	}
}
