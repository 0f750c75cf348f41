package stream

import (
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/store/jet"
)

// ignoreReportedDamage returns nil for damage that Options.OnDamage receives, so that a
// damaged ledger can be opened for reading.
func (s *Ledger) ignoreReportedDamage(err error) error {
	if s.opts.OnDamage != nil && errors.Is(err, events.ErrDamaged) {
		return nil
	}
	return err
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
