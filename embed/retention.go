package embed

import (
	"context"
	"log/slog"

	"daybook/internal/lifecycle/retention"
)

// startRetention creates the collector of heaps, and starts automatic collection if it
// is configured.
func (d *Daybook) startRetention(ctx context.Context) error {
	d.retention = retention.New(retention.Options{Feed: d.store, Recorder: d.ledger, Blobs: d.store, Logger: d.opts.Logger})
	if d.opts.Content.HeapRetention == 0 || d.damage.Damaged() {
		return nil
	}
	rule := d.opts.retentionRule()
	d.retaining = startTask(ctx, func(ctx context.Context) {
		if err := d.retention.Run(ctx, rule); err != nil {
			d.opts.Logger.Error("heaps are not collected", slog.Any("error", err))
		}
	})
	return nil
}

// retentionRule returns the retention rule of Content.HeapRetention.
func (o Options) retentionRule() retention.Rule {
	rule := retention.Rule{OlderThan: o.Content.HeapRetention, KeepEntries: retention.DefaultKeepEntries}
	switch {
	case o.Content.HeapRetentionEntries > 0:
		rule.KeepEntries = o.Content.HeapRetentionEntries
	case o.Content.HeapRetentionEntries < 0:
		rule.KeepEntries = 0
	}
	return rule
}
