package ledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"daybook/events"
)

// MaxAttempts is the maximum number of attempts of a run.
const MaxAttempts = 3

// ReasonAttemptsExhausted is the reason of a run that failed because MaxAttempts attempts
// ended without a result: the runner died, its worker died before it accepted the run, or
// the runner could not record the attempt.
const ReasonAttemptsExhausted = "attempts_exhausted"

// Plan decides how a runner proceeds with a request that it received.
//
// A request that is delivered for the first time gets a plan without any read; Start
// detects if this plan is wrong. For a redelivered request, Plan reads the history of the
// execution. It ends the execution if a cancel was requested, if MaxAttempts attempts
// ended without a result, or if the run must not be started again after an interruption.
// Otherwise it plans another attempt, with the seed and the start time of the first. If
// Plan.Ended is set, the runner finalizes the execution and acknowledges the request.
//
// A run with a turn in a logical session is planned from the recorded events of the
// session, even at its first delivery. The run may have to wait: see Plan.WaitFor.
//
// Errors are ErrHeld if a runner still holds the run, and CodeUnavailable for a history
// that this version does not understand. The runner MUST then leave the request to a
// newer runner.
func (l *Ledger) Plan(ctx context.Context, r Request, redelivered bool) (Plan, error) {
	p, err := l.plan(ctx, r, redelivered)
	switch {
	case err != nil || p.Ended != nil:
		return p, err
	case r.Turn != nil:
		return l.planTurn(ctx, p)
	}
	p.Heap = r.Heap
	return p, nil
}

func (l *Ledger) plan(ctx context.Context, r Request, redelivered bool) (Plan, error) {
	if l.opts.FindLoss != nil {
		if namedAt, lost := l.opts.FindLoss(r.Seq); lost {
			return l.planAfterLoss(ctx, r, namedAt)
		}
	}
	if !redelivered {
		p := Plan{Request: r, Attempt: 1, FirstLine: 1}
		l.initSeedAndClock(&p)
		return p, nil
	}
	h, err := l.history(ctx, r.Tenant, r.ExecutionID)
	if err != nil {
		return Plan{}, err
	}
	if held, err := l.heldElsewhere(ctx, r, h); held || err != nil {
		return Plan{}, cmp.Or(err, ErrHeld)
	}
	switch {
	case h.terminal != nil:
		return Plan{Request: r, Attempt: h.attempt(), Position: h.position, Ended: h.terminal}, nil
	case h.unknown != nil:
		return Plan{}, newerEventError(r.ExecutionID, *h.unknown)
	case h.cancel != nil:
		return l.planEnd(ctx, r, func(ctx context.Context) (events.Event, error) {
			return l.endCancelled(ctx, r, h.cancel.Actor)
		})
	case r.Interactive && h.first != nil:
		return l.planEnd(ctx, r, func(ctx context.Context) (events.Event, error) {
			return l.endInterrupted(ctx, r)
		})
	case h.attempts >= MaxAttempts:
		return l.planEnd(ctx, r, func(ctx context.Context) (events.Event, error) {
			return l.endExhausted(ctx, r)
		})
	}
	p := Plan{Request: r, Attempt: h.attempts + 1, FirstLine: 1, Position: h.position}
	if h.first == nil {
		l.initSeedAndClock(&p)
		return p, nil
	}
	if !h.handedBack {
		p.Runner = h.newest.Runner
	}
	if err := restoreSeedAndClock(&p, h.first); err != nil {
		return Plan{}, err
	}
	p.Modules = l.loadedModules(r.Tenant, h)
	why, err := l.resumeCalls(ctx, &p, h)
	switch {
	case err != nil:
		return Plan{}, err
	case why != "":
		return l.planEnd(ctx, r, func(ctx context.Context) (events.Event, error) {
			return l.endAfterCalls(ctx, r, why)
		})
	}
	p.FirstLine, p.FirstByte, err = l.findOutputEnd(ctx, r, h)
	return p, err
}

