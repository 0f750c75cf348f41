package mcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/events"
	"daybook/ledger"
	"daybook/projections"
)

// argWait is the argument that makes a call wait for the end of a run. maxWaitSecs
// bounds it, in seconds.
const (
	argWait     = "wait_secs"
	maxWaitSecs = 60
)

var waitProperty = property{name: argWait, kind: integer, max: maxWaitSecs}

func checkWait(a arguments) error {
	if secs := a.integer(argWait, 0); secs < 0 || secs > maxWaitSecs {
		return ledger.Invalid(argWait, "%s must be 0 to %d, not %d", argWait, maxWaitSecs, secs)
	}
	return nil
}

// fullAnswer is the answer about a run to a client that waited for its end.
type fullAnswer struct {
	executionAnswer
	// OutputHead is nil until the run has ended, and if its content is shredded.
	*projections.OutputHead
	// AlreadyTried belongs to run_js and reports an earlier equal run in the same
	// conversation context.
	AlreadyTried *priorRun `json:"already_tried,omitempty"`
}

// awaitFullAnswer returns a fullAnswer after the run has ended, or with the current
// state after wait_secs.
func (s *Server) awaitFullAnswer(ctx context.Context, c caller, r ledger.Receipt, a arguments) (answer, error) {
	d, err := s.awaitReadableExecution(ctx, r)
	if secs := a.integer(argWait, 0); err == nil && !d.Status.Terminal() && secs > 0 {
		d, err = s.awaitEndFor(ctx, c, r, time.Duration(secs)*time.Second)
	}
	if err != nil {
		return answer{}, err
	}
	return s.fullAnswerOf(ctx, d)
}

// fullAnswerOf returns the fullAnswer of an execution.
func (s *Server) fullAnswerOf(ctx context.Context, d projections.ExecutionDetail) (answer, error) {
	whole := fullAnswer{executionAnswer: showExecution(d)}
	links := preview(&whole.executionAnswer)
	artifacts, blocks, err := s.artifactsOf(ctx, d)
	if err != nil {
		return answer{}, err
	}
	whole.Artifacts = artifacts
	if head, without := projections.HeadWithoutOutput(d); d.Status.Terminal() && without {
		whole.OutputHead = &head
	} else if d.Status.Terminal() {
		page, err := s.opts.Queries.Output(ctx, s.tenant, d.ExecutionID, projections.HeadQuery())
		switch {
		case err == nil:
			whole.OutputHead = new(projections.HeadOf(page))
		case !errors.Is(err, events.ErrShredded):
			return answer{}, err
		}
	}
	return answer{value: whole, links: links, blocks: blocks, seq: d.Seq}, nil
}

// awaitEndFor returns an execution after it has ended, or its state after d.
func (s *Server) awaitEndFor(ctx context.Context, c caller, r ledger.Receipt, d time.Duration) (projections.ExecutionDetail, error) {
	wait, stop := context.WithTimeoutCause(ctx, d, errWaitTimeout)
	defer stop()
	var l *outputNotifier
	if c.listener.isListening() {
		l = s.newOutputNotifier(c.listener, r.ExecutionID)
	}
	e, err := s.awaitEnd(wait, r, l)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(wait), errWaitTimeout) {
		return s.execution(ctx, r.ExecutionID)
	}
	return e, err
}

var errWaitTimeout = errors.New("the run takes longer than a client is made to wait")

// awaitEnd returns an execution after it has ended. Until then l sends notifications; l
// is nil if there is no listener. Without one, new output does not wake awaitEnd, and it reads
// the execution once: before the request of the run is readable, no end is.
func (s *Server) awaitEnd(ctx context.Context, r ledger.Receipt, l *outputNotifier) (projections.ExecutionDetail, error) {
	q := s.opts.Queries
	var tick <-chan time.Time
	if l != nil {
		defer l.stop()
		if l.token != nil {
			t := time.NewTicker(progressInterval)
			defer t.Stop()
			tick = t.C
		}
	}
	watch := q.Watch
	if l == nil {
		watch = q.WatchEnd
	}
	changed, stop := watch(s.tenant, r.ExecutionID)
	defer stop()
	look := l != nil || r.Seq <= q.Applied()
	if err := q.Wait(ctx, r.Seq); err != nil {
		return projections.ExecutionDetail{}, err
	}
	var d projections.ExecutionDetail
	for ; ; look = true {
		if look {
			var err error
			if d, err = s.execution(ctx, r.ExecutionID); err != nil {
				return d, err
			}
			if d.Status.Terminal() {
				if l != nil {
					l.finish(ctx, d)
				}
				return d, nil
			}
			if l != nil {
				l.notice(d)
			}
		}
		select {
		case <-changed:
		case <-l.window():
			l.flush(ctx, d)
		case <-tick:
			l.progress(ctx, d)
		case <-ctx.Done():
			return projections.ExecutionDetail{}, fmt.Errorf("wait for execution %s: %w", r.ExecutionID, ctx.Err())
		}
	}
}
