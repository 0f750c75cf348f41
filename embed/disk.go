package embed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/events"
	"daybook/internal/resources/disk"
	"daybook/internal/resources/exhausted"
)

const (
	// diskEvery is the interval of checks of the disk while nothing is written.
	diskEvery = time.Second
	// emptyLogEvery is the interval at which the log of the projections is emptied
	// while space is short.
	emptyLogEvery = 10 * time.Second
)

// openDisk checks the disk before anything else is opened, and frees space if there is
// none.
func (d *Daybook) openDisk(ctx context.Context) error {
	space, err := disk.Open(d.opts.DataDir, d.opts.Resources.DiskReserve)
	if space == nil || err != nil {
		return err
	}
	d.disk = space
	if space.Out() != nil {
		free, _ := space.Free()
		if space.DropBallast() {
			d.opts.Logger.WarnContext(ctx, "too little of the disk is free; the file that keeps space for this start was deleted", "file", disk.BallastName, "free_bytes", free)
		}
	}
	return space.KeepBallast()
}

// watchDisk logs when space runs out and when space is free again. If writes of the
// embedded server failed for lack of a resource, it restarts that server. While space is
// free, it creates a missing ballast and stores a base heap that the start could not
// store. While space is short, it empties the log of the projections. With an outside
// server it does nothing.
func (d *Daybook) watchDisk(ctx context.Context) error {
	if d.nats == nil {
		return nil
	}
	d.watchingDisk = startTask(ctx, func(ctx context.Context) {
		wasLow, failed := false, false
		var emptied time.Time
		tick := time.NewTicker(diskEvery)
		defer tick.Stop()
		for first := true; ; first = false {
			writable := d.nats.Writable()
			select {
			case <-deliverNow(first):
			case <-tick.C:
			case <-channelUnless(failed, writable.Done()):
			case <-ctx.Done():
				return
			}
			low := d.disk.Low()
			if (low != nil) != wasLow {
				if wasLow = low != nil; wasLow {
					d.opts.Logger.WarnContext(ctx, "no new runs are accepted", "err", low)
				} else {
					d.opts.Logger.WarnContext(ctx, "there is space on the disk again: new runs are accepted")
				}
			}
			if low == nil && !failed {
				d.storeBaseHeap(ctx)
			}
			if d.disk != nil {
				if low != nil && time.Since(emptied) >= emptyLogEvery {
					emptied = time.Now()
					if err := d.projections.TruncateLog(ctx); err != nil {
						d.opts.Logger.DebugContext(ctx, "the log of the projections cannot be emptied", "err", err)
					}
				}
				if low == nil {
					if err := d.disk.KeepBallast(); err != nil {
						d.opts.Logger.WarnContext(ctx, "the next start on a full disk may fail", "err", err)
					}
				}
			}
			if failed = writable.Err() != nil; failed && d.reopen(ctx, context.Cause(writable)) {
				failed = false
			}
		}
	})
	return nil
}

// storeBaseHeap stores the base heap if a start on a full disk could not store it. Until
// then heaps are stored complete.
func (d *Daybook) storeBaseHeap(ctx context.Context) {
	if d.baseHeapOf == "" {
		return
	}
	switch err := d.setBaseHeap(ctx, d.baseHeapOf); {
	case err == nil:
		d.baseHeapOf = ""
	case !isTransient(err) && ctx.Err() == nil:
		d.opts.Logger.WarnContext(ctx, "the base heap cannot be stored; heaps are stored complete until the next start", "err", err)
		d.baseHeapOf = ""
	}
}

// deliverNow returns a closed channel, or nil.
func deliverNow(deliver bool) <-chan struct{} {
	if !deliver {
		return nil
	}
	c := make(chan struct{})
	close(c)
	return c
}

// Unwritable returns the reason why nothing can be recorded now, or nil. Damage is
// permanent; a full disk is not.
func (d *Daybook) Unwritable() error {
	return cmp.Or(d.damage.ReadOnly(), d.disk.Low(), d.store.Unwritable())
}

// channelUnless returns c, or nil if not is set. A nil channel never delivers.
func channelUnless(not bool, c <-chan struct{}) <-chan struct{} {
	if not {
		return nil
	}
	return c
}

// reopen restarts the embedded server if its writes failed for lack of a resource that
// is available again. It reports whether it restarted the server.
func (d *Daybook) reopen(ctx context.Context, cause error) bool {
	_, passes := exhausted.Of(cause)
	if !passes {
		_, passes = exhausted.In(cause.Error())
	}
	if !passes || d.disk.Out() != nil || exhausted.Descriptors() != nil || disk.Probe(d.opts.DataDir) != nil {
		return false
	}
	if err := d.nats.Reopen(ctx); err != nil {
		d.opts.Logger.ErrorContext(ctx, "the ledger cannot be opened for writing again yet; the server tries again", slog.Any("error", err))
		return false
	}
	// HealthOfAll returns an error until the ledger is usable, and events.ErrDamaged if an
	// acknowledged event is missing.
	for err := d.store.HealthOfAll(ctx); err != nil; err = d.store.HealthOfAll(ctx) {
		if errors.Is(err, events.ErrDamaged) || d.nats.Writable().Err() != nil || d.disk.Out() != nil {
			d.opts.Logger.ErrorContext(ctx, "the ledger was opened for writing again and has failed", slog.Any("error", err))
			return true
		}
		select {
		case <-time.After(50 * time.Millisecond): // the connections are being restored
		case <-ctx.Done():
			return true
		}
	}
	d.opts.Logger.WarnContext(ctx, "the ledger takes writes again", slog.Any("after", cause))
	return true
}

// diskMetrics sends the metrics of disk space.
func (c *collector) diskMetrics(out chan<- prometheus.Metric) {
	if c.d.disk == nil {
		return
	}
	if free, err := c.d.disk.Free(); err == nil {
		out <- prometheus.MustNewConstMetric(desc("disk_free_bytes", "Free space on the disk of the data directory."), prometheus.GaugeValue, float64(free))
	}
	out <- prometheus.MustNewConstMetric(desc("disk_reserve_bytes", "Space that is kept free: below it no new run is accepted."), prometheus.GaugeValue, float64(c.d.disk.Reserve()))
}
