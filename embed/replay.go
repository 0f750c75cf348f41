package embed

import (
	"context"
	"errors"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/exec/migration"
	"daybook/internal/exec/replay"
	"daybook/internal/globals"
	"daybook/ledger"
)

// startReplays sets what executes recorded runs again, unless this process runs no scripts.
func (d *Daybook) startReplays(context.Context) error {
	if d.pool == nil {
		return nil
	}
	open, stop := context.WithCancel(context.Background())
	d.stopReplays = stop
	r := &replays{d: d, gate: replay.NewGate(d.opts.Slots.Total / 2), open: open}
	d.replays = r
	opts := replay.Options{Workers: d.pool, Heaps: d.store, ExplainRemoval: d.ledger.ExplainRemoval, Memory: runMemory{d.budget}, MaxHeapLimitBytes: int64(d.opts.Runs.HeapCeilingMB) << 20}
	if !d.opts.Runs.Stateless {
		opts.MigratedHeap = func(ctx context.Context, tenant string, s *events.ExecutionStarted, engineID string) (string, error) {
			return r.migrator.Recorded(ctx, tenant, s, engineID)
		}
	}
	r.replayer = replay.New(opts)
	if !d.opts.Runs.Stateless {
		d.replays.migrator = migration.New(migration.Options{Replayer: d.replays.replayer, Ledger: d.ledger, Sources: d.projections, Heaps: d.store, Memory: runMemory{d.budget}})
	}
	return nil
}

// replays replays executions with the workers of the server and records the verdicts, and
// lists the globals of heaps. Both take no slots of runs: at most half as many of them as runs
// execute at a time. They share the workers' memory and the processors with the runs.
type replays struct {
	d        *Daybook
	gate     *replay.Gate
	replayer *replay.Replayer
	migrator *migration.Migrator // nil in stateless mode
	open     context.Context     // is done from the start of Close on
}

// Replay implements httpapi.Replays.
func (r *replays) Replay(ctx context.Context, tenant, execution string, timeline bool, actor events.Actor) (httpapi.Replayed, error) {
	rec, report, err := r.replay(ctx, tenant, execution, timeline)
	if err != nil {
		return httpapi.Replayed{}, err
	}
	answer := replayedOf(execution, report)
	d := &events.ExecutionReplayed{
		ExecutionID: execution, EndedAt: rec.EndedAt, Verdict: report.Verdict, Stopped: report.Stopped, Compared: report.Compared,
		Reason: report.Reason, Engine: report.Engine, Heap: report.Heap, MigratedHeap: report.MigratedHeap, WallMillis: answer.WallMillis, Actor: actor,
	}
	content := events.ReplayedContent{}
	if diff := report.Difference; diff != nil {
		d.Part, d.Line, d.Call, d.Artifact = diff.Part, diff.Line, diff.Call, diff.Artifact
		content.Recorded, content.Replayed = diff.Recorded, diff.Replayed
	}
	d.Content = events.Plain(content)
	answer.Sequence, err = r.d.ledger.RecordReplay(ctx, rec, d)
	return answer, err
}

// replayedOf returns a report as an answer.
func replayedOf(execution string, report replay.Report) httpapi.Replayed {
	answer := httpapi.Replayed{
		ExecutionID: execution, Verdict: report.Verdict, Stopped: report.Stopped, Compared: report.Compared, Reason: report.Reason, Message: report.Message,
		EngineID: report.Engine.ID, RecordedEngineID: report.RecordedEngine.ID, Heap: report.Heap, MigratedHeap: report.MigratedHeap, WallMillis: report.WallTime.Milliseconds(),
	}
	if diff := report.Difference; diff != nil {
		answer.Difference = &httpapi.ReplayDifference{Part: diff.Part, Line: diff.Line, Call: diff.Call, Artifact: diff.Artifact, Recorded: diff.Recorded, Replayed: diff.Replayed}
		answer.Nondeterministic, answer.OtherBuild = report.Nondeterministic, report.OtherBuild
	}
	if t := report.Timeline; t != nil {
		answer.Timeline = timelineOf(t)
	}
	return answer
}

