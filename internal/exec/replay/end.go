package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"daybook/events"
	"daybook/runner"
)

// compare returns the report about a replay that has ended with an outcome, or with the
// error of Workers.Run.
func (p *replay) compare(ctx context.Context, runErr error) (Report, error) {
	diverged, _ := errors.AsType[*runner.DivergedError](runErr)
	recordEnds, _ := errors.AsType[*runner.RecordEndsError](runErr)
	switch {
	case errors.Is(runErr, errReached):
		return p.compareStoppedEnd()
	case p.output.difference != nil: // also if the replay was stopped for another cause at the same time
		return p.different(*p.output.difference), nil
	case p.artifacts.difference != nil:
		return p.different(*p.artifacts.difference), nil
	case p.isStopped() && recordEnds != nil && recordEnds.Number == 0:
		return p.compareStopped()
	case diverged != nil:
		return p.different(p.callDifference(ctx, diverged)), nil
	case recordEnds != nil && recordEnds.Number == 0:
		return p.different(Difference{Part: events.ReplayCalls, Recorded: "(no further answer)", Replayed: "the script waits for an answer"}), nil
	case runErr != nil:
		return Report{}, runErr
	case p.isStopped():
		return p.compareStopped()
	case p.outcome.Status == events.StatusTimedOut:
		return p.impossible(ReasonTimeout, "the replay did not end within its time limit; the machine may be much slower than the one of the run"), nil
	case hasDied(p.outcome.Reason):
		return p.impossible(p.outcome.Reason, "the replay did not reach the end of the run: "+excerpt(p.outcome.Error, 0, 0)), nil
	}
	return p.compareEnd(ctx)
}

// hasDied reports whether a replay with this reason ended because of its worker and not
// because of its script: when memory is exhausted depends on more than the script.
func hasDied(reason string) bool {
	return reason == runner.ReasonOutOfMemory || reason == runner.ReasonWorkerDied
}

// compareStopped compares the replay of a run that was stopped.
func (p *replay) compareStopped() (Report, error) {
	done, err := p.output.isReproduced()
	switch {
	case err != nil:
		return Report{}, err
	case done && p.artifacts.isComplete() && p.host.IsComplete():
		return p.compareStoppedEnd()
	case p.outcome.Status == events.StatusTimedOut:
		return p.impossible(ReasonTimeout, "the replay did not reach the last recorded line and call within its time limit"), nil
	case hasDied(p.outcome.Reason), p.outcome.Reason == runner.ReasonSandboxViolation, p.outcome.Reason == runner.ReasonProtocol:
		// A process that is killed loses output that it has not sent.
		return p.impossible(p.outcome.Reason, "the replay did not reach the last recorded line and call: "+excerpt(p.outcome.Error, 0, 0)), nil
	}
	if err := p.output.end(nil); !errors.Is(err, errDiffers) {
		if err == nil && !p.artifacts.isComplete() {
			return p.different(p.artifacts.missing()), nil
		}
		return p.different(p.missingCall()), err
	}
	return p.different(*p.output.difference), nil
}

// compareStoppedEnd compares the end of a run that was stopped, after the replay has
// reproduced its output and calls. Such a run leaves no heap.
func (p *replay) compareStoppedEnd() (Report, error) {
	if err := p.output.end(p.totals()); errors.Is(err, errDiffers) {
		return p.different(*p.output.difference), nil
	} else if err != nil {
		return Report{}, err
	}
	if h := p.rec.Ending.Heap; h != nil {
		return p.different(Difference{Part: events.ReplayHeap, Recorded: describeHeap(h), Replayed: describeHeap(nil)}), nil
	}
	return p.identical(append([]events.ReplayPart{events.ReplayOutput}, append(p.artifactPart(), events.ReplayCalls)...)...), nil
}

// artifactPart returns the part of artifacts if there are any, otherwise nothing.
func (p *replay) artifactPart() []events.ReplayPart {
	if len(p.artifacts.recorded) == 0 {
		return nil
	}
	return []events.ReplayPart{events.ReplayArtifacts}
}

