package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"daybook/events"
	"daybook/internal/globals"
	"daybook/ledger"
	"daybook/runner"
)

// Script is a source that takes the place of a recorded one.
type Script struct {
	// Code is JavaScript or TypeScript. FileName is its name in stack traces; empty for that
	// of the recorded run.
	Code     []byte
	FileName string
}

// WhatIf is the difference between a recorded run and another script with the inputs of that
// run.
type WhatIf struct {
	// Reason and Message say why the script was not executed, as in a Report; empty if it was.
	Reason, Message string
	// Recorded and New are the ends of the two runs.
	Recorded, New End
	// Stopped is true if the recorded run was stopped, so that its record is not that of a
	// complete run.
	Stopped bool
	// Missing is the call that ended the script because it is not recorded; nil if there is
	// none.
	Missing *MissingCall
	// Calls counts the calls of the script, RecordedCalls those of the recorded run.
	Calls, RecordedCalls int
	// Output is the difference of the output.
	Output OutputDiff
	// Artifacts is the difference of the artifacts.
	Artifacts ArtifactDiff
	// Globals are the differences of the globals in the heaps that the two runs left; nil if
	// they were not compared. GlobalsMessage then says why.
	Globals        *globals.Diff
	GlobalsMessage string
	// Engine is the engine of the workers. RecordedEngine is that of the run.
	Engine, RecordedEngine events.Engine
	// WallTime is the duration.
	WallTime time.Duration
}

// IsEqual reports whether the script did what the recorded run did, as far as both were
// compared.
func (w *WhatIf) IsEqual() bool {
	return w.Reason == "" && w.Missing == nil && w.Recorded == w.New && w.Output.Equal && w.Artifacts.IsEqual() && (w.Globals == nil || len(w.Globals.Changes) == 0)
}

// End is how a run ended.
type End struct {
	// Status is that of the execution. It is empty for a script that was ended because the
	// record has no answer for it. Reason is its machine-readable cause.
	Status events.Status
	Reason string
	// HasText is false for a result that is undefined. Text is the result or the error,
	// cut at 4 KiB, and SHA256 the hash of all of it.
	HasText bool
	Text    string
	SHA256  string
}

func endOf(status events.Status, reason string, text *string) End {
	e := End{Status: status, Reason: reason}
	if text != nil {
		whole := strings.ToValidUTF8(*text, "\uFFFD")
		e.HasText, e.SHA256 = true, events.Hash([]byte(whole))
		e.Text, _ = shorten(whole, maxStepText)
	}
	return e
}

// WhatIf executes another script with the inputs of a recorded run: its values, input heap,
// seed, start time, limits and recorded answers to host calls. No tool is called, and nothing
// is stored; the bytes of artifacts are dropped. An error means that it cannot be served now.
func (r *Replayer) WhatIf(ctx context.Context, rec *ledger.Recording, s Script) (WhatIf, error) {
	started := time.Now()
	p := &replay{rec: rec, replayer: r}
	if r.opts.Memory != nil {
		var memory runner.MemoryAccount
		ctx, memory = r.opts.Memory.OpenAccount(ctx)
		defer memory.Release()
		p.memory = memory
	}
	w, err := p.whatIf(ctx, s)
	if err != nil {
		reason, message := whyNot(err)
		if reason == "" {
			return w, fmt.Errorf("execute another script with the inputs of execution %s: %w", rec.Request.ExecutionID, err)
		}
		w = WhatIf{Reason: reason, Message: message}
	}
	if err := rec.CheckExists(ctx); err != nil { // its volume was removed meanwhile
		return w, err
	}
	w.Stopped, w.Engine, w.WallTime = p.isStopped(), p.engine, time.Since(started)
	if rec.Started != nil {
		w.RecordedEngine = rec.Started.Engine
	}
	return w, nil
}

