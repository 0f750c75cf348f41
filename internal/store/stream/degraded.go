package stream

import (
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/store/jet"
)

// ignoreReportedDamage leaves out damage that somebody was told of, see Options.Damaged: who
// opens a ledger to read what is sound of it goes on.
func (s *Ledger) ignoreReportedDamage(err error) error {
	if s.opts.Damaged != nil && errors.Is(err, events.ErrDamaged) {
		return nil
	}
	return err
}

// checkSubjectRead is why a stream is not asked for messages by their subject, or nil:
// only by position it shows what it lacks.
func (s *Ledger) checkSubjectRead(stream string, r jet.Request) error {
	if s.opts.Incomplete == nil || !bySubject(r) {
		return nil
	}
	return s.opts.Incomplete(stream)
}

// bySubject reports whether a request asks for messages by their subject.
func bySubject(r jet.Request) bool {
	return r.NextBySubject != "" || r.LastBySubject != "" || len(r.MultiLast) > 0
}

// notFoundOrDamaged makes damage of "not found" where a stream may lack what was asked for.
func (s *Ledger) notFoundOrDamaged(stream string, err error) error {
	if s.opts.Incomplete == nil || !errors.Is(err, events.ErrNotFound) {
		return err
	}
	if why := s.opts.Incomplete(stream); why != nil {
		return fmt.Errorf("it is not there, but may have been lost: %w", why)
	}
	return err
}
