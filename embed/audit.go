package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/datadir"
	"daybook/internal/durable"
	"daybook/internal/store/jetstream"
	"daybook/internal/translog"
)

// finalCheckpointTimeout is the maximum time for the final checkpoint and its cosignatures.
const finalCheckpointTimeout = 5 * time.Second

// startAudit starts the tree of hashes and the signing of the ledger.
func (d *Daybook) startAudit(ctx context.Context) error {
	if d.opts.Proof.Off {
		return nil
	}
	locked := d.lockSigned()
	opts := translog.Options{
		Dir:                auditDir(d.opts.DataDir),
		KeyFile:            d.opts.Proof.KeyFile,
		SignedFile:         d.opts.Proof.SignedFile,
		WitnessURL:         d.opts.Proof.WitnessURL,
		WitnessPolicy:      d.opts.Proof.WitnessPolicy,
		Lost:               d.store.Lost,
		OnCheckpointStored: d.syncMark,
		Removed:            d.store.Removed,
		Shared:             d.opts.NATS.URL != "",
		NoSync:             d.opts.NATS.NoSync,
		Logger:             d.opts.Logger,
	}
	if d.proofsMissing {
		d.emptyProofs = filepath.Join(d.salvageDir(), "audit")
		opts.Dir, opts.KeyFile, opts.SignedFile, opts.WitnessURL, opts.WitnessPolicy = d.emptyProofs, "", "", "", ""
	}
	var err error
	d.audit, err = translog.Open(opts)
	if _, ok := errors.AsType[*translog.KeyFileError](err); ok {
		return asOption(ofField("Proof.KeyFile", err))
	}
	if _, ok := errors.AsType[*translog.SignedFileError](err); ok && d.opts.Proof.SignedFile != "" {
		return asOption(ofField("Proof.SignedFile", err))
	}
	if err = errors.Join(err, locked); err != nil {
		return err
	}
	d.auditing = startTask(ctx, func(ctx context.Context) {
		err := d.audit.Run(ctx, d.tail, d.store)
		if errors.Is(err, events.ErrDamaged) { // the ledger differs from what was signed
			d.reportDamage(err)
		}
		if err != nil && ctx.Err() == nil {
			// A restart repairs failures that are no damage.
			d.opts.Logger.Error("the ledger is not signed any more", slog.Any("error", err))
		}
	})
	return nil
}

// refuseSharedKey returns an error if another server uses the signed file. It is called before the start writes files
// beside that: the other server would take the permission to accept damage for one of its own operator.
func (d *Daybook) refuseSharedKey(context.Context) error {
	if d.opts.Proof.Off {
		return nil
	}
	if err := d.lockSigned(); errors.Is(err, datadir.ErrFileLocked) {
		return ofField("Proof.KeyFile", fmt.Errorf("%w; each server needs a signing key of its own: give this one another file, or stop the other server", err))
	}
	return nil // startAudit reports other errors, after those of the key
}

// lockSigned takes a lock on the signed file if it is outside of the data directory and this server does not have the
// lock. Two servers with one key, of a shared ledger or of a copy of the data directory, would replace the checkpoints
// of each other there.
func (d *Daybook) lockSigned() error {
	if d.opts.Proof.KeyFile == "" && d.opts.Proof.SignedFile == "" || d.signedLock != nil {
		return nil
	}
	path := d.signedPath()
	err := durable.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		d.signedLock, err = datadir.TakeFileLock(path)
	}
	return err
}

// signFinalCheckpoint signs a checkpoint of all recorded events before the Daybook
// closes.
func (d *Daybook) signFinalCheckpoint() {
	if d.auditing == nil {
		return
	}
	if d.damage.Damaged() { // a damaged ledger takes no events
		d.auditing.end()
		return
	}
	ctx, stop := context.WithTimeoutCause(context.Background(), finalCheckpointTimeout, errors.New("it took too long"))
	defer stop()
	go func() {
		select {
		case <-d.auditing.done: // the task has ended
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
	} else if newest, ok := d.audit.Latest(); ok && d.audit.HasWitnesses() && !d.audit.AwaitCosigned(ctx, newest.Size) {
		d.opts.Logger.Warn("too few witnesses cosigned the last checkpoint of the ledger; the next start asks them again", slog.Uint64("size", newest.Size))
	}
	d.auditing.end()
}

// signedPath returns the file of the newest signed checkpoint.
func (d *Daybook) signedPath() string {
	return translog.SignedPath(auditDir(d.opts.DataDir), d.opts.Proof.KeyFile, d.opts.Proof.SignedFile)
}

// auditDir returns the directory of the proofs, which is separate from the streams.
func auditDir(dataDir string) string { return filepath.Join(dataDir, "audit") }

// AuditKey returns the key that verifies the checkpoints of this ledger, or an empty
// string. Keep a copy elsewhere to verify the ledger without trusting this directory.
func (d *Daybook) AuditKey() string {
	if d.audit == nil || d.proofsMissing { // then the key is a temporary one
		return ""
	}
	return d.audit.VKey()
}

// localProofs returns the proofs of the ledger, or nil.
func (d *Daybook) localProofs() *audit.Local {
	if d.audit == nil {
		return nil
	}
	return &audit.Local{Log: d.audit, Stream: d.store, Blobs: storedBlobs{d.store}, SessionOf: d.sessionOf, Cosigned: translog.Dir(auditDir(d.opts.DataDir)).Cosigned}
}

// storedBlobs reads blobs for proofs and exports, without decrypting them.
type storedBlobs struct{ *jetstream.Store }

func (b storedBlobs) Text(ctx context.Context, tenant, hash string) ([]byte, error) {
	return b.RawText(ctx, tenant, hash)
}

// Heap reads a heap without the cache: exports read old heaps, which would displace
// heaps in use.
func (b storedBlobs) Heap(ctx context.Context, tenant, hash string) ([]byte, events.HeapInfo, error) {
	return b.StoredHeap(ctx, tenant, hash)
}

// auditDamage returns the reason why no checkpoint is signed, or nil.
func (d *Daybook) auditDamage() error {
	if d.audit == nil {
		return nil
	}
	if err := d.audit.Damage(); err != nil {
		return fmt.Errorf("the ledger does not match its checkpoints: %w", err)
	}
	return nil
}
