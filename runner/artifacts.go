package runner

import (
	"context"

	"daybook/events"
	"daybook/ledger"
)

// artifactRecorder records the artifacts of one attempt, each before the script continues
// far beyond it: the worker waits while its pipe is full. Its methods are called on one
// goroutine.
type artifactRecorder struct {
	a    *attempt
	pace *outputPace
	made int
	line int64 // number of the line that the next output begins with
}

func newArtifactRecorder(a *attempt) *artifactRecorder {
	return &artifactRecorder{a: a, pace: a.r.pace, line: a.plan.FirstLine}
}

// countLines counts lines that precede the next artifact.
func (x *artifactRecorder) countLines(lines []events.Line) {
	for _, l := range lines {
		if !l.Continued {
			x.line++
		}
	}
}

// record stores and records an artifact. Like output it waits for the pace that all runs
// share.
func (x *artifactRecorder) record(ctx context.Context, made Artifact) error {
	req := x.a.plan.Request
	if err := x.pace.wait(ctx, req.Tenant, int64(len(made.Bytes))+chunkOverhead); err != nil {
		return err
	}
	run, err := x.a.start.get(x.a.recordCtx)
	if err != nil {
		return err
	}
	x.made++
	x.a.positionMu.Lock()
	defer x.a.positionMu.Unlock()
	return x.a.r.opts.Ledger.RecordArtifact(x.a.recordCtx, run, ledger.Artifact{
		Number: x.made, Name: made.Name, MIME: made.MIME, Bytes: made.Bytes, Line: x.line, At: made.At,
	})
}
