package stream

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
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
	// Both ends are looked up by subject at one point in time; the events between them
	// are read from there.
	since := s.jet.Writable()
	requested, last, err := s.readEnds(ctx, now, tenant, execution)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read execution %s: %w", execution, err)
	case requested == nil && last == nil:
		return nil, nil
	case requested == nil && s.Lost().Between(1, last.Seq) > 0:
		return nil, nil // its request is lost: the execution is treated as unknown
	case requested == nil:
		return nil, s.missingError(now, "execution %s has events up to position %d but was never requested", execution, last.Seq)
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
		err = s.forEachInRange(ctx, now, tally{since: since}, exec, at+1, last.Seq, add)
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
	for i := len(now.list) - 1; i >= 0 && requested == nil; i-- {
		v := now.list[i]
		run, exec := StoredSubject(v.number, events.RunSubject(tenant, "*", execution)), StoredSubject(v.number, events.ExecSubject(tenant, execution))
		since := s.jet.Writable()
		_, err := s.getBatchFromVolume(ctx, v, jet.Request{MultiLast: []string{run, exec}, Batch: 2}, func(m events.Stored) error {
			switch {
			case m.Subject != exec:
				requested = &m
			case last == nil:
				last = &m
			}
			return nil
		})
		unsure := s.jet.CheckReliable(since)
		switch {
		case errors.Is(err, jet.ErrHidden) && !s.isCountReliable(v.stream()): // treated as absent
		case errors.Is(err, jet.ErrHidden) && unsure != nil:
			return nil, nil, unsure
		case errors.Is(err, jet.ErrHidden):
			return nil, nil, s.missingError(now, "the newest messages of execution %s in stream %s cannot be read", execution, v.stream())
		case err != nil:
			return nil, nil, err
		}
	}
	return requested, last, nil
}

// LastControl returns the last control event of an execution other than its request, or
// events.ErrNotFound.
func (s *Ledger) LastControl(ctx context.Context, tenant, execution string) (events.Event, error) {
	return s.Last(ctx, events.ExecSubject(tenant, execution))
}

// Output calls fn for each output event of an execution at a position greater than
// after that is stored before the call, oldest first. It returns an error of fn
// unchanged.
func (s *Ledger) Output(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error {
	_, err := s.EachAbout(ctx, events.OutSubject(tenant, execution), execution, after, fn)
	return err
}

// SessionLog calls fn for each event on the subject of a named session at a position
// greater than after that is stored before the call, oldest first. It returns an error
// of fn unchanged.
func (s *Ledger) SessionLog(ctx context.Context, tenant, sessionID string, after uint64, fn func(events.Event) error) error {
	_, err := s.Each(ctx, events.SessionSubject(tenant, sessionID), after, fn)
	return err
}

// LastEntry returns the newest entry or reset of a named session, or
// events.ErrNotFound. sessionID is the key of the session (events.SessionID).
func (s *Ledger) LastEntry(ctx context.Context, tenant, sessionID string) (events.Event, error) {
	return s.Last(ctx, events.SessionSubject(tenant, sessionID))
}

var errFound = errors.New("found")

// Entry returns the session entry of an execution, or events.ErrNotFound. It searches
// entries at positions greater than after that are stored before the call.
func (s *Ledger) Entry(ctx context.Context, tenant, sessionID, execution string, after uint64) (events.Event, error) {
	var found events.Event
	_, err := s.Each(ctx, events.SessionSubject(tenant, sessionID), after, func(e events.Event) error {
		if d, ok := e.Data.(*events.SessionEntryRecorded); ok && d.ExecutionID == execution {
			found = e
			return errFound
		}
		return nil
	})
	switch {
	case errors.Is(err, errFound):
		return found, nil
	case err != nil:
		return events.Event{}, err
	default:
		return events.Event{}, fmt.Errorf("entry of execution %s in session %s: %w", execution, sessionID, events.ErrNotFound)
	}
}

// HeapEvents calls fn for each event on the subject of a heap at a position greater
// than after that is stored before the call, oldest first. Heaps share subjects. It
// returns the position of the last event on the subject, 0 for none, and an error of fn
// unchanged.
func (s *Ledger) HeapEvents(ctx context.Context, tenant, heap string, after uint64, fn func(events.Event) error) (last uint64, err error) {
	return s.Each(ctx, events.HeapSubject(tenant, heap), after, fn)
}

// TagEdits returns the tag edits and collections of a heap, oldest first. It also
// returns the position of the last event on the subject of the heap, 0 for none, for a
// conditional append.
func (s *Ledger) TagEdits(ctx context.Context, tenant, heap string) ([]events.Event, uint64, error) {
	var edits []events.Event
	last, err := s.EachAbout(ctx, events.HeapSubject(tenant, heap), heap, 0, func(e events.Event) error {
		edits = append(edits, e)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return edits, last, nil
}

// Webhooks calls fn with every event about webhooks of all tenants that is stored
// before the call, oldest first. It returns an error of fn unchanged.
func (s *Ledger) Webhooks(ctx context.Context, fn func(events.Event) error) error {
	return s.EachMatching(ctx, events.WebhookSubjects(), fn)
}

// Shreds calls fn with every recorded shredding of all tenants that is stored before
// the call, oldest first. It returns an error of fn unchanged.
func (s *Ledger) Shreds(ctx context.Context, fn func(events.Event) error) error {
	return s.EachMatching(ctx, events.ShredSubjects(), fn)
}