func (p *replay) missingCall() Difference {
	number := p.host.MissingCall()
	d := Difference{Part: events.ReplayCalls, Call: number, Replayed: "(not made)"}
	for _, c := range p.rec.Calls {
		if c.Number == number {
			d.Recorded = c.Server + "." + c.Tool
		}
	}
	return d
}

// totals returns the recorded totals of the output, or nil.
func (p *replay) totals() *totals {
	recorded, s := p.rec.Ending.Output, p.rec.Started
	if recorded == nil {
		return nil
	}
	return &totals{recorded: *recorded, linesBefore: s.FirstLine - 1, bytesBefore: s.FirstByte, limit: s.Limits.OutputMaxBytes, keyedHash: p.rec.KeyedHash}
}

// compareEnd compares the replay of a run that reached its end.
func (p *replay) compareEnd(ctx context.Context) (Report, error) {
	recordedJavaScript, err := p.isRecordedJavaScript()
	if err != nil {
		return Report{}, err
	}
	sameEngine := p.engine.ID == p.rec.Started.Engine.ID && !p.isRebuild && (recordedJavaScript || !p.isOtherBuild())
	if err := p.output.end(p.totals()); errors.Is(err, errDiffers) {
		return p.different(*p.output.difference), nil
	} else if err != nil {
		return Report{}, err
	}
	compared := append([]events.ReplayPart{events.ReplayOutput}, append(p.artifactPart(), events.ReplayCalls, events.ReplayStatus)...)
	if !p.artifacts.isComplete() {
		return p.different(p.artifacts.missing()), nil
	}
	if !p.host.IsComplete() {
		return p.different(p.missingCall()), nil
	}
	end, out := p.rec.Ending, &p.outcome
	if out.Status != p.rec.Status || out.Reason != end.Reason {
		return p.different(Difference{
			Part: events.ReplayStatus, Recorded: describeEnd(p.rec.Status, end.Reason), Replayed: strings.TrimSpace(describeEnd(out.Status, out.Reason) + " " + excerpt(out.Error, 0, 0)),
		}), nil
	}
	cancelled := 0
	if out.Status == events.StatusFailed { // as it is recorded
		cancelled = out.TimersCancelled
	}
	if sameEngine && cancelled != end.TimersCancelled {
		const format = "%d timers cancelled"
		return p.different(Difference{Part: events.ReplayStatus, Recorded: fmt.Sprintf(format, end.TimersCancelled), Replayed: fmt.Sprintf(format, cancelled)}), nil
	}
	if sameEngine {
		compared = append(compared, events.ReplayJavaScript)
		if hash, err := p.rec.KeyedHash(out.TranspiledSHA256); err != nil {
			return Report{}, err
		} else if hash != end.TranspiledSHA256 {
			return p.different(Difference{Part: events.ReplayJavaScript, Recorded: "SHA-256 " + end.TranspiledSHA256, Replayed: "SHA-256 " + hash}), nil
		}
	}
	var text string
	part, body := events.ReplayError, end.Content.Value().Error
	text = out.Error
	if p.rec.Status == events.StatusCompleted {
		part, body, text = events.ReplayResult, end.Content.Value().Result, ""
		if out.Result != nil {
			text = *out.Result
		}
	}
	compared = append(compared, part)
	recorded, err := p.rec.Text(ctx, body)
	if err != nil {
		return Report{}, err
	}
	text = strings.ToValidUTF8(text, "\uFFFD") // as it is recorded
	isNone := part == events.ReplayResult && out.Result == nil
	if string(recorded) != text || isNone != (body == nil) || out.ResultTruncated != end.Content.Value().ResultTruncated {
		d := Difference{Part: part, Recorded: "undefined", Replayed: "undefined"}
		a, b := excerpts(string(recorded), text)
		if body != nil {
			d.Recorded = a
		}
		if !isNone {
			d.Replayed = b
		}
		return p.different(d), nil
	}
	if sameEngine && p.rec.Request.Stateful {
		compared = append(compared, events.ReplayHeap)
		left := p.heapRecord()
		recorded, replayed := describeHeap(end.Heap), describeHeap(left)
		switch {
		case recorded == replayed:
		case end.Heap != nil && left != nil && end.Heap.SHA256 != left.SHA256:
			d, err := p.heapDifference(ctx, end.Heap.SHA256, left.SHA256)
			return p.different(d), err
		default:
			return p.different(Difference{Part: events.ReplayHeap, Recorded: recorded, Replayed: replayed}), nil
		}
	}
	return p.identical(compared...), nil
}

