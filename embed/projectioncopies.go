package embed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"daybook/events"
	"daybook/projections"
)

const (
	// copyInterval is the least time between two attempts to copy the projections.
	copyInterval = time.Minute
	// copyShare bounds the time for copies: an attempt begins no earlier than that many times the
	// duration of the one before after its begin.
	copyShare = 50
)

// copiesDir is the directory of the projection copies. They have plaintext, like the projections,
// so they are beside them and not on the NATS server.
func (d *Daybook) copiesDir() string { return filepath.Join(d.opts.DataDir, "projection-copies") }

// projectionOptions returns the options of the projections of this Daybook.
func (d *Daybook) projectionOptions() projections.Options {
	return projections.Options{
		Path: d.projectionsFile(), CopyDir: d.copiesDir(), RecordedCopies: d.recordedCopies,
		Texts: d.store, Keys: d.knownKeys(), Logger: d.opts.Logger,
	}
}

// removeProjections removes all that was derived from events that are lost.
func (d *Daybook) removeProjections() error {
	return errors.Join(projections.RemoveCopies(d.copiesDir()), projections.Remove(d.projectionsFile()))
}

// recordedCopies returns the copies that the ledger records, of all servers. An event that names its
// own position or a later one describes a copy of another history, as after a ledger was set back.
func (d *Daybook) recordedCopies(ctx context.Context) (list []projections.Copy, err error) {
	err = d.store.EachMatching(ctx, events.CopySubject(events.LedgerTenant), func(e events.Event) error {
		if c, ok := e.Data.(*events.LedgerProjectionsCopied); ok && c.Position < e.Seq {
			list = append(list, projections.Copy{Position: c.Position, Schema: c.Schema, SHA256: c.SHA256})
		}
		return nil
	})
	return list, err
}

// startCopying copies the projections after a volume was sealed, and after an erasure has deleted
// the copies.
func (d *Daybook) startCopying(ctx context.Context) error {
	if d.damage.Damaged() || d.opts.Storage.ProjectionCopies < 0 {
		return nil
	}
	d.copying = startTask(ctx, func(ctx context.Context) {
		tick := time.NewTicker(sealCheck)
		defer tick.Stop()
		var next time.Time
		isChecked := false
		for {
			if !time.Now().Before(next) {
				began, err := d.copyIfDue(ctx, &isChecked)
				if !began.IsZero() {
					next = began.Add(max(copyInterval, copyShare*time.Since(began)))
				}
				switch {
				case err == nil || ctx.Err() != nil:
				case errors.Is(err, projections.ErrCopyStopped):
					d.opts.Logger.DebugContext(ctx, "a copy of the projections is made later", "err", err)
				default:
					d.opts.Logger.WarnContext(ctx, "copying the projections failed and is tried again", "err", err)
				}
			}
			select {
			case <-tick.C:
			case <-d.sealedToCopy:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// copyIfDue copies the projections if no copy that a rebuild can use has all events of the sealed
// volumes. isChecked is false until the copies of earlier processes were compared with their
// recorded hashes. It returns when an attempt began, or the zero time if there was none.
func (d *Daybook) copyIfDue(ctx context.Context, isChecked *bool) (began time.Time, err error) {
	if d.damage.Damaged() { // no copy could be recorded
		return began, nil
	}
	if !*isChecked {
		if err := d.projections.CheckCopies(ctx); err != nil {
			return time.Now(), err
		}
		*isChecked = true
	}
	list, err := d.store.Volumes(ctx)
	if err != nil || len(list) < 2 {
		return began, err
	}
	sealed := list[len(list)-2]
	if d.projections.NewestCopy() >= sealed.Last {
		return began, nil
	}
	if err := d.projections.Wait(ctx, sealed.Last); err != nil {
		return time.Now(), err
	}
	began = time.Now()
	if err := errors.Join(d.checkCopySpace(), d.checkCopyKeys(ctx)); err != nil {
		return began, err
	}
	c, err := d.projections.WriteCopy(ctx, d.opts.Storage.ProjectionCopies, func(ctx context.Context, c projections.Copy) error {
		_, err := d.store.Append(ctx, events.New(events.LedgerTenant, time.Now(), &events.LedgerProjectionsCopied{Volume: sealed.Number, Position: c.Position, Schema: c.Schema, SHA256: c.SHA256}), -1)
		return err
	})
	if err == nil {
		d.opts.Logger.InfoContext(ctx, "copied the projections", "position", c.Position, "took", time.Since(began))
	}
	return began, err
}

// checkCopyKeys returns an error if content keys are missing: a rebuild that begins with a copy
// would not decrypt its content once they are restored.
func (d *Daybook) checkCopyKeys(ctx context.Context) error {
	lost, err := d.projections.FindLostKeys(ctx, d.knownKeys())
	if err == nil && lost != nil {
		return fmt.Errorf("%w: %w", projections.ErrCopyStopped, lost)
	}
	return err
}

// checkCopySpace returns an error if the disk may have too little space for a copy.
func (d *Daybook) checkCopySpace() error {
	if d.disk == nil {
		return nil
	}
	info, err := os.Stat(d.projectionsFile())
	if err != nil {
		return err
	}
	free, err := d.disk.Free()
	if err != nil {
		return err
	}
	if need := info.Size() + d.disk.Reserve(); free < need {
		return fmt.Errorf("%w: %d bytes of the disk are free, and a copy needs %d", projections.ErrCopyStopped, free, need)
	}
	return nil
}
