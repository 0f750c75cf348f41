package embed

import (
	"context"
	"errors"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/admission"
	"daybook/internal/exec/replay"
	"daybook/internal/globals"
	"daybook/internal/web/access"
	"daybook/ledger"
)

// WhatIf is the difference between a recorded run and another script with its inputs.
type WhatIf = httpapi.WhatIf

// WhatIf implements httpapi.Replays. Like a read it records no event. It reads content and
// executes code, so it leaves a line in the log of the server.
func (r *replays) WhatIf(ctx context.Context, tenant, execution string, s httpapi.ReplacementScript, actor events.Actor) (_ httpapi.WhatIf, err error) {
	ctx, done := r.untilClose(ctx)
	defer done(&err)
	if _, err = r.d.ledger.Recording(ctx, tenant, execution); err != nil {
		return httpapi.WhatIf{}, err
	}
	counted, err := r.d.quotas.AdmitUnrecorded(ctx, tenant)
	if over, ok := errors.AsType[*access.LimitError](err); ok {
		err = admission.OverLimit(over)
	}
	if err != nil {
		return httpapi.WhatIf{}, err
	}
	defer counted.Release()
	leave, err := r.gate.Enter(ctx, tenant)
	if err != nil {
		return httpapi.WhatIf{}, err
	}
	defer leave()
	// It is read again, because a recording with many calls takes memory, and many may wait.
	rec, err := r.d.ledger.Recording(ctx, tenant, execution)
	if err != nil {
		return httpapi.WhatIf{}, err
	}
	r.d.opts.Logger.InfoContext(ctx, "executes other code with the inputs of a recorded run", "tenant", tenant, "execution", execution, "principal", actor.Principal, "transport", actor.Transport, "code_sha256", events.Hash([]byte(s.Code)))
	w, err := r.replayer.WhatIf(ctx, rec, replay.Script{Code: []byte(s.Code), FileName: s.FileName})
	if err != nil {
		return httpapi.WhatIf{}, asUnavailable(err)
	}
	return whatIfOf(execution, &w), nil
}

// whatIfOf returns a difference as an answer.
func whatIfOf(execution string, w *replay.WhatIf) httpapi.WhatIf {
	answer := httpapi.WhatIf{
		ExecutionID: execution, Executed: w.Reason == "", Reason: w.Reason, Message: w.Message, IsEqual: w.IsEqual(), Stopped: w.Stopped,
		Calls: w.Calls, RecordedCalls: w.RecordedCalls, GlobalsMessage: w.GlobalsMessage,
		Output:   httpapi.OutputDiff{RecordedLines: w.Output.Recorded, Lines: w.Output.New, IsEqual: w.Output.Equal, Changes: make([]httpapi.LineChange, 0, len(w.Output.Changes)), Cut: w.Output.Cut},
		EngineID: w.Engine.ID, RecordedEngine: w.RecordedEngine.ID, WallMillis: w.WallTime.Milliseconds(),
	}
	if !answer.Executed {
		return answer
	}
	answer.Recorded, answer.New = endOfScript(w.Recorded), endOfScript(w.New)
	if m := w.Missing; m != nil {
		answer.MissingCall = &httpapi.MissingCall{Number: m.Number, Server: m.Server, Tool: m.Tool, Arguments: m.Arguments}
	}
	for _, c := range w.Output.Changes {
		answer.Output.Changes = append(answer.Output.Changes, httpapi.LineChange{Op: string(c.Op), RecordedLine: c.Recorded, Line: c.New, Level: c.Level, Text: c.Text})
	}
	answer.Artifacts = httpapi.ArtifactDiff{Recorded: w.Artifacts.Recorded, Artifacts: w.Artifacts.New, IsEqual: w.Artifacts.IsEqual(), Changes: make([]httpapi.ArtifactChange, 0, len(w.Artifacts.Changes))}
	for _, c := range w.Artifacts.Changes {
		answer.Artifacts.Changes = append(answer.Artifacts.Changes, httpapi.ArtifactChange{Op: string(c.Op), Number: c.Number, Name: c.Name, MIME: c.MIME, Size: c.Size, SHA256: c.SHA256})
	}
	if w.Globals != nil {
		answer.Globals = globalsDiffOf(w.Globals)
	}
	return answer
}

func endOfScript(e replay.End) *httpapi.ScriptEnd {
	end := &httpapi.ScriptEnd{Status: e.Status, Reason: e.Reason, SHA256: e.SHA256}
	if e.HasText {
		end.Text = &e.Text
	}
	return end
}

func globalsDiffOf(d *globals.Diff) *httpapi.GlobalsDiff {
	answer := &httpapi.GlobalsDiff{Added: []globals.Global{}, Removed: []globals.Global{}, Changed: []httpapi.GlobalChange{}, Uncompared: d.Uncompared, Partial: d.Partial}
	for _, c := range d.Changes {
		switch {
		case c.A == nil:
			answer.Added = append(answer.Added, *c.B)
		case c.B == nil:
			answer.Removed = append(answer.Removed, *c.A)
		default:
			answer.Changed = append(answer.Changed, httpapi.GlobalChange{Recorded: *c.A, New: *c.B})
		}
	}
	return answer
}

// WhatIfInExport executes other code with the inputs of a run of an export, as ReplayExport
// replays one. opts selects one execution.
func WhatIfInExport(ctx context.Context, opts ReplayExportOptions, code, fileName string) (w WhatIf, err error) {
	if err := ledger.CheckScript(code, fileName); err != nil {
		return w, err
	}
	x, done, err := openExportReplay(ctx, opts)
	if err != nil {
		return w, err
	}
	defer done(&err)
	if len(x.runs) != 1 {
		return w, &SelectionError{errNotOneRun}
	}
	rec, err := x.read(ctx, x.runs[0])
	if err != nil {
		return w, err
	}
	found, err := x.replayer.WhatIf(ctx, rec, replay.Script{Code: []byte(code), FileName: fileName})
	if err != nil {
		return w, err
	}
	found.Message = withExportAdvice(found.Reason, found.Message)
	return whatIfOf(x.runs[0].ID, &found), nil
}