func (p *replay) whatIf(ctx context.Context, s Script) (w WhatIf, err error) {
	if p.rec.Started == nil {
		return WhatIf{Reason: ReasonNotExecuted, Message: "no script was started, so there are no recorded inputs"}, nil
	}
	if err := p.rec.ContentAvailable(); err != nil {
		return w, err
	}
	if p.engine, err = p.replayer.engine(ctx, p.rec.Request.Stateful); err != nil {
		return w, err
	}
	task, report, err := p.newTask(ctx)
	if err != nil {
		return w, err
	}
	if report != nil {
		return WhatIf{Reason: report.Reason, Message: report.Message}, nil
	}
	var recorded lineLog
	if err := p.rec.Output(ctx, func(l events.Line) error { recorded.add(l); return nil }); err != nil {
		return w, err
	}
	replaced := limitedLog{limit: p.rec.Started.Limits.OutputMaxBytes, sum: newOutputSum()}
	artifacts := &artifactLog{keyedHash: p.rec.KeyedHash}
	task.OnArtifact = artifacts.take
	if w.Recorded, err = p.recordedEnd(ctx); err != nil {
		return w, err
	}
	if task.Code = s.Code; s.FileName != "" {
		task.FileName = s.FileName
	}
	// Unlike a replay it may take as long as it wants, so it has the time limit of a run.
	task.Timeout = min(max(time.Duration(p.rec.Started.Limits.ExecutionTimeoutSecs)*time.Second, time.Second), maxTimeout/timeoutFactor)
	host := newAnswers(p.rec.Calls)
	if task.Host != nil {
		task.Host = host
	}
	outcome, err := p.replayer.opts.Workers.Run(ctx, task, func(_ context.Context, lines []events.Line) error {
		for _, l := range lines {
			replaced.add(l)
		}
		return nil
	})
	missing, _ := errors.AsType[*missingCallError](err)
	switch {
	case missing != nil:
		w.Missing, w.New = &missing.call, End{Reason: ReasonMissingCall}
	case errors.Is(err, errUnanswered):
		w.New = endOf("", ReasonUnanswered, new(errUnanswered.Error()))
	case err != nil:
		return w, err
	case outcome.Status == events.StatusCompleted:
		w.New = endOf(outcome.Status, "", outcome.Result)
	default:
		w.New = endOf(outcome.Status, outcome.Reason, &outcome.Error)
	}
	w.Calls, w.RecordedCalls = host.made, len(p.rec.Calls)
	if w.Output, err = p.compareOutputs(&recorded, &replaced); err != nil {
		return w, err
	}
	w.Artifacts = diffArtifacts(p.rec.Artifacts, artifacts.made)
	w.Globals, w.GlobalsMessage, err = p.compareGlobals(ctx, outcome.Heap)
	return w, err
}

// Reasons of the end of a script in place of a recorded one.
const (
	ReasonMissingCall = "missing_call" // it made a call that is not recorded
	ReasonUnanswered  = "unanswered"   // it waits for an answer that the recorded run never received
)

// limitedLog collects the lines of a script up to the limit of recorded output, as the runner
// records them.
type limitedLog struct {
	lineLog
	limit       int64 // in bytes; 0 or less for none
	stored      int64
	isTruncated bool
	sum         outputSum // of all output
}

func (l *limitedLog) add(piece events.Line) {
	l.sum.add(textOf(piece))
	if l.isTruncated {
		return
	}
	if l.limit > 0 && l.stored+piece.Bytes() > l.limit {
		l.isTruncated = true
		n := int(min(l.limit-l.stored, int64(len(piece.Text))))
		for n > 0 && n < len(piece.Text) && !utf8.RuneStart(piece.Text[n]) {
			n--
		}
		if piece.Text, piece.Continued = piece.Text[:n], true; n > 0 {
			l.lineLog.add(piece)
		}
		return
	}
	l.stored += piece.Bytes()
	l.lineLog.add(piece)
}

// compareOutputs compares two outputs by their lines, and by the hash of what follows the
// limit of recorded output.
func (p *replay) compareOutputs(recorded *lineLog, replaced *limitedLog) (OutputDiff, error) {
	d := diffLines(recorded, &replaced.lineLog)
	totals := p.rec.Ending.Output
	isTruncated := totals != nil && totals.Truncated
	if !isTruncated && !replaced.isTruncated {
		return d, nil
	}
	d.Cut = true
	if isTruncated != replaced.isTruncated {
		d.Equal = false
		return d, nil
	}
	sum, err := p.rec.KeyedHash(hex.EncodeToString(replaced.sum.hash.Sum(nil)))
	d.Equal = d.Equal && sum == totals.SHA256
	return d, err
}

// recordedEnd returns the recorded end.
func (p *replay) recordedEnd(ctx context.Context) (End, error) {
	content := p.rec.Ending.Content.Value()
	body := content.Error
	if p.rec.Status == events.StatusCompleted {
		body = content.Result
	}
	if body == nil {
		return End{Status: p.rec.Status, Reason: p.rec.Ending.Reason}, nil
	}
	text, err := p.rec.Text(ctx, body)
	return endOf(p.rec.Status, p.rec.Ending.Reason, new(string(text))), err
}

// compareGlobals compares the globals of the recorded output heap with those of another heap.
// If it cannot, message says why.
func (p *replay) compareGlobals(ctx context.Context, heap []byte) (d *globals.Diff, message string, err error) {
	recorded := p.rec.Ending.Heap
	switch {
	case !p.rec.Request.Stateful:
		return nil, "a stateless run leaves no heap", nil
	case recorded == nil:
		return nil, "the recorded run left no heap", nil
	case len(heap) == 0:
		return nil, "the script left no heap", nil
	case recorded.EngineID != p.engine.ID:
		return nil, fmt.Sprintf("the recorded heap was made by engine %s, and the workers have engine %s", recorded.EngineID, p.engine.ID), nil
	}
	l := lister{p.replayer.opts, p.rec.Request.Tenant, p.rec.Request.SessionID, p.memory, 0}
	// One heap after the other, because the memory account has space for one.
	b, err := l.list(ctx, "of the script", heap)
	if err != nil {
		return nil, fmt.Sprintf("the globals of the script's heap cannot be listed: %v", err), context.Cause(ctx)
	}
	a, err := l.stored(ctx, recorded.SHA256)
	if err != nil {
		return nil, fmt.Sprintf("the globals of the recorded heap cannot be listed: %v", err), context.Cause(ctx)
	}
	return new(globals.Compare(a, b)), "", nil
}
