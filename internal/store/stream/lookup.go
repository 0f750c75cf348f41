package stream

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Decode decodes and decrypts the event of a message. A message that cannot be decoded
// is damage, because only this package writes to the streams.
func (s *Ledger) Decode(m events.Stored) (events.Event, error) {
	e, err := events.Decode(m.Seq, m.Message())
	if err != nil {
		return events.Event{}, s.damageErrorf("%w", err)
	}
	return s.DecryptEvent(e, nil)
}

// getOne returns one message, or events.ErrNotFound.
func (s *Ledger) getOne(ctx context.Context, stream string, r jet.Request) (events.Stored, error) {
	if err := s.checkSubjectRead(stream, r); err != nil {
		return events.Stored{}, err
	}
	m, err := s.jet.Get(ctx, stream, r)
	for err == nil && s.isUnreadable(stream, m.Seq) {
		switch {
		case r.NextBySubject != "":
			r.Seq = m.Seq + 1
			m, err = s.jet.Get(ctx, stream, r)
		case r.LastBySubject != "":
			m, err = s.lastReadable(ctx, stream, r.LastBySubject)
		default:
			err = events.ErrNotFound
		}
	}
	if r.LastBySubject != "" && errors.Is(err, events.ErrNotFound) {
		err = s.checkNewestReadable(ctx, stream, r.LastBySubject)
	}
	if err != nil {
		return events.Stored{}, fmt.Errorf("get from stream %s: %w", stream, s.notFoundOrDamaged(stream, err))
	}
	return m, nil
}

// getBatch requests many messages and calls fn for each, in order of position. It
// returns how many more the server has. No match is no error. fn MAY keep m.Body: each
// message has memory of its own. Requests by subject skip messages at lost positions. If
// the newest message of a subject is skipped, the last readable one is passed to fn after
// all others.
func (s *Ledger) getBatch(ctx context.Context, stream string, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	if !bySubject(r) || !s.hasUnreadable(stream) {
		return s.requestBatch(ctx, stream, r, fn)
	}
	for {
		var last uint64
		var hidden []string
		some := false
		pending, err := s.requestBatch(ctx, stream, r, func(m events.Stored) error {
			last = m.Seq
			if s.isUnreadable(stream, m.Seq) {
				hidden = append(hidden, m.Subject)
				return nil
			}
			some = true
			return fn(m)
		})
		switch {
		case err != nil || len(hidden) == 0:
			return pending, err
		case r.NextBySubject != "" && (some || pending == 0):
			return pending, nil
		case r.NextBySubject != "": // the caller takes a batch without messages for the end
			r.Seq = last + 1
			continue
		}
		for _, subject := range hidden {
			m, err := s.lastReadable(ctx, stream, subject)
			if err == nil {
				err = fn(m)
			}
			if err != nil && !errors.Is(err, events.ErrNotFound) {
				return 0, err
			}
		}
		return pending, nil
	}
}

// requestBatch is getBatch without skipping lost positions.
func (s *Ledger) requestBatch(ctx context.Context, stream string, r jet.Request, fn func(m events.Stored) error) (pending uint64, err error) {
	if err := s.checkSubjectRead(stream, r); err != nil {
		return 0, err
	}
	return s.jet.GetBatch(ctx, stream, r, fn)
}

// DecryptEvent decrypts the content of an event if its content key is available. It
// returns err if that is not nil.
func (s *Ledger) DecryptEvent(e events.Event, err error) (events.Event, error) {
	if err != nil {
		return e, err
	}
	if err := events.Decrypt(&e, s.opts.Keys); errors.Is(err, events.ErrDamaged) {
		return events.Event{}, s.damageErrorf("%w", err)
	} else if err != nil {
		return events.Event{}, err
	}
	return e, nil
}

// checkSubjectRead returns an error if a request looks up messages by subject in a
// stream that may lack some. Only requests by position show which messages are missing.
func (s *Ledger) checkSubjectRead(stream string, r jet.Request) error {
	if s.opts.CheckComplete == nil || !bySubject(r) {
		return nil
	}
	return s.opts.CheckComplete(stream)
}

func bySubject(r jet.Request) bool {
	return r.NextBySubject != "" || r.LastBySubject != "" || len(r.MultiLast) > 0
}

// notFoundOrDamaged turns events.ErrNotFound into the error of Options.CheckComplete if
// the stream may have lost the message.
func (s *Ledger) notFoundOrDamaged(stream string, err error) error {
	if s.opts.CheckComplete == nil || !errors.Is(err, events.ErrNotFound) {
		return err
	}
	if why := s.opts.CheckComplete(stream); why != nil {
		return fmt.Errorf("not found, but possibly lost: %w", why)
	}
	return err
}