// heldElsewhere reports whether a runner still holds a run that has a turn. The request
// of such a run may be delivered a second time when its turn is released. The run must
// then be neither ended nor started again. A runner that holds a run answers from before
// it records the start until the end is recorded.
func (l *Ledger) heldElsewhere(ctx context.Context, r Request, h *history) (bool, error) {
	if r.Turn == nil || h.newest == nil || h.terminal != nil || h.unknown != nil || h.handedBack {
		return false, nil
	}
	held, err := l.store.IsHeld(ctx, r.Tenant, r.ExecutionID)
	if err != nil {
		return false, fmt.Errorf("find the runner of execution %s: %w", r.ExecutionID, err)
	}
	return held, nil
}

// initSeedAndClock sets the seed and the start time, which the first attempt chooses for
// all attempts.
func (l *Ledger) initSeedAndClock(p *Plan) {
	_, _ = rand.Read(p.Seed[:]) // never fails: it crashes the program instead
	p.StartTime = l.opts.Now().UTC().Truncate(time.Millisecond)
}

// restoreSeedAndClock sets the first started event, its seed and its start time.
func restoreSeedAndClock(p *Plan, first *events.ExecutionStarted) error {
	seed, err := hex.DecodeString(first.Seed)
	if err != nil || len(seed) != len(p.Seed) {
		return fmt.Errorf("resume execution %s: its seed is %q, not 32 hex characters: %w", first.ExecutionID, first.Seed, events.ErrDamaged)
	}
	copy(p.Seed[:], seed)
	p.StartTime = first.StartTime.Time
	p.First = first
	return nil
}

// findOutputEnd returns the line and byte at which the output of the next attempt begins. It
// reads the chunks of the newest attempt only: the started event of that attempt holds
// where its own output began.
func (l *Ledger) findOutputEnd(ctx context.Context, r Request, h *history) (firstLine, firstByte int64, err error) {
	x := events.ExtentFrom(h.newest)
	_, err = l.store.EachAbout(ctx, events.OutSubject(r.Tenant, r.ExecutionID), r.ExecutionID, h.startedAt, func(e events.Event) error {
		switch d := e.Data.(type) {
		case *events.ExecutionOutput:
			x.Add(d)
		case *events.Unknown:
			return newerEventError(r.ExecutionID, e)
		}
		return nil
	})
	var answer *Error
	switch {
	case errors.As(err, &answer):
		return 0, 0, err
	case err != nil:
		return 0, 0, unavailable("read the output of execution "+r.ExecutionID, err)
	}
	firstLine, firstByte = x.Next()
	return firstLine, firstByte, nil
}

// planEnd returns a plan that ends the execution. If end recorded the end and failed
// only to finalize, the plan is valid, because the runner finalizes in any case.
func (l *Ledger) planEnd(ctx context.Context, r Request, end func(context.Context) (events.Event, error)) (Plan, error) {
	ctx, stop := commitContext(ctx)
	defer stop()
	e, err := end(ctx)
	if e.Seq == 0 {
		return Plan{}, err
	}
	return Plan{Request: r, Attempt: events.EndingOf(e.Data).Attempt, Position: e.Seq, Ended: &e}, nil
}

func (l *Ledger) endExhausted(ctx context.Context, r Request) (events.Event, error) {
	return l.end(ctx, r, func(h *history) events.Data {
		return events.NewEnding(events.StatusFailed, events.Ending{
			ExecutionID: r.ExecutionID,
			Attempt:     h.attempt(),
			Reason:      ReasonAttemptsExhausted,
			Content:     errorContent(fmt.Sprintf("Daybook made %d attempts to run this script. Each ended without a result, because the runner or its worker process failed. There is no further attempt.", MaxAttempts)),
		})
	})
}

