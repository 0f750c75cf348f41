package embed

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"daybook/events"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/stream"
	"daybook/internal/webhook"
)

// startWebhooks delivers events to the recorded webhooks until stopWebhooks is called.
func (d *Daybook) startWebhooks(ctx context.Context) error {
	if d.damage.Damaged() {
		return nil // deliveries are recorded, and a damaged ledger takes no events
	}
	var err error
	d.webhooks, err = webhook.Open(ctx, webhook.Options{
		Journal:      d.store,
		Feed:         webhookFeed{d.store, d.tail},
		Dir:          filepath.Join(d.opts.DataDir, "webhooks"),
		SessionOf:    d.sessionOf,
		Reads:        d.reads,
		AllowPrivate: d.opts.Webhooks.AllowPrivate,
		Logger:       d.opts.Logger,
	})
	if errors.Is(err, events.ErrDamaged) {
		d.reportDamage(err)
		d.webhooks = nil
		return nil
	}
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	d.stopWebhooks = func() { stop(); <-done }
	go func() {
		defer close(done)
		if err := d.webhooks.Run(running); err != nil {
			d.failOrGoReadOnly(fmt.Errorf("deliver to webhooks: %w", err))
		}
	}()
	return nil
}

// webhookFeed reads the ledger for webhooks. It shares the reading of the newest events
// with the other followers.
type webhookFeed struct {
	*jetstream.Store
	tail *stream.SharedTail
}

func (f webhookFeed) Follow(ctx context.Context, after uint64, fn func(batch []events.Event, last uint64) error) error {
	return f.tail.Follow(ctx, after, func(batch []events.Event, last uint64) error { return fn(withoutPlaintext(batch), last) })
}

// Read returns up to limit events after a position, as recorded.
func (f webhookFeed) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	batch, err := f.Store.Read(ctx, after, limit)
	return withoutPlaintext(batch), err
}

// withoutPlaintext returns a batch of events without decrypted content. It does not
// change the events of the batch, which other readers share.
func withoutPlaintext(batch []events.Event) []events.Event {
	shown := make([]events.Event, len(batch))
	for i, e := range batch {
		events.StripPlaintext(&e)
		shown[i] = e
	}
	return shown
}

// sessionWait is the maximum time that a webhook waits for the projections before it
// tries again.
const sessionWait = 10 * time.Second

// sessionOf returns the sessions of an execution.
func (d *Daybook) sessionOf(ctx context.Context, tenant string, seq uint64, execution string) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, sessionWait)
	defer stop()
	if err := d.projections.Wait(ctx, seq); err != nil {
		return nil, fmt.Errorf("wait for the projections: %w", err)
	}
	return d.projections.SessionsOfExecution(ctx, tenant, execution)
}

// webhookGate refuses changes of webhooks by clients while free disk space is below the
// reserve. A webhook can be deleted even then, because that ends the recording of its
// deliveries.
type webhookGate struct {
	*webhook.Service
	d *Daybook
}

func (g webhookGate) Register(ctx context.Context, r webhook.Registration) (webhook.RegisterResult, error) {
	if err := g.d.disk.Low(); err != nil {
		return webhook.RegisterResult{}, fmt.Errorf("register a webhook: %w", err)
	}
	return g.Service.Register(ctx, r)
}

func (g webhookGate) Retry(ctx context.Context, tenant, id string, seqs []uint64, actor events.Actor) (n int, seq uint64, err error) {
	if err := g.d.disk.Low(); err != nil {
		return 0, 0, fmt.Errorf("retry webhook %s: %w", id, err)
	}
	return g.Service.Retry(ctx, tenant, id, seqs, actor)
}

// webhookMetrics sends the metrics of webhooks.
func (c *collector) webhookMetrics(out chan<- prometheus.Metric) {
	if c.d.webhooks == nil {
		return
	}
	st := c.d.webhooks.Stats()
	for state, n := range st.Webhooks {
		out <- prometheus.MustNewConstMetric(desc("webhooks", "Webhooks of all tenants.", "state"), prometheus.GaugeValue, float64(n), string(state))
	}
	attempts := desc("webhook_attempts_total", "Attempts of this process to deliver an event.", "outcome")
	out <- prometheus.MustNewConstMetric(attempts, prometheus.CounterValue, float64(st.Delivered), "delivered")
	out <- prometheus.MustNewConstMetric(attempts, prometheus.CounterValue, float64(st.Failed), "failed")
	out <- prometheus.MustNewConstMetric(desc("webhook_dead_letters", "Events that could not be delivered to a webhook."), prometheus.GaugeValue, float64(st.DeadLetters))
	out <- prometheus.MustNewConstMetric(desc("webhook_behind_events", "Number of events that the slowest webhook is behind."), prometheus.GaugeValue, float64(st.MaxLag))
}
