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

// cancelWait is how long a runner may take to answer.
const cancelWait = 2 * time.Second

// What is said on a cancel subject. Anything else there is not a request: a
// subscriber with the right to have events delivered could choose the subject.
const (
	cancelRequest = "cancel"
	heldRequest   = "held?"
	cancelDone    = "+OK"
	cancelNotDone = "-ERR"
)

// RequestCancel asks whoever runs the execution to stop it and waits for the
// answer. It reports false when nobody runs it, when the runner could not end
// it, and when nobody answered within 2 s.
func (s *Queue) RequestCancel(ctx context.Context, tenant, execution string) (answered bool, err error) {
	return s.askHolder(ctx, tenant, execution, cancelRequest)
}

// askHolder sends a request to the runner of an execution and reports whether it
// answered that it did what was asked.
func (s *Queue) askHolder(ctx context.Context, tenant, execution, request string) (done bool, err error) {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return false, err
	}
	bounded, cancel := context.WithTimeout(ctx, cancelWait)
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

// IsHeld reports whether a runner holds the execution now: it listens for cancel
// requests and answers within 2 s.
func (s *Queue) IsHeld(ctx context.Context, tenant, execution string) (bool, error) {
	return s.askHolder(ctx, tenant, execution, heldRequest)
}

// ListenCancel calls fn when somebody asks to cancel the execution, each time on
// a goroutine of its own, and tells the asker when fn answers true: the
// execution's end is on record. stop ends the listening and does not wait for
// fn; it may be called more than once.
func (s *Queue) ListenCancel(tenant, execution string, fn func() bool) (stop func(), err error) {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return nil, err
	}
	sub, err := s.jet.WorkConn.Subscribe(events.CancelSubject(tenant, execution), func(m *nats.Msg) {
		if string(m.Data) == heldRequest {
			_ = m.Respond([]byte(cancelDone)) // a runner that gets no answer takes the run for lost
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
			// An asker that gets no answer finds out from the record.
			_ = m.Respond([]byte(answer))
		}()
	})
	if err == nil {
		// From here on requests reach us: the server knows the subscription.
		err = s.jet.WorkConn.FlushTimeout(s.jet.Options.TryWait)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for cancel requests of %s: %w", execution, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
