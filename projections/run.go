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

// Run applies events until ctx is done. If a position is missing, it returns
// events.ErrDamaged, which Damage then also returns; no later event is applied, because
// results would be incomplete. If its file cannot be written, it retries until it can;
// see StallError.
func (s *Store) Run(ctx context.Context, feed Feed) error {
	ctx, stop := context.WithCancel(ctx)
	var mover sync.WaitGroup
	mover.Go(func() { s.checkpoint(ctx) })
	defer mover.Wait()
	defer stop()
	for {
		err := feed.Follow(ctx, s.Applied(), func(batch []events.Event, last uint64) error {
			s.known(last)
			return s.Apply(ctx, batch)
		})
		switch {
		case errors.Is(err, events.ErrDamaged):
			s.Stop(err)
			return err
		case !noRoom(err):
			return err
		}
		s.stall(ctx, err)
		select {
		case <-time.After(stallPause):
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
		// A gap is damage, unless a removed volume or the opening of one accounts for
		// it.
		before += e.Skips + e.Lost
		if d, ok := e.Data.(*events.LedgerVolumeOpened); e.Seq != before+1 && (!ok || !d.Fills(before, e.Seq)) {
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
	a := &applier{ctx: txCtx, tx: tx, s: s.insert, texts: s.opts.Texts, bound: map[*sql.Stmt]*sql.Stmt{}, states: map[executionKey]*state{}, used: map[string]*Usage{}}
	for i := range batch {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := a.apply(&batch[i]); err != nil {
			return fmt.Errorf("apply event %d (%s): %w", batch[i].Seq, batch[i].Type, err)
		}
	}
	last := batch[len(batch)-1].Seq
	if err := errors.Join(a.storeExtents(), a.storeContexts(), a.storeUsage(), a.exec(s.insert.position, last)); err != nil {
		return fmt.Errorf("apply events up to %d: %w", last, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	s.tellContexts(a.contexts)
	if a.erased || s.unscrubbed { // before readers are signalled
		err = s.scrub(txCtx)
	}
	s.advance(batch, a)
	return err
}

// applier applies events within one transaction.
type applier struct {
	ctx context.Context //nolint:containedctx // lives no longer than the call it was made for
	tx  *sql.Tx
	s   *statements
	// texts is Options.Texts.
	texts Texts
	// bound holds the statements used so far, bound to the transaction.
	bound map[*sql.Stmt]*sql.Stmt
	// states holds the executions that events of the batch are about.
	states map[executionKey]*state
	log    []logChange
	// hasErased is true if the batch erased content.
	erased bool
	// usageChanges holds the changes of the batch to the usage of tenants. hasRecounted
	// is true if the batch changed usage in another way, too.
	used      map[string]*Usage
	recounted bool
	// contexts holds the conversation contexts that the batch reads or changes.
	contexts map[contextKey]*contextRow
}

// bind returns a statement bound to the transaction. To bind it at each use took a
// tenth of the time of applying.
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
func (a *applier) execCounting(stmt *sql.Stmt, args ...any) (int64, error) {
	res, err := a.bind(stmt).ExecContext(a.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (a *applier) row(stmt *sql.Stmt, args ...any) *sql.Row {
	return a.bind(stmt).QueryRowContext(a.ctx, args...)
}

func (a *applier) apply(e *events.Event) error {
	if e.Removed > 0 {
		if err := a.exec(a.s.skip, e.Removed); err != nil {
			return err
		}
	}
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		return a.requested(e, d)
	case *events.ExecutionStarted:
		return a.started(e, d)
	case *events.ExecutionOutput:
		return a.output(e, d)
	case *events.ExecutionOutputTruncated:
		return a.truncated(e, d)
	case *events.ExecutionCancelRequested:
		return a.cancelRequested(e, d)
	case *events.ExecutionHandedBack:
		return a.handedBack(e, d)
	case *events.ExecutionCompleted, *events.ExecutionFailed, *events.ExecutionTimedOut, *events.ExecutionCancelled:
		return a.ended(e, events.Ended(d))
	case *events.SessionOpened, *events.SessionExpanded, *events.SessionTurnQueued, *events.SessionTurnSkipped, *events.SessionRebound, *events.SessionReset:
		return a.logical(e)
	case *events.SessionRefAssigned:
		a.use(e.Tenant).ShortNames++
		return a.exec(a.s.sessionRef, e.Tenant, d.Ref, d.SessionID)
	case *events.SessionNamed:
		return nil // the write side reads it by subject
	case *events.HeapTagged:
		return a.tagged(e, d)
	case *events.SessionEntryRecorded:
		return a.entry(e, d)
	case *events.WebhookRegistered, *events.WebhookDeleted, *events.WebhookDeadLettered, *events.WebhookDisabled, *events.WebhookRetryRequested, *events.WebhookRedelivered:
		return nil // package webhook reads these by subject
	case *events.AgentSessionCreated, *events.AgentSessionAttached, *events.AgentSessionConfigured, *events.AgentPrompted,
		*events.AgentAnswered, *events.AgentPermissionDecided, *events.AgentSessionClosed, *events.AgentSessionDeleted:
		return a.agent(e)
	case *events.ContextUpdated, *events.ContextCleared, *events.ContextExpired, *events.ContextNoted:
		return a.contextEvent(e)
	case *events.SessionShredded:
		return a.shredded(e, d)
	case *events.HostCalled:
		return a.called(e, d)
	case *events.HostReturned:
		return a.returned(e, d)
	case *events.HeapCollected:
		return a.collected(e, d)
	case *events.LedgerVolumeRemoved:
		return a.removed(e, d)
	case *events.LedgerVolumeOpened:
		return a.lost(e, d)
	case *events.LedgerCheckpointed, *events.LedgerVolumeSealed:
		return nil // package audit reads what these prove
	case *events.Unknown:
		return a.unknownType(e, d)
	default:
		return fmt.Errorf("no rule for %T", d)
	}
}
