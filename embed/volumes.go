package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"daybook/events"
	"daybook/internal/store/stream"
)

// Values of Options.Storage.SealEvery.
const (
	sealMonthly = "month"
	sealNever   = "never"
)

// subjectsPerExecution is the number of subjects that an execution adds to its volume: that of its
// request, and that of its other control events.
const subjectsPerExecution = 2

const (
	// sealCheck is the interval of checks of the active volume.
	sealCheck = 10 * time.Second
	// signPendingTimeout and closeWait are the maximum times to sign the events before a
	// volume is sealed: signPendingTimeout while appends continue, then closeWait while
	// they wait.
	signPendingTimeout = time.Minute
	closeWait          = 10 * time.Second
)

// systemActor is the recorded actor of actions that the server starts on its own, such
// as a scheduled rotation.
var systemActor = events.Actor{Principal: "daybook", Transport: "embed"}

// startVolumes rotates the active volume when that is due.
func (d *Daybook) startVolumes(ctx context.Context) error {
	if d.damage.Damaged() || d.opts.Storage.SealEvery == sealNever && d.opts.Storage.SealBytes < 0 && d.opts.Storage.SealExecutions < 0 {
		return nil
	}
	d.sealing = startTask(ctx, func(ctx context.Context) {
		tick := time.NewTicker(sealCheck)
		defer tick.Stop()
		for {
			if err := d.sealIfDue(ctx, time.Now()); err != nil && ctx.Err() == nil {
				d.opts.Logger.Warn("sealing the active volume failed and is tried again", slog.Any("error", err))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func (d *Daybook) sealIfDue(ctx context.Context, now time.Time) error {
	list, err := d.store.Volumes(ctx)
	if err != nil {
		return err
	}
	reason := d.opts.sealReason(list[len(list)-1], now)
	if reason == "" {
		return nil
	}
	v, err := d.rotateVolume(ctx, reason, systemActor)
	if errors.Is(err, events.ErrEmptyVolume) {
		return nil // the next check tries again
	}
	if err == nil {
		d.opts.Logger.Info("sealed a volume of the ledger", "volume", int(v.Number), "first", v.First, "last", v.Last, "reason", string(reason))
	}
	return err
}

// sealReason returns the reason to seal a volume now, or an empty string. Months are in
// UTC.
func (o Options) sealReason(v events.VolumeInfo, now time.Time) events.VolumeReason {
	switch {
	case v.Began.IsZero():
		return ""
	case o.Storage.SealBytes > 0 && v.Bytes >= uint64(o.Storage.SealBytes):
		return events.VolumeFull
	case o.Storage.SealExecutions > 0 && v.Subjects >= subjectsPerExecution*uint64(o.Storage.SealExecutions):
		return events.VolumeFull
	case o.Storage.SealEvery == sealMonthly && monthOf(now) > monthOf(v.Began):
		return events.VolumeAged
	default:
		return ""
	}
}

// monthOf returns the number of a month. Later months have higher numbers, so no volume is
// due if the clock was set back to an earlier month.
func monthOf(t time.Time) int {
	t = t.UTC()
	return t.Year()*12 + int(t.Month())
}

// rotateVolume seals the active volume under a checkpoint of all its events, and opens
// the next one.
func (d *Daybook) rotateVolume(ctx context.Context, reason events.VolumeReason, actor events.Actor) (events.VolumeInfo, error) {
	how := stream.RotateOptions{Reason: reason, Actor: actor}
	if d.audit != nil {
		if err := d.signPending(ctx); err != nil {
			return events.VolumeInfo{}, fmt.Errorf("sign the events of the volume: %w", err)
		}
		how.Close = func(ctx context.Context, last uint64) (*events.ClosingCheckpoint, error) {
			ctx, stop := context.WithTimeout(ctx, closeWait)
			defer stop()
			return d.audit.SignClosing(ctx, last)
		}
	}
	v, err := d.store.Rotate(ctx, how)
	if err == nil {
		for _, c := range []chan struct{}{d.sealed, d.sealedToCopy} {
			select {
			case c <- struct{}{}:
			default: // its reader looks soon
			}
		}
	}
	return v, err
}

// signPending signs the recorded events, so that little is left to sign while appends
// wait.
func (d *Daybook) signPending(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, signPendingTimeout)
	defer stop()
	last, err := d.store.LastSeq(ctx)
	if err == nil {
		_, err = d.audit.CheckpointThrough(ctx, last)
	}
	return err
}

// ledgerVolumes implements httpapi.Volumes.
type ledgerVolumes struct{ d *Daybook }

func (l ledgerVolumes) Volumes(ctx context.Context) ([]events.VolumeInfo, error) {
	return l.d.store.Volumes(ctx)
}

func (l ledgerVolumes) SealVolume(ctx context.Context, actor events.Actor) (events.VolumeInfo, error) {
	return l.d.rotateVolume(ctx, events.VolumeAsked, actor)
}

func (l ledgerVolumes) RemoveVolume(ctx context.Context, n events.Volume, export string, actor events.Actor) (events.Removal, error) {
	return l.d.removeVolume(ctx, n, export, actor)
}

func (l ledgerVolumes) Removed() events.Removal { return l.d.store.Removed() }
