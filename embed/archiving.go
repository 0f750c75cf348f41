package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/store/stream"
	"daybook/proof"
)

// archiveRetry is the time after which the archiving of a volume is tried again.
const archiveRetry = time.Minute

// startArchiving makes archives of the sealed volumes, except of the newest ones.
func (d *Daybook) startArchiving(ctx context.Context) error {
	if d.damage.Damaged() || d.opts.Storage.StreamVolumes < 0 {
		return nil
	}
	d.archiving = startTask(ctx, func(ctx context.Context) {
		tick := time.NewTicker(sealCheck)
		defer tick.Stop()
		again := map[events.Volume]time.Time{} // when a volume is tried again
		for {
			if err := d.archiveDue(ctx, again); err != nil && ctx.Err() == nil {
				d.opts.Logger.Warn("archiving a volume failed and is tried again", slog.Any("error", err))
			}
			select {
			case <-tick.C:
			case <-d.sealed:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// archiveDue archives the volumes that need not be streams any more, oldest first.
func (d *Daybook) archiveDue(ctx context.Context, again map[events.Volume]time.Time) error {
	list, err := d.store.Volumes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range list[:max(len(list)-1-d.opts.Storage.StreamVolumes, 0)] {
		if v.Archived || time.Now().Before(again[v.Number]) {
			continue
		}
		began := time.Now()
		again[v.Number] = began.Add(archiveRetry)
		done, err := d.archiveVolume(ctx, v)
		refused, isRefusal := errors.AsType[*stream.NotArchivableError](err)
		switch {
		case isRefusal:
			d.opts.Logger.DebugContext(ctx, "a volume stays a stream for now", "volume", int(v.Number), "reason", refused.Reason)
		case err != nil:
			errs = append(errs, err)
		default:
			d.opts.Logger.InfoContext(ctx, "archived a volume of the ledger", "volume", int(v.Number), "bytes", v.Bytes, "archive_bytes", done.Bytes, "took", time.Since(began))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// archiveVolume archives a volume, and compares each event that it reads back from the archive
// with its leaf in the signed tree.
func (d *Daybook) archiveVolume(ctx context.Context, v events.VolumeInfo) (events.VolumeInfo, error) {
	opts := stream.ArchiveOptions{Volume: v.Number, PendingWork: d.store.PendingWork}
	if d.audit != nil {
		c, err := d.audit.Checkpoint(ctx, v.Last)
		if err != nil {
			return events.VolumeInfo{}, fmt.Errorf("archive volume %d: %w", v.Number, err)
		}
		leaves := d.audit.Prover(c)
		opts.Verify = func(m events.Stored) error {
			want, err := leaves.Leaf(m.Seq)
			if err != nil {
				return err
			}
			got, err := proof.LeafHash(eventproof.RecordOf(m))
			if err == nil && got != want {
				err = fmt.Errorf("the event does not match the hash that was computed when it was recorded: %w", events.ErrDamaged)
			}
			return err
		}
	}
	done, err := d.store.Archive(ctx, opts)
	if err == nil {
		err = d.backupStreamConfigs()
	}
	return done, err
}
