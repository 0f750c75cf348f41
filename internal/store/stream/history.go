package stream

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/jet"
)

// Execution returns the requested event of an execution and then its other control
// events, oldest first. Output is not included. The list is empty for an unknown
// execution.
func (s *Ledger) Execution(ctx context.Context, tenant, execution string) ([]events.Event, error) {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return nil, err
	}
	for {
		now := s.volumes()
		list, err := s.execution(ctx, now, tenant, execution)
		if errors.Is(err, errRemovedMeanwhile) {
			continue
		}
		return list, err
	}
}

// errRemovedMeanwhile is returned for a missing message if a volume was removed during
// the reading.
var errRemovedMeanwhile = errors.New("a volume was removed meanwhile")

// missingError returns damage, or errRemovedMeanwhile if the list of volumes was replaced.
func (s *Ledger) missingError(now *volumes, format string, args ...any) error {
	if s.volumes() != now {
		return errRemovedMeanwhile
	}
	return s.damageErrorf(format, args...)
}

func (s *Ledger) execution(ctx context.Context, now *volumes, tenant, execution string) ([]events.Event, error) {
	// Both ends are looked up by subject first. Then the events between them are read.
	since := s.jet.Writable()
	requested, last, err := s.readEnds(ctx, now, tenant, execution)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read execution %s: %w", execution, err)
	case requested == nil && last == nil:
		return nil, nil
	case requested == nil && spans.Between(s.Lost(), 1, last.Seq) > 0:
		return nil, nil // its request is lost: the execution is treated as unknown
	case requested == nil:
		return nil, s.missingError(now, "execution %s has events up to position %d, but its request cannot be found", execution, last.Seq)
	}
	e, err := s.Decode(*requested)
	if err != nil {
		return nil, err
	}
	list := append(make([]events.Event, 0, 4), e)
	if last == nil {
		return list, nil
	}
	exec := events.ExecSubject(tenant, execution)
	at := requested.Seq
	add := func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		list, at = append(list, e), m.Seq
		return nil
	}
	if last.Seq == at+1 {
		err = add(*last) // nothing is between them
	} else {
		err = s.forEachInRange(ctx, now, tally{since: since}, exec, at+1, last.Seq, last.Seq, add)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("read execution %s: %w", execution, err)
	case at != last.Seq:
		return nil, s.missingError(now, "position %d of execution %s cannot be read", last.Seq, execution)
	}
	return list, nil
}

// readEnds returns the request of an execution and its last other control event, each nil
// if there is none. The request is the older of the two.
func (s *Ledger) readEnds(ctx context.Context, now *volumes, tenant, execution string) (requested, last *events.Stored, err error) {
	control := events.ExecSubject(tenant, execution)
	for i := len(now.list) - 1; i >= 0 && requested == nil; i-- {
		err := s.eachLast(ctx, now, now.list[i], []string{events.RunSubject(tenant, "*", execution), control}, func(subject string, m events.Stored) error {
			switch {
			case subject != control:
				requested = &m
			case last == nil:
				last = &m
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return requested, last, nil
}
