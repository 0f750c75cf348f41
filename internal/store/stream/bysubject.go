package stream

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Last returns the last event on a subject of package events, or events.ErrNotFound. It
// refuses a subject that is a pattern.
func (s *Ledger) Last(ctx context.Context, subject string) (events.Event, error) {
	if err := checkSubject(subject); err != nil {
		return events.Event{}, err
	}
	m, err := s.lastMessage(ctx, subject)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the last event on %s: %w", subject, err)
	}
	return s.Decode(m)
}

// LastWithOther returns the last event on a subject, or the zero Event if there is none. It
// also returns the position of the last event on another subject if that is newer, and 0
// otherwise. It needs one request for each volume that it searches, and searches no volume
// before the one that holds the last event on the first subject. It refuses subjects that are
// patterns.
func (s *Ledger) LastWithOther(ctx context.Context, subject, other string) (last events.Event, newer uint64, err error) {
	if err := errors.Join(checkSubject(subject), checkSubject(other)); err != nil {
		return events.Event{}, 0, err
	}
	for {
		now := s.volumes()
		last, newer, err = s.lastWithOther(ctx, now, subject, other)
		if !errors.Is(err, errRemovedMeanwhile) {
			break
		}
	}
	if err != nil {
		return events.Event{}, 0, fmt.Errorf("read the last events on %s and %s: %w", subject, other, err)
	}
	return last, newer, nil
}

func (s *Ledger) lastWithOther(ctx context.Context, now *volumes, subject, other string) (last events.Event, newer uint64, err error) {
	for i := len(now.list) - 1; i >= 0 && last.Seq == 0; i-- {
		err := s.eachLast(ctx, now, now.list[i], []string{subject, other}, func(on string, m events.Stored) error {
			if on == other {
				newer = max(newer, m.Seq)
				return nil
			}
			var err error
			last, err = s.Decode(m)
			return err
		})
		if err != nil {
			return events.Event{}, 0, err
		}
	}
	if newer < last.Seq {
		newer = 0
	}
	return last, newer, nil
}

// Next returns the first event on a subject at a position greater than after, or
// events.ErrNotFound. It needs one request for each volume that it searches, and Each
// needs one more. It refuses a subject that is a pattern.
func (s *Ledger) Next(ctx context.Context, subject string, after uint64) (events.Event, error) {
	if err := checkSubject(subject); err != nil {
		return events.Event{}, err
	}
	m, err := s.nextMessage(ctx, s.volumes(), subject, after+1)
	if err != nil {
		return events.Event{}, fmt.Errorf("read the events on %s after %d: %w", subject, after, err)
	}
	return s.Decode(m)
}

// Each calls fn for each event on a subject at a position greater than after that is
// stored before the call, oldest first. It returns the position of the last event on the
// subject, 0 for none, and an error of fn unchanged. It refuses a subject that is a
// pattern.
func (s *Ledger) Each(ctx context.Context, subject string, after uint64, fn func(events.Event) error) (last uint64, err error) {
	if err := checkSubject(subject); err != nil {
		return 0, err
	}
	return s.eachOn(ctx, subject, "", after, fn)
}

// EachAbout is Each for a subject that objects share. It calls fn only for the events
// about one object, given by the id that events.Event.About returns, and decodes no other
// events. The position that it returns is that of the last event on the subject, about
// any object.
func (s *Ledger) EachAbout(ctx context.Context, subject, about string, after uint64, fn func(events.Event) error) (last uint64, err error) {
	if err := checkSubject(subject); err != nil {
		return 0, err
	}
	if err := jet.CheckTokens(about); err != nil {
		return 0, err
	}
	return s.eachOn(ctx, subject, about, after, fn)
}

// EachAboutUntil is EachAbout for the events at positions up to until, at which the ledger
// MUST have an event. What it reads does not grow with the events that follow.
func (s *Ledger) EachAboutUntil(ctx context.Context, subject, about string, after, until uint64, fn func(events.Event) error) error {
	if err := checkSubject(subject); err != nil {
		return err
	}
	if err := jet.CheckTokens(about); err != nil {
		return err
	}
	add, since := s.decoded(about, fn), s.jet.Writable()
	if !isNear(after, until) {
		_, err := s.forEachMessageUntil(ctx, subject, after, until, add)
		return err
	}
	return s.eachNear(ctx, since, after, until, func(m events.Stored) error {
		if on, _ := events.WithoutVolume(m.Subject); on != subject {
			return nil
		}
		return add(m)
	})
}

// EachMatching calls fn for each event of all tenants on the subjects of a pattern that
// is stored before the call, oldest first. The pattern MUST be one of package events. It
// returns an error of fn unchanged.
func (s *Ledger) EachMatching(ctx context.Context, pattern string, fn func(events.Event) error) error {
	_, err := s.eachOn(ctx, pattern, "", 0, fn)
	return err
}

// EachStored is EachMatching for readers that also need each message as it is stored.
func (s *Ledger) EachStored(ctx context.Context, pattern string, fn func(events.Stored, events.Event) error) error {
	_, err := s.forEachMessage(ctx, pattern, 0, func(m events.Stored) error {
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(m, e)
	})
	return err
}

// eachOn is Each for a subject or pattern. If about is not empty, it skips events about
// other objects.
func (s *Ledger) eachOn(ctx context.Context, subject, about string, after uint64, fn func(events.Event) error) (last uint64, err error) {
	return s.forEachMessage(ctx, subject, after, s.decoded(about, fn))
}

// decoded returns a function that decodes a message and calls fn. If about is not empty, it
// skips events about other objects.
func (s *Ledger) decoded(about string, fn func(events.Event) error) func(events.Stored) error {
	return func(m events.Stored) error {
		if about != "" && events.HeaderValue(m.Header, "ce-subject") != about {
			return nil
		}
		e, err := s.Decode(m)
		if err != nil {
			return err
		}
		return fn(e)
	}
}

// checkSubject returns an error unless the subject has the form "<tenant>.<kind>.<key>".
// A pattern, or a tenant or key of several tokens, could match events of other tenants.
func checkSubject(subject string) error {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 3 {
		return fmt.Errorf("%q is not the subject of an object", subject)
	}
	return jet.CheckTokens(tokens...)
}
