package embed

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
	"daybook/projections"
	"daybook/runner"
)

// metrics serves the metrics in the Prometheus format.
func (d *Daybook) metrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &collector{d})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector reads the components at each request.
type collector struct{ d *Daybook }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("daybook_"+name, help, labels, nil)
}

// Describe sends nothing: the collector is unchecked.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends one reading of all metrics.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(desc("projection_applied_position", "Position of the last event applied to the projections."), prometheus.GaugeValue, float64(c.d.projections.Applied()))
	out <- prometheus.MustNewConstMetric(desc("projection_late_reads_total", "Reads over HTTP that waited 5 s for a position that was not applied to the projections."), prometheus.CounterValue, float64(c.d.lateReads.Load()))
	out <- prometheus.MustNewConstMetric(desc("damage", "Findings of damage of the ledger; with any the server is read-only."), prometheus.GaugeValue, float64(c.d.damage.Count(damage.OfLedger)))
	out <- prometheus.MustNewConstMetric(desc("damaged_blobs", "Heaps and texts that are known to be damaged; only requests and runs that need them fail."), prometheus.GaugeValue, float64(c.d.damage.Count(damage.OfBlob)))
	out <- prometheus.MustNewConstMetric(desc("replay_differences", "Executions of the sample of --replay-sample whose replay differs from their record."), prometheus.GaugeValue, float64(c.d.damage.Count(damage.OfRun)))
	if c.d.scrub != nil {
		p := c.d.scrub.Progress()
		out <- prometheus.MustNewConstMetric(desc("scrub_position", "Position that the current pass of the scrub has reached."), prometheus.GaugeValue, float64(p.Position))
		out <- prometheus.MustNewConstMetric(desc("scrub_rounds_total", "Completed passes of the scrub."), prometheus.CounterValue, float64(p.Rounds))
		out <- prometheus.MustNewConstMetric(desc("scrub_events_total", "Events that the scrub has compared with their hashes."), prometheus.CounterValue, float64(p.Events))
		out <- prometheus.MustNewConstMetric(desc("scrub_bytes_total", "Bytes that the scrub has read."), prometheus.CounterValue, float64(p.Bytes))
		out <- prometheus.MustNewConstMetric(desc("scrub_findings_total", "Findings of the scrub."), prometheus.CounterValue, float64(p.Findings))
		out <- prometheus.MustNewConstMetric(desc("scrub_tiles_repaired_total", "Tiles that did not match intact events and were written again."), prometheus.CounterValue, float64(p.TilesRepaired))
	}
	if c.d.audit != nil {
		signed, _ := c.d.audit.Latest()
		out <- prometheus.MustNewConstMetric(desc("audit_hashed_position", "Position of the last event in the Merkle tree."), prometheus.GaugeValue, float64(c.d.audit.Size()))
		out <- prometheus.MustNewConstMetric(desc("audit_signed_position", "Position of the last event that a signed checkpoint covers."), prometheus.GaugeValue, float64(signed.Size))
		if c.d.audit.HasWitnesses() {
			out <- prometheus.MustNewConstMetric(desc("audit_witness_claims", "Witnesses that claim, without a proof, to have cosigned a checkpoint that the ledger does not continue."), prometheus.GaugeValue, float64(len(c.d.audit.WitnessClaims())))
			cosigned, at, ok := c.d.audit.Cosigned()
			out <- prometheus.MustNewConstMetric(desc("audit_cosigned_position", "Position of the last event that a checkpoint covers which enough witnesses cosigned."), prometheus.GaugeValue, float64(cosigned.Size))
			if ok {
				out <- prometheus.MustNewConstMetric(desc("audit_cosigned_time_seconds", "Time of the newest checkpoint that enough witnesses cosigned, in seconds since 1970."), prometheus.GaugeValue, float64(at.Unix()))
			}
		}
	}
	c.limitMetrics(out)
	c.connectionMetrics(out)
	c.diskMetrics(out)
	c.memoryMetrics(out)
	c.contextMetrics(out)
	c.webhookMetrics(out)
	if c.d.runner == nil {
		return
	}
	stats := c.d.runner.Stats()
	out <- prometheus.MustNewConstMetric(desc("runner_in_flight", "Runs that this process has taken and not finished."), prometheus.GaugeValue, float64(stats.InFlight))
	for _, status := range []events.Status{events.StatusCompleted, events.StatusFailed, events.StatusTimedOut, events.StatusCancelled} {
		out <- prometheus.MustNewConstMetric(desc("runner_executions_total", "Executions that this process has ended.", "status"), prometheus.CounterValue, float64(stats.Done[status]+c.d.gate.Ended(status)), string(status))
	}
	queueMetrics(out, stats)
	out <- prometheus.MustNewConstMetric(desc("runner_handed_back_total", "Runs handed back while draining."), prometheus.CounterValue, float64(stats.HandedBack))
	out <- prometheus.MustNewConstMetric(desc("runner_retried_total", "Runs returned to the queue because a resource was unavailable."), prometheus.CounterValue, float64(stats.Retried))
}