// isOtherBuild reports whether another build of Daybook than that of the workers may have made
// the record, with the same engine.
func (p *replay) isOtherBuild() bool {
	return p.rec.Started != nil && p.engine.ID == p.rec.Started.Engine.ID && !p.engine.IsSameBuild(p.rec.Started.Engine)
}

// isRecordedJavaScript reports whether the replay evaluated the JavaScript that the run did. For
// a run with files that is not known: the record has the files and not what they were
// converted to.
func (p *replay) isRecordedJavaScript() (bool, error) {
	if p.rec.Request.Content.Value().Files != nil {
		return false, nil
	}
	hash, err := p.rec.KeyedHash(p.outcome.TranspiledSHA256)
	return hash == p.rec.Ending.TranspiledSHA256, err
}

// heapRecord returns the heap that the replay left, as the runner records it, or nil.
func (p *replay) heapRecord() *events.HeapRecord {
	out, input := &p.outcome, p.rec.Started.InputHeap
	h := events.HeapRecord{EngineID: p.engine.ID, Parent: input}
	switch {
	case len(out.Heap) > 0:
		h.SHA256, h.Size = p.heap, int64(len(out.Heap))
	case out.Reason == runner.ReasonSyntaxError && input != "": // nothing ran
		h.SHA256, h.Size = input, p.inputSize
	default:
		return nil
	}
	return &h
}

func describeHeap(h *events.HeapRecord) string {
	if h == nil {
		return "none"
	}
	return fmt.Sprintf("%s of %d bytes, engine %s, parent %s", h.SHA256, h.Size, h.EngineID, cmp.Or(h.Parent, "none"))
}

func describeEnd(status events.Status, reason string) string {
	if reason == "" {
		return string(status)
	}
	return fmt.Sprintf("%s (%s)", status, reason)
}

func (p *replay) identical(compared ...events.ReplayPart) Report {
	report := p.newReport(events.ReplayIdentical)
	report.Compared = compared
	return report
}

func (p *replay) different(d Difference) Report {
	report := p.newReport(events.ReplayDifferent)
	report.Difference = &d
	report.OtherBuild = p.isOtherBuild()
	for _, n := range events.AllNondeterminism() {
		if slices.Contains(p.rec.Ending.Nondeterministic, n) || slices.Contains(p.outcome.Nondeterministic, n) {
			report.Nondeterministic = append(report.Nondeterministic, n)
		}
	}
	return report
}

// callDifference describes a call that differs from the recorded one, with arguments where
// they are recorded.
func (p *replay) callDifference(ctx context.Context, diverged *runner.DivergedError) Difference {
	d := Difference{Part: events.ReplayCalls, Call: diverged.Number, Recorded: "(no further call)", Replayed: "(not made)"}
	var recorded, made string
	if c := diverged.Recorded; c != nil {
		d.Recorded = c.Server + "." + c.Tool
		if text, err := p.rec.Text(ctx, c.Arguments); err == nil && text != nil {
			recorded = string(text)
		}
	}
	if c := diverged.Made; c != nil {
		d.Replayed, made = c.Server+"."+c.Tool, string(c.Arguments)
	}
	recorded, made = excerpts(recorded, made)
	d.Recorded, d.Replayed = d.Recorded+recorded, d.Replayed+made
	return d
}
