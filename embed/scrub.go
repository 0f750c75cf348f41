package embed

import (
	"context"
	"errors"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/exec/replay"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/spans"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
	"daybook/projections"
)

// startScrub starts the scrub, which re-reads the ledger continuously to find changes
// on the disk.
func (d *Daybook) startScrub(ctx context.Context) error {
	if d.audit == nil || d.opts.Proof.ScrubEvents < 0 || d.damage.Damaged() {
		return nil
	}
	opts := translog.ScrubOptions{Stream: d.store, Blobs: d.store, EventsPerSecond: d.opts.Proof.ScrubEvents, Found: d.scrubFound, FoundBlob: d.scrubFoundBlob}
	if d.opts.NATS.URL == "" {
		opts.Before = d.scrubFiles
	}
	if s := d.newSampler(); s != nil {
		opts.Read = s.Offer
		d.sampling = startTask(ctx, s.Run)
	}
	d.scrub = d.audit.NewScrub(opts)
	d.scrubbing = startTask(ctx, func(ctx context.Context) {
		_ = d.scrub.Run(ctx) // it returns only when ctx is done
	})
	return nil
}

// newSampler returns what replays a sample of the executions that the scrub reads, or nil if
// this process replays none.
func (d *Daybook) newSampler() *replay.Sampler {
	if d.replays == nil || d.runner == nil || d.opts.Proof.ReplaySample < 0 {
		return nil
	}
	return replay.NewSampler(replay.SamplerOptions{
		Every: d.opts.Proof.ReplaySample, Logger: d.opts.Logger,
		IsIdle: func() bool { return d.runner.Stats().InFlight == 0 },
		IsReplayed: func(ctx context.Context, tenant, execution string) (bool, error) {
			e, err := d.projections.Execution(ctx, tenant, execution)
			if err != nil || e.Replay == nil {
				return false, err
			}
			if e.Replay.EngineID == "" { // no engine can replay it: it was never executed, or has no content
				return true, nil
			}
			engine, err := d.pool.Engine(ctx, !e.WithoutHeap)
			return err == nil && isVerdictOf(e.Replay, engine), err
		},
		Replay: func(ctx context.Context, tenant, execution string) error {
			r, err := d.replays.Replay(ctx, tenant, execution, false, sampleActor)
			switch {
			case err != nil || r.Verdict != events.ReplayDifferent:
			case r.OtherBuild:
				d.opts.Logger.WarnContext(ctx, "the replay of a run that another build of Daybook may have recorded differs", "tenant", tenant, "execution", execution, "part", r.Difference.Part)
			default:
				d.damage.Report(damage.Finding{Radius: damage.OfRun, Run: &damage.Run{Tenant: tenant, ExecutionID: execution}, What: describeDifference(r), By: damage.FoundByScrub})
			}
			return err
		},
	})
}

// isVerdictOf reports whether a verdict is that of an engine. Workers that use the compiler replay
// what the same engine without it refused.
func isVerdictOf(last *projections.LastReplay, engine events.Engine) bool {
	return last.EngineID == engine.ID && (last.Reason != replay.ReasonJIT || !engine.JIT)
}

// describeDifference returns the text of a finding about a replay that differs.
func describeDifference(r httpapi.Replayed) string {
	what := "the replay by this engine differs from the record: " + string(r.Difference.Part)
	if len(r.Nondeterministic) > 0 {
		what += ", which may be due to the garbage collector, because one of the two read a collected WeakRef or ran a finalizer"
	}
	return what
}

// sampleActor is the actor of the verdicts about the sample.
var sampleActor = events.Actor{Principal: "daybook", Transport: "scrub"}

// scrubFiles checks the files of the ledger before the NATS server reads them: that server
// may loop forever over a position that does not exist. The block of each stream that may
// still be written to is not checked. The checked blocks are never written again.
func (d *Daybook) scrubFiles(ctx context.Context, pace func(ctx context.Context, bytes int64) error) error {
	isVolume := func(stream string) bool {
		_, ok := events.VolumeOf(stream)
		return ok
	}
	streams, err := streamfiles.Check(ctx, d.streamsDir(), streamfiles.Options{Names: isVolume, SkipNewest: true, Pace: pace, Settle: d.store.Refresh})
	if err != nil {
		return err
	}
	lost := d.store.Lost()
	for _, s := range streams {
		for _, g := range s.Gaps {
			for _, r := range spans.Without(lost, g.From, g.To) {
				d.damage.Report(damage.Finding{Stream: s.Name, First: r.From, Last: r.To, What: "no event can be read", By: damage.FoundByScrub})
			}
		}
		for _, f := range s.Faults {
			d.damage.Report(damage.Finding{Stream: s.Name, What: f.String(), By: damage.FoundByScrub})
		}
	}
	return d.damage.Err() // the server must not read files that it may not survive
}

// scrubFound receives the findings of the scrub.
func (d *Daybook) scrubFound(first, last uint64, what string) {
	d.damage.Report(damage.Finding{Stream: "LEDGER", First: first, Last: last, What: what, By: damage.FoundByScrub})
}

// scrubFoundBlob reports a heap that cannot be read. blobDamaged ignores a finding that
// the store has already reported.
func (d *Daybook) scrubFoundBlob(_ events.LostBlob, err error) {
	if damaged, ok := errors.AsType[*events.BlobDamagedError](err); ok {
		d.blobDamaged(damaged.Blob, errors.New(damaged.Why))
	}
}

// scrubProgress returns nil without a scrub.
func (d *Daybook) scrubProgress() httpapi.Scrub {
	if d.scrub == nil {
		return nil
	}
	return func() httpapi.ScrubProgress { return httpapi.ScrubProgress(d.scrub.Progress()) }
}