// limitMetrics sends the usage of limits by the largest tenants, and the number of
// refusals by limits.
func (c *collector) limitMetrics(out chan<- prometheus.Metric) {
	for limit, n := range c.d.quotas.Refusals() {
		out <- prometheus.MustNewConstMetric(desc("limit_refusals_total", "Requests, streams and changes that a limit has refused.", "limit"), prometheus.CounterValue, float64(n), limit)
	}
	for by, n := range c.d.gate.Changes.Held() {
		out <- prometheus.MustNewConstMetric(desc("changes_held_total", "Changes of clients that waited before they were recorded: while other tenants made changes (share), or until earlier changes of the tenant were applied (projections).", "by"), prometheus.CounterValue, float64(n.Waited), by)
		out <- prometheus.MustNewConstMetric(desc("changes_refused_total", "Changes of clients that were refused because they waited for too long.", "by"), prometheus.CounterValue, float64(n.Refused), by)
	}
	// Other queries may block the next two queries. After a second their metrics are left out.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.anomalyMetrics(ctx, out)
	most, err := c.d.projections.LargestUsage(ctx)
	if err != nil {
		c.d.opts.Logger.Warn("the metrics lack the largest usage of a tenant", "err", err)
		return
	}
	for what, n := range map[string]int64{
		"runs": most.Runs, "output_bytes": most.OutputBytes, "heap_bytes": most.HeapBytes,
		"sessions": most.Sessions, "contexts": most.Contexts, "tagged_heaps": most.TaggedHeaps, "short_names": most.ShortNames,
	} {
		out <- prometheus.MustNewConstMetric(desc("largest_tenant", "Largest usage by one tenant, for each quantity that is limited per tenant.", "of"), prometheus.GaugeValue, float64(n), what)
	}
}

// anomalyMetrics sends the number of anomalies and the position of the newest.
func (c *collector) anomalyMetrics(ctx context.Context, out chan<- prometheus.Metric) {
	found, err := c.d.projections.Anomalies(ctx, "", 1)
	if err != nil {
		c.d.opts.Logger.Warn("the metrics lack the anomalies", "err", err)
		return
	}
	for kind, n := range map[projections.AnomalyKind]int64{projections.AnomalyRuleBroken: found.RuleBroken, projections.AnomalyUnknownType: found.UnknownType} {
		out <- prometheus.MustNewConstMetric(desc("anomalies", "Events whose effect the projections leave out, because they break a rule or their type is unknown.", "kind"), prometheus.GaugeValue, float64(n), string(kind))
	}
	for _, newest := range found.Newest {
		out <- prometheus.MustNewConstMetric(desc("anomaly_newest_position", "Position of the newest anomaly; absent without any."), prometheus.GaugeValue, float64(newest.Seq))
		out <- prometheus.MustNewConstMetric(desc("anomaly_newest_timestamp_seconds", "Unix time of the newest anomaly; absent without any."), prometheus.GaugeValue, float64(newest.Time.UnixMilli())/1000)
	}
}

// queueMetrics sends the waiting times of runs for a slot. The runner limits the number
// of tenants.
func queueMetrics(out chan<- prometheus.Metric, stats runner.Stats) {
	bounds := runner.QueueBounds()
	for tenant, q := range stats.QueueTimes {
		var runs uint64
		buckets := map[float64]uint64{}
		for i, n := range q.Counts {
			if runs += n; i < len(bounds) {
				buckets[bounds[i].Seconds()] = runs
			}
		}
		out <- prometheus.MustNewConstHistogram(desc("runner_queue_seconds", "Time from acceptance to the first attempt of the runs that this process started. Beyond 50 tenants, the others are counted together as (other).", "tenant"), runs, q.Total.Seconds(), buckets, tenant)
	}
}