// Start records that the runner has started the attempt, which counts from then on. If
// another writer recorded an event first, the error is *EndedError or ErrReplan. After
// *EndedError the runner calls Finalize and acknowledges the request. After ErrReplan it
// discards what it started and calls Plan again with redelivered set, because seed,
// attempt and line numbers may differ.
func (l *Ledger) Start(ctx context.Context, p Plan, s Start) (*StartedAttempt, error) {
	if p.Ended != nil {
		return nil, &EndedError{Event: *p.Ended}
	}
	req := p.Request
	callable, err := l.storeCallable(ctx, req.Tenant, s.Callable)
	if err != nil {
		return nil, err
	}
	warnings := slices.Clone(s.Warnings)
	if p.FirstLine > 1 {
		warnings = append(warnings, fmt.Sprintf("the script started again after an interruption: output before line %d is from an earlier attempt", p.FirstLine))
	}
	e := l.newEvent(req.Tenant, req.Traceparent, &events.ExecutionStarted{
		ExecutionID: req.ExecutionID,
		Attempt:     p.Attempt,
		Runner:      s.Runner,
		Engine:      s.Engine,
		Seed:        hex.EncodeToString(p.Seed[:]),
		StartTime:   events.Instant{Time: p.StartTime},
		Limits:      req.Limits,
		InputHeap:   s.InputHeap,

		MigratedFrom: s.MigratedFrom,

		FirstLine: p.FirstLine,
		FirstByte: p.FirstByte,
		Callable:  callable,
		Layers:    s.Layers,
		Warnings:  clampWarnings(warnings),

		NodeGlobals: s.NodeGlobals,
		WASMModules: s.WASMModules,
	})
	seq, err := l.store.Append(ctx, e, int64(p.Position))
	switch {
	case errors.Is(err, events.ErrConflict):
		h, err := l.history(ctx, req.Tenant, req.ExecutionID)
		switch {
		case err != nil:
			return nil, err
		case h.terminal != nil:
			return nil, &EndedError{Event: *h.terminal}
		default:
			return nil, ErrReplan
		}
	case err != nil:
		return nil, unavailable("start execution "+req.ExecutionID, err)
	}
	return &StartedAttempt{Plan: p, Runner: s.Runner, Position: seq, InputHeap: s.InputHeap, started: seq}, nil
}

// HandBack records that the runner hands the run back, which costs no attempt. Every
// chunk of its output MUST be appended before. Errors are *EndedError if the execution
// has ended and only needs Finalize, and ErrSuperseded if the run no longer belonged to
// this runner. Cancelling ctx does not interrupt the append, except with ErrAbandoned.
func (l *Ledger) HandBack(ctx context.Context, r *StartedAttempt, reason string) error {
	ctx, stop := commitContext(ctx)
	defer stop()
	req := r.Plan.Request
	e := l.newEvent(req.Tenant, req.Traceparent, &events.ExecutionHandedBack{
		ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt, Runner: r.Runner, Reason: reason,
	})
	return l.withRunPosition(ctx, r, "hand back execution "+req.ExecutionID, func(h *history) error {
		if h != nil && h.terminal != nil {
			return &EndedError{Event: *h.terminal}
		}
		_, err := l.store.Append(ctx, e, int64(r.Position))
		return err
	})
}

// withRunPosition calls do, which appends at the position of the run. After a conflict
// it refreshes the position from the ledger and calls do again with the history. The
// error is ErrSuperseded if the run no longer belongs to this runner.
//
// The position never moves past an event that took the run away, an end or a hand-back,
// including one by this runner. A later append then meets a conflict, and the history
// shows the reason.
func (l *Ledger) withRunPosition(ctx context.Context, r *StartedAttempt, doing string, do func(*history) error) error {
	req := r.Plan.Request
	stale := false
	return retry(ctx, doing, func() error {
		var h *history
		if stale {
			var err error
			if h, err = l.history(ctx, req.Tenant, req.ExecutionID); err != nil {
				return err
			}
			if h.terminal == nil {
				if err := h.checkKnownEvents(req.ExecutionID); err != nil {
					return err
				}
				if h.startedAt != r.started || h.handedBack {
					return ErrSuperseded
				}
				r.Position = h.position
			}
		}
		stale = true
		return do(h)
	})
}
