package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// appendWait bounds an append whose context has no deadline.
const appendWait = 30 * time.Second

// Append stores e and returns its position once it is on disk. With a negative
// after it appends unconditionally; otherwise after must be the position of the
// last event on e's subject (0: none yet), else nothing is stored and the error
// is events.ErrConflict. An event over its size limit is events.ErrTooLarge.
//
// When an acknowledgement is lost, Append finds out what became of the event
// before it tries again or reports a conflict; so may the caller, by appending
// the same event once more: it is stored once. *events.UnwritableError means
// that nothing can be stored, and any other error that the outcome is unknown, or
// that the server refused.
func (s *Store) Append(ctx context.Context, e events.Event, after int64) (uint64, error) {
	m, err := s.message(e, after)
	if err != nil {
		return 0, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, appendWait)
		defer cancel()
	}
	// Output bears no message id, so a second try has to look for the first.
	identified := m.Header.Get(natsjs.MsgIDHeader) != ""
	since := s.newest.Load()
	if after >= 0 {
		since = uint64(after)
	}
	for try := 0; ; try++ {
		seq, err := s.try(ctx, m)
		switch {
		case err == nil:
			s.sawStored(seq)
			return seq, nil
		case conflicting(err):
			seq, err := s.find(ctx, m.Subject, e.ID, since)
			if errors.Is(err, events.ErrNotFound) {
				return 0, fmt.Errorf("append %s on %s after %d: %w", e.Type, m.Subject, after, events.ErrConflict)
			}
			if err != nil {
				return 0, fmt.Errorf("append %s: find out whether it is stored: %w", e.Type, err)
			}
			return seq, nil
		case refused(err), isUnwritable(err):
			return 0, fmt.Errorf("append %s: %w", e.Type, err)
		}
		if werr := wait(ctx, min(time.Duration(try+1)*20*time.Millisecond, time.Second)); werr != nil {
			return 0, fmt.Errorf("append %s: outcome unknown: %w", e.Type, err)
		}
		if identified {
			continue
		}
		switch seq, ferr := s.find(ctx, m.Subject, e.ID, since); {
		case ferr == nil:
			return seq, nil
		case !errors.Is(ferr, events.ErrNotFound):
			return 0, fmt.Errorf("append %s: outcome unknown: %w", e.Type, errors.Join(err, ferr))
		}
	}
}

// message is the wire form of an append.
func (s *Store) message(e events.Event, after int64) (*nats.Msg, error) {
	w, err := events.Encode(volume, e)
	if err != nil {
		return nil, err
	}
	if err := checkTokens(e.Tenant, e.About()); err != nil {
		return nil, fmt.Errorf("append %s: %w", e.Type, err)
	}
	m := &nats.Msg{Subject: w.Subject, Header: nats.Header(w.Header), Data: w.Body}
	if after >= 0 {
		m.Header.Set(natsjs.ExpectedLastSubjSeqHeader, strconv.FormatInt(after, 10))
	}
	if e.Type != events.TypeExecutionOutput {
		m.Header.Set(natsjs.MsgIDHeader, e.ID)
	}
	return m, nil
}

// try publishes once.
func (s *Store) try(ctx context.Context, m *nats.Msg) (uint64, error) {
	ack, err := s.publish(ctx, m)
	if err != nil {
		return 0, err
	}
	if ack.Stream != volume.Stream() {
		return 0, fmt.Errorf("stream %s stored the event, not %s: %w", ack.Stream, volume.Stream(), errRefused)
	}
	return ack.Sequence, nil
}

// find looks for an event by its id among those stored on a subject after a
// position. It asks the stream's leader: what another copy lacks may be there.
func (s *Store) find(ctx context.Context, subject, id string, after uint64) (uint64, error) {
	for from := after + 1; ; {
		seq, header, err := s.nextAtLeader(ctx, subject, from)
		if err != nil {
			return 0, err
		}
		if first(header, "ce-id") == id {
			s.sawStored(seq)
			return seq, nil
		}
		from = seq + 1
	}
}

var errRefused = errors.New("refused")

// duplicateInFlight is the answer of a cluster to a second try while the first
// is still being agreed upon.
const duplicateInFlight natsjs.ErrorCode = 10158

// conflicting reports whether the server refused because of the expected
// position. Streams with several copies use a code of their own.
func conflicting(err error) bool {
	var ae *natsjs.APIError
	return errors.As(err, &ae) &&
		(ae.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequence || ae.ErrorCode == natsjs.JSErrCodeStreamWrongLastSequenceConstant)
}

// refused reports whether the server, or the client, said no: the event is
// surely not stored, and trying again would not help.
func refused(err error) bool {
	var ae *natsjs.APIError
	if errors.As(err, &ae) {
		return ae.ErrorCode != duplicateInFlight && ae.Code < 500
	}
	return errors.Is(err, errRefused) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrConnectionDraining)
}

// wait pauses, or returns why not.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
