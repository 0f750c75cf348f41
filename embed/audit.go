package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"daybook/audit"
	"daybook/httpapi"
	"daybook/internal/translog"
)

// finalCheckpointTimeout bounds the last checkpoint at the end.
const finalCheckpointTimeout = 5 * time.Second

// backgroundTask is what follows the ledger from the start to Close, beside others.
type backgroundTask struct {
	stop context.CancelFunc
	done chan struct{}
}

// follow runs something in the background until end is called.
func follow(ctx context.Context, run func(context.Context)) *backgroundTask {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &backgroundTask{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		run(ctx)
	}()
	return f
}

// end stops it and returns once it has ended. A follower that was never started
// is nil.
func (f *backgroundTask) end() {
	if f != nil {
		f.stop()
		<-f.done
	}
}

// startTail reads what is recorded from now on, for all who follow the ledger.
func (d *Daybook) startTail(ctx context.Context) error {
	last, err := d.store.LastSeq(ctx)
	if err != nil {
		return err
	}
	d.tail = d.store.NewTail()
	d.tailing = follow(ctx, func(ctx context.Context) {
		_ = d.tail.Run(ctx, last) // its followers are told
	})
	return nil
}

// startAudit keeps the proofs of the ledger.
func (d *Daybook) startAudit(ctx context.Context) error {
	if d.opts.NoAudit {
		return nil
	}
	var err error
	d.audit, err = translog.Open(translog.Options{
		Dir:                auditDir(d.opts.DataDir),
		KeyFile:            d.opts.AuditKey,
		WitnessURL:         d.opts.WitnessURL,
		Lost:               d.store.Lost,
		OnCheckpointStored: d.syncMark,
		Removed:            d.store.Removed,
		NoSync:             d.opts.NoSync,
		Logger:             d.opts.Logger,
	})
	if _, ok := errors.AsType[*translog.KeyFileError](err); ok {
		return asOption(ofField("AuditKey", err))
	}
	if err != nil {
		return err
	}
	d.auditing = follow(ctx, func(ctx context.Context) {
		if err := d.audit.Run(ctx, d.tail, d.store); err != nil && ctx.Err() == nil {
			// Readiness tells of damage too. What else stopped it, a start repairs.
			d.opts.Logger.Error("the ledger is not signed any more", slog.Any("error", err))
		}
	})
	return nil
}

// signFinalCheckpoint signs what is on record at the end.
func (d *Daybook) signFinalCheckpoint() {
	if d.auditing == nil {
		return
	}
	if d.damage.Damaged() { // nothing can be appended
		d.auditing.end()
		return
	}
	ctx, stop := context.WithTimeoutCause(context.Background(), finalCheckpointTimeout, errors.New("it took too long"))
	defer stop()
	go func() {
		select {
		case <-d.auditing.done: // nothing to wait for
			stop()
		case <-ctx.Done():
		}
	}()
	if err := d.audit.FinalCheckpoint(ctx, d.store); err != nil {
		attrs := []any{slog.Any("error", err)}
		if unsigned, ok := errors.AsType[*translog.UnsignedError](err); ok {
			attrs = append(attrs, slog.Uint64("events", unsigned.Events))
		}
		d.opts.Logger.Warn("the last events of the ledger are not signed; the next start signs them", attrs...)
	}
	d.auditing.end()
}

// auditDir holds what proves the ledger, apart from the streams.
func auditDir(dataDir string) string { return filepath.Join(dataDir, "audit") }

// AuditKey is the key that checkpoints of this ledger are verified with, or
// empty. Whoever keeps a copy elsewhere need not trust this directory.
func (d *Daybook) AuditKey() string {
	if d.audit == nil {
		return ""
	}
	return d.audit.VKey()
}

// proofs is the ledger as it proves itself, or nil.
func (d *Daybook) proofs() *audit.Local {
	if d.audit == nil {
		return nil
	}
	return &audit.Local{Log: d.audit, Stream: d.store, Blobs: storedBlobs{d.store}, SessionOf: d.sessionOf}
}

// blobs reads what events name, for those who prove the ledger; nil without proofs.
func (d *Daybook) blobs() httpapi.Blobs {
	if d.audit == nil {
		return nil
	}
	return d.store
}

// auditDamage is why nothing is signed any more, or nil.
func (d *Daybook) auditDamage() error {
	if d.audit == nil {
		return nil
	}
	if err := d.audit.Damage(); err != nil {
		return fmt.Errorf("the ledger does not fit its checkpoints: %w", err)
	}
	return nil
}