// timelineOf returns a timeline as a part of an answer.
func timelineOf(t *replay.Timeline) *httpapi.Timeline {
	answer := &httpapi.Timeline{StartTime: events.FormatTime(t.Start), Steps: make([]httpapi.TimelineStep, 0, len(t.Steps)), Timers: t.Timers, Calls: t.Calls, Answers: t.Answers, Lines: t.Lines, Artifacts: t.Artifacts, Cut: t.Cut}
	for i := range t.Steps {
		s := &t.Steps[i]
		answer.Steps = append(answer.Steps, httpapi.TimelineStep{
			// Whole milliseconds, because output has no others.
			Kind: string(s.Kind), OffsetMS: s.At.UnixMilli() - t.Start.UnixMilli(), Time: events.FormatTime(s.At), Call: s.Call, Line: s.Line, Artifact: s.Artifact,
			Name: s.Name, Text: s.Text, DelayMillis: s.Delay.Milliseconds(), Failed: s.Failed,
		})
	}
	return answer
}

// replay executes a run again, in a place of the gate.
func (r *replays) replay(ctx context.Context, tenant, execution string, timeline bool) (rec *ledger.Recording, report replay.Report, err error) {
	ctx, done := r.untilClose(ctx)
	defer done(&err)
	if _, err = r.d.ledger.Recording(ctx, tenant, execution); err != nil {
		return nil, report, err
	}
	if err = r.d.Unwritable(); err != nil { // the verdict could not be recorded
		return nil, report, err
	}
	leave, err := r.gate.Enter(ctx, tenant)
	if err != nil {
		return nil, report, err
	}
	defer leave()
	// It is read again, because a recording with many calls takes memory, and many replays may
	// wait for a place.
	if rec, err = r.d.ledger.Recording(ctx, tenant, execution); err != nil {
		return nil, report, err
	}
	execute := r.replayer.Replay
	if timeline {
		execute = r.replayer.ReplaySteps
	}
	if report, err = execute(ctx, rec); err != nil {
		return nil, report, asUnavailable(err)
	}
	return rec, report, nil
}

// untilClose returns a context that Close ends too. done ends it, and replaces an error then
// by the answer that the server shuts down.
func (r *replays) untilClose(ctx context.Context) (_ context.Context, done func(*error)) {
	ctx, stop := context.WithCancel(ctx)
	unbind := context.AfterFunc(r.open, stop)
	return ctx, func(err *error) {
		if *err != nil && r.open.Err() != nil {
			*err = &ledger.Error{Code: ledger.CodeUnavailable, Message: "the server is shutting down; try again when it is back", Err: *err}
		}
		unbind()
		stop()
	}
}

// Globals implements httpapi.HeapGlobals.
func (r *replays) Globals(ctx context.Context, tenant, heap string, skip int) (list globals.List, err error) {
	ctx, done := r.untilClose(ctx)
	defer done(&err)
	leave, err := r.gate.Enter(ctx, tenant)
	if err != nil {
		return globals.List{}, err
	}
	defer leave()
	list, err = r.replayer.Globals(ctx, tenant, heap, skip)
	if errors.Is(err, events.ErrRemoved) {
		err = r.d.ledger.ExplainRemoval(ctx, tenant, heap)
	}
	return list, err
}

// asUnavailable returns err as an answer that says that another try may succeed, unless it is
// an answer already.
func asUnavailable(err error) error {
	if _, ok := errors.AsType[*ledger.Error](err); ok || errors.Is(err, context.Canceled) || errors.Is(err, events.ErrDamaged) {
		return err
	}
	return &ledger.Error{Code: ledger.CodeUnavailable, Message: "the execution cannot be replayed now: the workers or the store do not answer; try again in a few seconds", Err: err}
}
