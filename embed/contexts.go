package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/internal/admission"
	"daybook/internal/contextstore"
	"daybook/internal/web/access"
)

// ContextOptions bound the conversation contexts. The zero value selects the defaults.
type ContextOptions struct {
	// Idle is the time without use after which a context is reset. Default: 30 min.
	Idle time.Duration
	// MaxSessions is the maximum number of contexts in memory, and MaxMB is their
	// maximum total size, approximately, in MiB. Other contexts are read when they are needed. Defaults:
	// 10,000 and 64. MaxMB is at most MaxMemoryMB.
	MaxSessions int
	MaxMB       int
	// HighWaterMB is the size of the Go heap, in MiB, above which contexts are dropped
	// from memory, at most MaxMemoryMB. Default: 512.
	HighWaterMB int
	// TenantScope gives all principals of a tenant the same context for a session name.
	// Otherwise each principal with a token has its own.
	TenantScope bool
	// SecretKeys extends the built-in list of parts of names: a context does not store a
	// value whose name contains one of them.
	SecretKeys []string
}

// validate returns the errors of the fields.
func (o ContextOptions) validate() error {
	count, size := optionRange[int]{least: 1}, optionRange[int]{least: 1, most: MaxMemoryMB, unit: " MB"}
	return errors.Join(
		optionRange[time.Duration]{least: 1}.check("Contexts.Idle", o.Idle),
		count.check("Contexts.MaxSessions", o.MaxSessions),
		size.check("Contexts.MaxMB", o.MaxMB),
		size.check("Contexts.HighWaterMB", o.HighWaterMB),
	)
}

// startContexts starts the conversation contexts. When contextsRunning has ended, it has
// tried for up to 10 s to record the remaining notes. In stateless mode there are none.
func (d *Daybook) startContexts(ctx context.Context) error {
	if d.opts.Runs.Stateless {
		return nil
	}
	o := d.opts.Contexts
	var err error
	d.contexts, err = contextstore.New(contextstore.Options{
		Log: admission.Log{Store: d.store, Gate: d.gate, Entered: true}, Enter: d.gate.Changes.Enter, Views: d.projections, Check: d.contextHealth, Keep: d.keepContext, Silent: d.store.Silent,
		MaxSessions: o.MaxSessions, MaxBytes: int64(o.MaxMB) << 20, HighWaterBytes: uint64(o.HighWaterMB) << 20,
		IdleTTL: o.Idle, TenantScope: o.TenantScope, SecretKeys: o.SecretKeys, WithoutAnswers: d.opts.Content.Erasable, Logger: d.opts.Logger,
	})
	if err != nil || d.damage.Damaged() {
		return err
	}
	d.contextsRunning = startTask(ctx, func(ctx context.Context) {
		if err := d.contexts.Run(ctx); err != nil {
			d.opts.Logger.Error("recording the notes of conversation contexts has stopped", slog.Any("error", err))
		}
	})
	return nil
}

// keepContext returns *access.LimitError if the context with the key is new and its
// tenant has as many conversation contexts as it may have. It returns nil if that
// cannot be read.
func (d *Daybook) keepContext(ctx context.Context, tenant, key string) error {
	err := d.quotas.Allows(ctx, tenant, access.Kept{Context: key})
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return over
	}
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "find out whether a conversation context can be kept", "err", err)
	}
	return nil
}

// contextHealth returns the reason why contexts cannot be kept now, or nil.
func (d *Daybook) contextHealth(ctx context.Context) error {
	if err := d.projections.Damage(); err != nil {
		return err
	}
	if err := d.projections.StallError(); err != nil {
		return err
	}
	if err := d.store.Health(ctx); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	return nil
}

// contextMetrics sends the metrics of the contexts.
func (c *collector) contextMetrics(out chan<- prometheus.Metric) {
	if c.d.contexts == nil {
		return
	}
	st := c.d.contexts.Stats()
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("context_store_sessions", "Conversation contexts held in memory.", nil, nil), prometheus.GaugeValue, float64(st.Sessions))
	evictions := prometheus.NewDesc("context_store_evictions_total", "Conversation contexts dropped from memory; the ledger has their content.", []string{"reason"}, nil)
	for reason, n := range st.Evictions {
		out <- prometheus.MustNewConstMetric(evictions, prometheus.CounterValue, float64(n), string(reason))
	}
	out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("context_read_latency_ms", "How long reads of conversation contexts took, in milliseconds.", nil, nil), st.Reads, st.ReadMillis, st.ReadBuckets)
	out <- prometheus.MustNewConstMetric(desc("context_store_bytes", "Approximate size of the conversation contexts in memory, in bytes."), prometheus.GaugeValue, float64(st.Bytes))
}
