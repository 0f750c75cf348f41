package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/internal/admission"
	"daybook/internal/contextstore"
	"daybook/internal/web/access"
)

// startContexts starts the conversation contexts. When the task contextsRunning is stopped,
// the task tries for up to 10 s to record the remaining notes before it ends. In stateless
// mode there are no contexts.
func (d *Daybook) startContexts(ctx context.Context) error {
	if d.opts.Runs.Stateless {
		return nil
	}
	o := d.opts.Contexts
	var err error
	d.contexts, err = contextstore.New(contextstore.Options{
		Log: admission.Log{Store: d.store, Gate: d.gate, Entered: true}, Enter: d.gate.Changes.Enter, Views: d.projections, Check: d.contextHealth, Keep: d.keepContext, Silent: d.store.Silent,
		MaxSessions: o.MaxSessions, MaxBytes: int64(o.MaxMB) << 20, HighWaterBytes: uint64(o.HighWaterMB) << 20,
		IdleTTL: o.Idle, TenantScope: o.TenantScope, SecretKeys: o.SecretKeys, Encrypt: d.ledger.UseKeyOfContent, WithoutAnswers: d.opts.Content.Erasable, Logger: d.opts.Logger,
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

// keepContext returns *access.LimitError if the context with the key is new and the
// tenant has reached its limit of conversation contexts. It returns nil if the number of
// contexts cannot be read.
func (d *Daybook) keepContext(ctx context.Context, tenant, key string) error {
	err := d.quotas.Allows(ctx, tenant, access.Kept{Context: key})
	if over, limited := errors.AsType[*access.LimitError](err); limited {
		return over
	}
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "the limit of conversation contexts cannot be checked", "err", err)
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
