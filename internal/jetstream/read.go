package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// Execution returns the requested event and then every other control event of
// an execution, oldest first. It is empty for an unknown execution.
func (s *Store) Execution(ctx context.Context, tenant, execution string) ([]events.Event, error) {
	requested, err := s.next(ctx, volume.RunSubject(tenant, events.DefaultPool, execution), 1)
	if errors.Is(err, events.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read execution %s: %w", execution, err)
	}
	list := []events.Event{requested}
	subject := volume.ExecSubject(tenant, execution)
	for from := requested.Seq + 1; ; {
		e, err := s.next(ctx, subject, from)
		if errors.Is(err, events.ErrNotFound) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read execution %s: %w", execution, err)
		}
		list = append(list, e)
		from = e.Seq + 1
	}
}

// Output calls fn for each output event of an execution stored after the given
// position, oldest first.
func (s *Store) Output(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error {
	return s.scan(ctx, volume.OutSubject(tenant, execution), after, func(e events.Event) error {
		if e.About() != execution {
			return nil
		}
		return fn(e)
	})
}

// LastEntry returns the newest entry of a session, or events.ErrNotFound.
func (s *Store) LastEntry(ctx context.Context, tenant, session string) (events.Event, error) {
	msg, err := s.stream.GetLastMsgForSubject(ctx, volume.SessionSubject(tenant, session))
	if err != nil {
		return events.Event{}, notFound(err, "read the last entry of session %s", session)
	}
	return decode(msg)
}

// Entry returns the session entry of an execution, or events.ErrNotFound,
// looking only at entries stored after the given position.
func (s *Store) Entry(ctx context.Context, tenant, session, execution string, after uint64) (events.Event, error) {
	subject := volume.SessionSubject(tenant, session)
	for from := after + 1; ; {
		e, err := s.next(ctx, subject, from)
		if err != nil {
			return events.Event{}, err
		}
		if d, ok := e.Data.(*events.SessionEntryRecorded); ok && d.ExecutionID == execution {
			return e, nil
		}
		from = e.Seq + 1
	}
}

// TagEdits returns the tag edits of a heap, oldest first, and the position of
// the last event on the heap's subject (0: none), for a conditional append.
func (s *Store) TagEdits(ctx context.Context, tenant, heap string) ([]events.Event, uint64, error) {
	subject := volume.HeapSubject(tenant, heap)
	last, err := s.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the tag edits of heap %s: %w", heap, err)
	}
	var edits []events.Event
	err = s.scan(ctx, subject, 0, func(e events.Event) error {
		if e.Seq <= last.Sequence && e.About() == heap {
			edits = append(edits, e)
		}
		return nil
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read the tag edits of heap %s: %w", heap, err)
	}
	return edits, last.Sequence, nil
}

// Read returns up to limit events stored after the given position, oldest
// first. It does not wait for more.
func (s *Store) Read(ctx context.Context, after uint64, limit int) ([]events.Event, error) {
	list := make([]events.Event, 0, min(limit, 1000))
	err := s.scan(ctx, volume.Subjects(), after, func(e events.Event) error {
		list = append(list, e)
		if len(list) == limit {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("read the ledger after %d: %w", after, err)
	}
	return list, nil
}

// errEnough ends a scan early.
var errEnough = errors.New("enough")

// next returns the first event on a subject at or after a position, or
// events.ErrNotFound.
func (s *Store) next(ctx context.Context, subject string, from uint64) (events.Event, error) {
	msg, err := s.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
	if err != nil {
		return events.Event{}, notFound(err, "read %s from %d", subject, from)
	}
	return decode(msg)
}

// scan calls fn for every event on a subject (which may have wildcards) stored
// after the given position and before the call.
func (s *Store) scan(ctx context.Context, subject string, after uint64, fn func(events.Event) error) error {
	consumer, err := s.consumeJS.OrderedConsumer(ctx, volume.Stream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{subject},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    after + 1,
	})
	if err != nil {
		return err
	}
	left := consumer.CachedInfo().NumPending
	if left == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(scanBatch))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for ; left > 0; left-- {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		e, _, err := decodeMsg(msg)
		if err != nil {
			return err
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// scanBatch is how many messages are asked of the server at once.
const scanBatch = 500

func decode(m *jetstream.RawStreamMsg) (events.Event, error) {
	return events.Decode(m.Sequence, events.Message{Subject: m.Subject, Header: m.Header, Body: m.Data})
}

func decodeMsg(m jetstream.Msg) (events.Event, *jetstream.MsgMetadata, error) {
	meta, err := m.Metadata()
	if err != nil {
		return events.Event{}, nil, fmt.Errorf("read message metadata: %w", err)
	}
	e, err := events.Decode(meta.Sequence.Stream, events.Message{Subject: m.Subject(), Header: m.Headers(), Body: m.Data()})
	return e, meta, err
}

// notFound maps the server's ways of saying so to events.ErrNotFound.
func notFound(err error, format string, args ...any) error {
	doing := fmt.Sprintf(format, args...)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("%s: %w", doing, events.ErrNotFound)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
