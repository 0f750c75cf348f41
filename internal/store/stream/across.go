package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// The subjects in this file are those of package events, which name no volume. Lookups
// search all volumes, so that callers need not know which one holds a message.

// lastMessage returns the last message on a subject, or events.ErrNotFound. It searches
// the newest volume first. The others are sealed and do not change, so the answer holds
// for the time of that first search.
func (s *Ledger) lastMessage(ctx context.Context, subject string) (events.Stored, error) {
	return s.lastMessageIn(ctx, s.volumes().list, subject)
}

// lastMessageIn is lastMessage for some volumes.
func (s *Ledger) lastMessageIn(ctx context.Context, list []volume, subject string) (events.Stored, error) {
	for i := len(list) - 1; i >= 0; i-- {
		m, err := s.getFromVolume(ctx, list[i], jet.Request{LastBySubject: StoredSubject(list[i].number, subject)})
		if !errors.Is(err, events.ErrNotFound) {
			return m, err
		}
	}
	return events.Stored{}, events.ErrNotFound
}

// eachLast calls fn for the last message on each of some subjects in one volume. A message
// that the server cannot read is damage. Where its counts are not reliable, it may be
// treated as absent.
func (s *Ledger) eachLast(ctx context.Context, now *volumes, v volume, subjects []string, fn func(subject string, m events.Stored) error) error {
	r := jet.Request{Batch: len(subjects)}
	for _, subject := range subjects {
		r.MultiLast = append(r.MultiLast, StoredSubject(v.number, subject))
	}
	since := s.jet.Writable()
	_, err := s.getBatchFromVolume(ctx, v, r, func(m events.Stored) error {
		// The subject of a kept event has the number of its own volume, which may be older.
		subject, _ := events.WithoutVolume(m.Subject)
		return fn(subject, m)
	})
	if !errors.Is(err, jet.ErrHidden) {
		return err
	}
	if !s.isCountReliable(v.stream()) {
		return nil
	}
	if err := s.jet.CheckReliable(since); err != nil {
		return err
	}
	return s.missingError(now, "the newest messages on %s in stream %s cannot be read", strings.Join(subjects, " and "), v.stream())
}

// LastFrom returns the last message on a subject, or events.ErrNotFound. It searches
// only the volume that holds position and later ones.
func (s *Ledger) LastFrom(ctx context.Context, position uint64, subject string) (events.Stored, error) {
	now := s.volumes()
	return s.lastMessageIn(ctx, now.list[now.indexOf(position):], subject)
}

// forEachMessage calls fn for the messages on a subject at positions greater than
// after. It ends with the message that is the last one at the time of the call, and
// returns its position, or 0 if there is none. It returns an error of fn unchanged.
func (s *Ledger) forEachMessage(ctx context.Context, subject string, after uint64, fn func(events.Stored) error) (last uint64, err error) {
	return s.forEachMessageUntil(ctx, subject, after, math.MaxUint64, fn)
}

// forEachMessageUntil is forEachMessage for the messages at positions up to until. It reads at
// most one batch beyond it.
func (s *Ledger) forEachMessageUntil(ctx context.Context, subject string, after, until uint64, fn func(events.Stored) error) (last uint64, err error) {
	now, since := s.volumes(), s.jet.Writable()
	end, err := s.lastMessageIn(ctx, now.list, subject)
	if errors.Is(err, events.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", StoredSubject(now.active().number, subject), err)
	}
	if end.Seq <= after || until <= after {
		return end.Seq, nil
	}
	return end.Seq, s.forEachInRange(ctx, now, tally{since: since}, subject, after+1, end.Seq, until, fn)
}

