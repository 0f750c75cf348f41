package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// cancelTimeout is how long a runner may take to answer.
const cancelTimeout = 2 * time.Second

// Messages on a cancel subject. Any other message is ignored, because a client that may
// create consumers could have events delivered to this subject.
const (
	cancelRequest = "cancel"
	heldRequest   = "held?"
	cancelDone    = "+OK"
	cancelNotDone = "-ERR"
)

// RequestCancel asks the runner of an execution to stop it and waits for the answer. It
// returns false if no runner has the execution, if the runner could not end it, or if
// no answer came within 2 s.
func (s *Queue) RequestCancel(ctx context.Context, tenant, execution string) (answered bool, err error) {
	return s.askHolder(ctx, tenant, execution, cancelRequest)
}

// askHolder sends a request to the runner of an execution and reports whether the
// runner confirmed it.
func (s *Queue) askHolder(ctx context.Context, tenant, execution, request string) (done bool, err error) {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return false, err
	}
	if s.opts.Exclusive {
		run := heldRun{tenant, execution}
		if request == heldRequest {
			return len(s.holders.of(run)) > 0, nil
		}
		if done, err = s.holders.cancel(ctx, run, s.cancelTimeout); err != nil {
			return false, fmt.Errorf("ask the runner of %s (%s): %w", execution, request, err)
		}
		return done, nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.cancelTimeout)
	defer cancel()
	m, err := s.jet.WorkConn.RequestWithContext(bounded, events.CancelSubject(tenant, execution), []byte(request))
	switch {
	case err == nil:
		return string(m.Data) == cancelDone, nil
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return false, nil
	default:
		return false, fmt.Errorf("ask the runner of %s (%s): %w", execution, request, err)
	}
}

// IsHeld reports whether a runner has the execution now: it listens for cancel requests
// and answers within 2 s.
func (s *Queue) IsHeld(ctx context.Context, tenant, execution string) (bool, error) {
	return s.askHolder(ctx, tenant, execution, heldRequest)
}

// ListenCancel calls fn for each request to cancel the execution, on a goroutine of its
// own. It confirms the request if fn returns true, which means that the end of the
// execution is recorded. stop ends the listening. It does not wait for fn and may be
// called more than once.
func (s *Queue) ListenCancel(tenant, execution string, fn func() bool) (stop func(), err error) {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return nil, err
	}
	if s.opts.Exclusive {
		return s.holders.add(heldRun{tenant, execution}, fn), nil
	}
	sub, err := s.jet.WorkConn.Subscribe(events.CancelSubject(tenant, execution), func(m *nats.Msg) {
		if string(m.Data) == heldRequest {
			_ = m.Respond([]byte(cancelDone)) // without an answer the asker takes the run as lost
			return
		}
		if string(m.Data) != cancelRequest || m.Reply == "" {
			s.jet.Options.Logger.Warn("ignored a message that is not a cancel request", "subject", m.Subject)
			return
		}
		go func() {
			answer := cancelNotDone
			if fn() {
				answer = cancelDone
			}
			// An asker without an answer reads the outcome from the ledger.
			_ = m.Respond([]byte(answer))
		}()
	})
	if err == nil {
		// After the flush the server has the subscription, and requests arrive here.
		err = s.jet.WorkConn.FlushTimeout(s.jet.Options.TryWait)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for cancel requests of %s: %w", execution, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
