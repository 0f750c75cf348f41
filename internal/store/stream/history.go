package stream

import (
	"context"
	"errors"
	"fmt"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Execution returns the requested event and then every other control event of
// an execution (not its output), oldest first. It is empty for an unknown
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

// errRemovedMeanwhile is returned where something is missing that may have been
// removed while it was read.
var errRemovedMeanwhile = errors.New("a volume was removed meanwhile")

// missing is the error of something that is not where it must be.
func (s *Ledger) missing(now *volumes, format string, args ...any) error {
	if s.volumes() != now {
		return errRemovedMeanwhile
	}
	return s.damageErrorf(format, args...)
}

func (s *Ledger) execution(ctx context.Context, now *volumes, tenant, execution string) ([]events.Event, error) {
	// The ends are found by subject, at one moment; the events between them
	// follow from there.
	since := s.jet.Writable()
	requested, last, err := s.endsOf(ctx, now, tenant, execution)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read execution %s: %w", execution, err)
	case requested == nil && last == nil:
		return nil, nil
	case requested == nil && s.Lost().Between(1, last.Seq) > 0:
		return nil, nil // as if it had never been: its request is lost
	case requested == nil:
		return nil, s.missing(now, "execution %s has events up to position %d but was never requested", execution, last.Seq)
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
		return nil, s.missing(now, "position %d of execution %s cannot be read", last.Seq, execution)
	}
	return list, nil
}

// endsOf finds the request of an execution and its last other control event; nil
// for what there is not. The request is the older of the two.
func (s *Ledger) endsOf(ctx context.Context, now *volumes, tenant, execution string) (requested, last *events.Stored, err error) {
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
		unsure := s.jet.Unsure(since)
		switch {
		case errors.Is(err, jet.ErrHidden) && !s.counts(v.stream()): // as if there were none
		case errors.Is(err, jet.ErrHidden) && unsure != nil:
			return nil, nil, unsure
		case errors.Is(err, jet.ErrHidden):
			return nil, nil, s.missing(now, "the newest messages of execution %s in stream %s cannot be read", execution, v.stream())
		case err != nil:
			return nil, nil, err
		}
	}
	return requested, last, nil
}

// LastControl returns the last control event of an execution besides its request,
// or events.ErrNotFound.
func (s *Ledger) LastControl(ctx context.Context, tenant, execution string) (events.Event, error) {
	e, err := s.lastOn(ctx, tenant, execution, events.ExecSubject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event of execution %s: %w", execution, err)
	}
	return e, nil
}

// Output calls fn for each output event of an execution stored after the given
// position and before the call, oldest first.
func (s *Ledger) Output(ctx context.Context, tenant, execution string, after uint64, fn func(events.Event) error) error {
	if err := jet.CheckTokens(tenant, execution); err != nil {
		return err
	}
	// The subject is shared with other executions.
	_, err := s.forEachMessage(ctx, events.OutSubject(tenant, execution), after, func(m events.Stored) error {
		if jet.HeaderValue(m.Header, "ce-subject") != execution {
			return nil
		}
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
	return err
}

// SessionLog calls fn for each event on the subject of a named session, stored
// after a position and before the call, oldest first. An error of fn is returned as it is.
func (s *Ledger) SessionLog(ctx context.Context, tenant, sessionID string, after uint64, fn func(events.Event) error) error {
	if err := jet.CheckTokens(tenant, sessionID); err != nil {
		return err
	}
	_, err := s.forEachMessage(ctx, events.SessionSubject(tenant, sessionID), after, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
	return err
}

// LastEntry returns the newest entry or reset of a session, or events.ErrNotFound.
// The session is named by its key (events.SessionID).
func (s *Ledger) LastEntry(ctx context.Context, tenant, sessionID string) (events.Event, error) {
	if err := jet.CheckTokens(tenant, sessionID); err != nil {
		return events.Event{}, err
	}
	m, err := s.lastMessage(ctx, events.SessionSubject(tenant, sessionID))
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last entry of session %s: %w", sessionID, err)
	}
	return s.Decode(m)
}

// errFound ends a search.
var errFound = errors.New("found")

// Entry returns the session entry of an execution, or events.ErrNotFound,
// looking only at entries stored after the given position and before the call.
func (s *Ledger) Entry(ctx context.Context, tenant, sessionID, execution string, after uint64) (events.Event, error) {
	if err := jet.CheckTokens(tenant, sessionID); err != nil {
		return events.Event{}, err
	}
	var found events.Event
	_, err := s.forEachMessage(ctx, events.SessionSubject(tenant, sessionID), after, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
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

// HeapEvents calls fn for each event on a heap's subject, which other heaps
// share, stored after a position and before the call, oldest first. It returns
// the position of the last one there (0: none).
func (s *Ledger) HeapEvents(ctx context.Context, tenant, heap string, after uint64, fn func(events.Event) error) (last uint64, err error) {
	if err := jet.CheckTokens(tenant, heap); err != nil {
		return 0, err
	}
	return s.forEachMessage(ctx, events.HeapSubject(tenant, heap), after, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
}

// TagEdits returns the tag edits of a heap and the events it was collected by,
// oldest first, and the position of the last event on the heap's subject (0:
// none), for a conditional append.
func (s *Ledger) TagEdits(ctx context.Context, tenant, heap string) ([]events.Event, uint64, error) {
	if err := jet.CheckTokens(tenant, heap); err != nil {
		return nil, 0, err
	}
	// The subject is shared with other heaps.
	var edits []events.Event
	last, err := s.forEachMessage(ctx, events.HeapSubject(tenant, heap), 0, func(m events.Stored) error {
		if jet.HeaderValue(m.Header, "ce-subject") != heap {
			return nil
		}
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		edits = append(edits, e)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return edits, last, nil
}

// Webhooks calls fn with every event about webhooks stored before the call, of
// all tenants, oldest first.
func (s *Ledger) Webhooks(ctx context.Context, fn func(events.Event) error) error {
	_, err := s.forEachMessage(ctx, events.WebhookSubjects(), 0, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
	return err
}

// Shreds calls fn with every event stored before the call that says that the
// content of a session was erased, of all tenants, oldest first.
func (s *Ledger) Shreds(ctx context.Context, fn func(events.Event) error) error {
	_, err := s.forEachMessage(ctx, events.ShredSubjects(), 0, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	})
	return err
}