// forEachInRange calls fn for the messages on a subject at positions from to end, both
// included, and not greater than until. A message on the subject MUST be at end. t.since MUST
// be from before the caller looked up end.
func (s *Ledger) forEachInRange(ctx context.Context, now *volumes, t tally, subject string, from, end, until uint64, fn func(events.Stored) error) error {
	for _, v := range now.list[now.indexOf(from):] {
		for from <= min(end, until) {
			var got uint64
			n := 0
			r := jet.Request{Seq: max(from, v.first), NextBySubject: StoredSubject(v.number, subject), Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
			pending, err := s.getBatchFromVolume(ctx, v, r, func(m events.Stored) error {
				got = m.Seq
				n++
				if m.Seq > min(end, until) {
					return nil
				}
				return fn(m)
			})
			if err == nil {
				err = s.addToTally(&t, now, v, n, pending, subject, from-1)
			}
			if err != nil {
				return err
			}
			if got == 0 {
				break // no more messages in this volume
			}
			from = got + 1
		}
	}
	if err := s.checkTally(ctx, &t, now, subject, from-1); err != nil {
		return err
	}
	if from <= min(end, until) && end <= until {
		if end <= s.Removed().UpTo() {
			return nil // removed during the reading
		}
		if err := s.jet.CheckReliable(t.since); err != nil {
			return err
		}
		return s.damageErrorf("position %d on %s cannot be read", end, StoredSubject(now.active().number, subject))
	}
	return nil
}

// nextMessage returns the first message on a subject at position from or later, or
// events.ErrNotFound.
func (s *Ledger) nextMessage(ctx context.Context, now *volumes, subject string, from uint64) (events.Stored, error) {
	for _, v := range now.list[now.indexOf(from):] {
		m, err := s.getFromVolume(ctx, v, jet.Request{Seq: max(from, v.first), NextBySubject: StoredSubject(v.number, subject)})
		if !errors.Is(err, events.ErrNotFound) {
			return m, err
		}
	}
	return events.Stored{}, events.ErrNotFound
}

// clockSlack is the assumed maximum difference between clocks: of processes, and of one
// clock from one day to the next. If a volume ended more than this time before an id was
// created, it holds no event about the object with that id.
const clockSlack = 24 * time.Hour

// indexSince returns the index of the first volume that may hold an event about an object
// that was created at a time.
func (l *volumes) indexSince(created time.Time) int {
	i := slices.IndexFunc(l.sealed(), func(v volume) bool { return v.ended.After(created.Add(-clockSlack)) })
	if i < 0 {
		return len(l.sealed())
	}
	return i
}

// EarliestPosition returns a position before which there is no event about the object with an
// id: the first one of a volume. It is 1 if the id does not contain the time at which it was
// created.
func (s *Ledger) EarliestPosition(id string) uint64 {
	created, ok := events.MintedAt(id)
	if !ok {
		return 1
	}
	now := s.volumes()
	return now.list[now.indexSince(created)].first
}

// expectedSeqInActive converts position, the expected last position of an event's
// subject in the whole ledger, to the one the server expects in the active volume:
// position itself, or 0 if it is in a sealed volume. It returns events.ErrConflict if
// another message is the last one on the subject in the sealed volumes.
//
// An object whose id contains its creation time has no older events. Sealed volumes that
// ended long before that time are not searched: otherwise the cost of a run would grow
// with the number of volumes.
func (s *Ledger) expectedSeqInActive(ctx context.Context, now *volumes, e events.Event, position uint64) (uint64, error) {
	if position >= now.active().first {
		return position, nil
	}
	before := now.sealed()
	if position > 0 {
		before = before[now.indexOf(position):]
	} else if minted, ok := events.MintedAt(e.About()); ok && strings.HasSuffix(e.Subject(), "."+e.About()) {
		before = before[now.indexSince(minted):]
	}
	var last uint64
	switch m, err := s.lastMessageIn(ctx, before, e.Subject()); {
	case err == nil:
		last = m.Seq
	case !errors.Is(err, events.ErrNotFound):
		return 0, fmt.Errorf("search the sealed volumes: %w", err)
	}
	if last != position {
		return 0, events.ErrConflict
	}
	return 0, nil
}
