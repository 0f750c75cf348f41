package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/acp"
	"daybook/httpapi"
	"daybook/internal/contextstore"
	"daybook/internal/web/access"
	"daybook/mcp"
)

// ContextOptions bound the contexts of conversations. The zero value is a
// sensible choice.
type ContextOptions struct {
	// Idle is how long a context may go unused before it begins anew (30 min).
	Idle time.Duration
	// MaxSessions and MaxMB are how many contexts are held in memory (10,000) and how
	// many MiB they take, about (64). The others are read when they are needed.
	MaxSessions int
	MaxMB       int
	// HighWaterMB is the size of the process's own heap, in MiB, from which contexts
	// are dropped from memory (512).
	HighWaterMB int
	// TenantScope lets all principals of a tenant share the context of a session
	// name. Otherwise each principal with a token has its own.
	TenantScope bool
	// SecretKeys are parts of names whose values are kept out of contexts, besides
	// the usual ones.
	SecretKeys []string
}

func (o ContextOptions) check() error {
	if o.Idle < 0 || o.MaxSessions < 0 || o.MaxMB < 0 || o.HighWaterMB < 0 {
		return errors.New("nothing in Contexts can be negative")
	}
	return nil
}

// startContexts holds the contexts of conversations, until contextsRunning ends:
// then what was noted in them is on record. Without heaps there are none.
func (d *Daybook) startContexts(ctx context.Context) error {
	if d.opts.Stateless {
		return nil
	}
	o := d.opts.Contexts
	var err error
	d.contexts, err = contextstore.New(contextstore.Options{
		Log: clientLog{Store: d.store, d: d, entered: true}, Enter: d.changes.Enter, Views: d.projections, Check: d.contextHealth, Keep: d.keepContext, Silent: d.store.Silent,
		MaxSessions: o.MaxSessions, MaxBytes: int64(o.MaxMB) << 20, HighWaterBytes: uint64(o.HighWaterMB) << 20,
		IdleTTL: o.Idle, TenantScope: o.TenantScope, SecretKeys: o.SecretKeys, WithoutAnswers: d.opts.ErasableSessions, Logger: d.opts.Logger,
	})
	if err != nil || d.damage.Damaged() {
		return err
	}
	d.contextsRunning = follow(ctx, func(ctx context.Context) {
		if err := d.contexts.Run(ctx); err != nil {
			d.opts.Logger.Error("contexts are not kept up", slog.Any("error", err))
		}
	})
	return nil
}

// keepContext returns a *access.LimitError if a tenant has as many conversation contexts
// as it may have and the one with the key is new. It returns nil if that cannot be read.
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

// contextHealth reports why contexts cannot be kept now, or nil.
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

// mcpContexts, agentContexts and httpContexts are the contexts, or none.
func (d *Daybook) mcpContexts() mcp.Contexts {
	if d.contexts == nil {
		return nil
	}
	return d.contexts
}

func (d *Daybook) agentContexts() acp.Contexts {
	if d.contexts == nil {
		return nil
	}
	return d.contexts
}

func (d *Daybook) httpContexts() httpapi.Contexts {
	if d.contexts == nil {
		return nil
	}
	return d.contexts
}

// contextMetrics sends a reading of the contexts, under the documented names.
func (c *collector) contextMetrics(out chan<- prometheus.Metric) {
	if c.d.contexts == nil {
		return
	}
	st := c.d.contexts.Stats()
	out <- prometheus.MustNewConstMetric(prometheus.NewDesc("context_store_sessions", "Conversation contexts held in memory.", nil, nil), prometheus.GaugeValue, float64(st.Sessions))
	evictions := prometheus.NewDesc("context_store_evictions_total", "Conversation contexts dropped from memory; what is in them is on record.", []string{"reason"}, nil)
	for reason, n := range st.Evictions {
		out <- prometheus.MustNewConstMetric(evictions, prometheus.CounterValue, float64(n), string(reason))
	}
	out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("context_read_latency_ms", "How long reads of conversation contexts took, in milliseconds.", nil, nil), st.Reads, st.ReadMillis, st.ReadBuckets)
	out <- prometheus.MustNewConstMetric(desc("context_store_bytes", "What the conversation contexts in memory take, about."), prometheus.GaugeValue, float64(st.Bytes))
}
