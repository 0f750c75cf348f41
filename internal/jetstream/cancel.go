package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"daybook/events"
)

// RequestCancel asks whoever runs the execution to stop it and waits for the
// answer, as long as ctx allows. It reports false when nobody runs it or the
// answer did not come in time.
func (s *Store) RequestCancel(ctx context.Context, tenant, execution string) (answered bool, err error) {
	_, err = s.publish.RequestWithContext(ctx, events.CancelSubject(tenant, execution), nil)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return false, nil
	default:
		return false, fmt.Errorf("ask the runner of %s to cancel: %w", execution, err)
	}
}

// ListenCancel calls fn when somebody asks to cancel the execution; the asker
// is answered when fn returns true. stop ends the listening.
func (s *Store) ListenCancel(tenant, execution string, fn func() bool) (stop func(), err error) {
	sub, err := s.consume.Subscribe(events.CancelSubject(tenant, execution), func(m *nats.Msg) {
		// fn waits for the run to end; other executions' requests must not
		// wait behind it. A subscription has a goroutine of its own.
		if fn() {
			if err := m.Respond(nil); err != nil {
				s.opts.Logger.Warn("answering a cancel request", "execution", execution, "error", err)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for cancels of %s: %w", execution, err)
	}
	// Requests come over another connection: be heard before returning.
	if err := s.consume.Flush(); err != nil {
		return nil, fmt.Errorf("listen for cancels of %s: %w", execution, err)
	}
	return func() {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			s.opts.Logger.Warn("end listening for cancels", "execution", execution, "error", err)
		}
	}, nil
}
