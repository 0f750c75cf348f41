package projections

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
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
// Run, also that the file does not match the checksum of its last close.
func (s *Store) Run(ctx context.Context, feed Feed) error {
	outer := ctx
	ctx, stop := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	start, isMarkedOpen := s.appliedEvents(), s.isMarkedOpen // before any event is applied
	beside.Go(func() {
		// A checkpoint changes the file, which then can no longer be compared.
		if err := s.verifyClosed(ctx, isMarkedOpen); err != nil && ctx.Err() == nil {
			stop(err)
			return
		}
		if ctx.Err() == nil {
			s.noteCompared()
		}
		s.checkpoint(ctx, start)
	})
	defer beside.Wait()
	defer stop(nil)
	for {
		err := feed.Follow(ctx, s.Applied(), func(batch []events.Event, _ uint64) error {
			return s.Apply(ctx, batch)
		})
		if outer.Err() == nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
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
			return context.Cause(ctx)
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
	if s.withoutIndexes && slices.ContainsFunc(batch, needsIndexes) {
		if err := s.createIndexes(ctx); err != nil {
			return err
		}
	}
	// The driver does extra work for each statement that can be interrupted, so ctx is
	// checked between events. If ctx is done, the transaction is rolled back.
	txCtx := context.WithoutCancel(ctx)
	conn, err := s.writer.Conn(txCtx)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	var a *applier
	err = conn.Raw(func(c any) error {
		a, err = s.applyOn(ctx, c.(writerConn), batch)
		return err
	})
	if err = errors.Join(err, conn.Close()); err != nil {
		return err
	}
	s.keepStates(a.states)
	s.signalContexts(a.contexts)
	if a.hasErased || s.needsScrub { // before advance publishes the position
		err = s.scrub(txCtx)
	}
	s.advance(batch, a)
	return err
}

// applyOn applies a batch in one transaction of the writer's connection.
func (s *Store) applyOn(ctx context.Context, conn writerConn, batch []events.Event) (*applier, error) {
	if conn != s.stmts.conn {
		return nil, errors.New("the connection to the projections was replaced")
	}
	states := s.states
	s.states = nil // unless the transaction is committed, they do not match the rows
	if states == nil {
		states = map[executionKey]*executionState{}
	}
	a := &applier{ctx: context.WithoutCancel(ctx), s: s.stmts, texts: s.opts.Texts, states: states, usageChanges: map[string]*Usage{}}
	tx, err := conn.BeginTx(a.ctx, driver.TxOptions{})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	if err := a.applyAll(ctx, batch); err != nil {
		_ = tx.Rollback() // SQLite may have rolled back already
		return nil, err
	}
	if a.voidsCopies > 0 {
		if err := s.dropCopies(a.voidsCopies); err != nil {
			_ = tx.Rollback()
			return nil, err
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	return a, nil
}

func (a *applier) applyAll(ctx context.Context, batch []events.Event) error {
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.apply(&batch[i]); err != nil {
			return fmt.Errorf("apply event %d (%s): %w", batch[i].Seq, batch[i].Type, err)
		}
	}
	last := batch[len(batch)-1].Seq
	if err := errors.Join(a.storeExecutions(), a.storeContexts(), a.storeUsage(), a.exec(a.s.position, last)); err != nil {
		return fmt.Errorf("apply events up to %d: %w", last, err)
	}
	return nil
}

// maxStates bounds the executions in progress whose states are kept.
const maxStates = 1024

// keepStates keeps the states of executions in progress for the next batch.
func (s *Store) keepStates(states map[executionKey]*executionState) {
	for key, st := range states {
		if st.status.Terminal() {
			delete(states, key)
		}
	}
	if len(states) <= maxStates {
		s.states = states
	}
}

// applier applies events within one transaction.
type applier struct {
	ctx context.Context //nolint:containedctx // the applier lives only during one call
	s   *statements
	// texts is Options.Texts.
	texts Texts
	// states holds the executions that events of the batch are about, and others.
	states map[executionKey]*executionState
	// newExecutions are those whose rows are not in the table yet, in the order of their
	// ids. lastID is the largest id, or 0 if it is not known.
	newExecutions []*executionState
	lastID        int64
	logChanges    []logChange
	// hasErased is true if the batch erased content. voidsCopies is the position of the last event
	// of the batch that voids all earlier projection copies, because it erased content or recorded
	// the loss of events, or 0.
	hasErased   bool
	voidsCopies uint64
	// usageChanges holds the changes of the batch to the usage of tenants. hasRecounted
	// is true if the usage of all tenants was counted again, because a volume was removed.
	usageChanges map[string]*Usage
	hasRecounted bool
	// contexts holds the conversation contexts that the batch reads or changes.
	contexts map[contextKey]*contextRow
}

func (a *applier) exec(stmt *statement, args ...any) error {
	_, err := stmt.exec(a.ctx, args)
	return err
}

// execCount returns the number of rows changed.
func (a *applier) execCount(stmt *statement, args ...any) (int64, error) {
	return stmt.exec(a.ctx, args)
}

func (a *applier) query(stmt *statement, args ...any) (*rowReader, error) {
	return stmt.query(a.ctx, args)
}

func (a *applier) queryRow(stmt *statement, args ...any) firstRow {
	rows, err := stmt.query(a.ctx, args)
	return firstRow{rows, err}
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
	case *events.SessionNamed: // the write side reads the intent by subject
		return a.exec(a.s.nameIntent, e.Tenant, d.SessionID, e.Seq)
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
		if d.Hole != nil || len(d.Lost) > 0 {
			a.voidsCopies = e.Seq // a rebuild from the first event lacks these events
		}
		return a.applyLostBlobs(e, d.LostBlobs)
	case *events.BlobsLost:
		return a.applyLostBlobs(e, d.Of(e.Tenant))
	case *events.LedgerCheckpointed, *events.LedgerVolumeSealed, *events.LedgerSignersChanged:
		return nil // they change no table; package audit reads them from the ledger
	case *events.LedgerProjectionsCopied:
		return nil // a rebuild reads them from the ledger
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
