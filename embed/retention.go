package embed

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/retention"
)

// shredWait is the time for which a shred waits for runs to end. Other shreds wait for it, also those of other tenants.
const shredWait = 2 * time.Second

// startShredder creates the shredder and destroys keys that still exist although the
// ledger records them as shredded.
func (d *Daybook) startShredder(ctx context.Context) error {
	if d.keys == nil {
		return nil
	}
	d.shredder = retention.NewShredder(retention.ShredOptions{Store: d.store, Recorder: d.ledger, Keys: d.keys, Wait: shredWait})
	if d.damage.Damaged() { // Finish records collected heaps, and a damaged ledger takes no events
		return nil
	}
	return d.shredder.Finish(ctx)
}

// Shred destroys the content of a session of any kind, or of what belongs to no session: see
// retention.Shredder.Shred.
func (d *Daybook) Shred(ctx context.Context, tenant string, t retention.Target, force bool, actor events.Actor) (retention.ShredResult, error) {
	if d.shredder == nil {
		return retention.ShredResult{}, &retention.RefusedError{Message: fmt.Sprintf("%s cannot be shredded: the server was not started with --erasable-sessions", t)}
	}
	if t.Kind == events.SessionNone && d.contexts != nil {
		d.contexts.Flush(ctx) // what is noted in memory only would be recorded later, under another key
	}
	done, err := d.shredder.Shred(ctx, tenant, t, force, actor)
	if err == nil && d.forget != nil {
		d.forget(tenant)
	}
	return done, err
}

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
