package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// appendTries bounds how often an append with an unknown outcome is repeated.
const appendTries = 3

// Append stores e and returns its position once it is on disk. A negative
// after appends unconditionally; otherwise after MUST be the position of the
// last event on e's subject (0: none), else nothing is stored and the error is
// events.ErrConflict. An event whose acknowledgement was lost is found again
// by its id, and is not a conflict with itself.
func (s *Store) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	m, err := events.Encode(volume, e)
	if err != nil {
		return 0, err
	}
	msg := &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Body}
	var opts []jetstream.PublishOpt
	// Output is identified by its offset; an id for each chunk would only fill
	// the server's duplicate window.
	if e.Type != events.TypeExecutionOutput {
		opts = append(opts, jetstream.WithMsgID(e.ID))
	}
	if after >= 0 {
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(uint64(after)))
	}
	for try := 1; ; try++ {
		ack, err := s.publishOnce(ctx, msg, opts)
		switch {
		case err == nil:
			return ack.Sequence, nil
		case isConflict(err):
			return s.resolveConflict(ctx, e, m.Subject, uint64(max(after, 0)))
		case ctx.Err() != nil || try == appendTries || !outcomeUnknown(err):
			return 0, fmt.Errorf("append %s: %w", e.Type, err)
		}
	}
}

func (s *Store) publishOnce(ctx context.Context, msg *nats.Msg, opts []jetstream.PublishOpt) (*jetstream.PubAck, error) {
	ctx, stop := context.WithTimeout(ctx, requestTimeout)
	defer stop()
	return s.publishJS.PublishMsg(ctx, msg, opts...)
}

// resolveConflict tells a lost race from our own event that is stored already
// although its acknowledgement never came.
func (s *Store) resolveConflict(ctx context.Context, e events.Event, subject string, after uint64) (uint64, error) {
	next, err := s.next(ctx, subject, after+1)
	switch {
	case err == nil && next.ID == e.ID:
		return next.Seq, nil
	case err == nil || errors.Is(err, events.ErrNotFound):
		return 0, fmt.Errorf("append %s after %d: %w", e.Type, after, events.ErrConflict)
	default:
		return 0, fmt.Errorf("append %s: look for what was recorded first: %w", e.Type, err)
	}
}

// isConflict recognises a failed expectation; a replicated stream uses a code
// of its own.
func isConflict(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

func outcomeUnknown(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) ||
		errors.Is(err, nats.ErrDisconnected) || errors.Is(err, nats.ErrConnectionReconnecting) || errors.Is(err, jetstream.ErrNoStreamResponse)
}
