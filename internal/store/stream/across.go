package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// A subject here is one of the package events, without a volume. What is asked for by
// subject is found in whichever volume it is: nobody else needs to know of volumes.

// lastMessage fetches the last message on a subject; events.ErrNotFound when there is
// none. Sealed volumes do not change, so the answer is that of one moment.
func (s *Ledger) lastMessage(ctx context.Context, subject string) (events.Stored, error) {
	return s.lastMessageIn(ctx, s.volumes().list, subject)
}

// lastMessageIn is newest for some volumes.
func (s *Ledger) lastMessageIn(ctx context.Context, list []volume, subject string) (events.Stored, error) {
	for i := len(list) - 1; i >= 0; i-- {
		m, err := s.getFromVolume(ctx, list[i], jet.Request{LastBySubject: StoredSubject(list[i].number, subject)})
		if !errors.Is(err, events.ErrNotFound) {
			return m, err
		}
	}
	return events.Stored{}, events.ErrNotFound
}

// LastFrom fetches the last message on a subject, looking only into the volumes from that of
// a position on; events.ErrNotFound when there is none.
func (s *Ledger) LastFrom(ctx context.Context, position uint64, subject string) (events.Stored, error) {
	now := s.volumes()
	return s.lastMessageIn(ctx, now.list[now.indexOf(position):], subject)
}

// forEachMessage calls fn for the messages on a subject stored after a position, up to the
// last one there at the call, and returns that one's position. An error of fn is
// returned as it is.
func (s *Ledger) forEachMessage(ctx context.Context, subject string, after uint64, fn func(events.Stored) error) (last uint64, err error) {
	now, since := s.volumes(), s.jet.Writable()
	end, err := s.lastMessageIn(ctx, now.list, subject)
	if errors.Is(err, events.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", StoredSubject(now.active().number, subject), err)
	}
	if end.Seq <= after {
		return end.Seq, nil
	}
	return end.Seq, s.forEachInRange(ctx, now, tally{since: since}, subject, after+1, end.Seq, fn)
}

// forEachInRange calls fn for the messages on a subject from one position to another,
// which must be that of a message there. t was started before it was found.
func (s *Ledger) forEachInRange(ctx context.Context, now *volumes, t tally, subject string, from, end uint64, fn func(events.Stored) error) error {
	for _, v := range now.list[now.indexOf(from):] {
		for from <= end {
			var got uint64
			n := 0
			r := jet.Request{Seq: max(from, v.first), NextBySubject: StoredSubject(v.number, subject), Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
			pending, err := s.getBatchFromVolume(ctx, v, r, func(m events.Stored) error {
				got = m.Seq
				n++
				if m.Seq > end {
					return nil
				}
				return fn(m)
			})
			if err == nil {
				err = s.tallied(&t, now, v, n, pending, subject, from-1)
			}
			if err != nil {
				return err
			}
			if got == 0 {
				break // no more of it in this volume
			}
			from = got + 1
		}
	}
	if err := s.checkTally(ctx, &t, now, subject, from-1); err != nil {
		return err
	}
	if from <= end {
		if end <= s.Removed().UpTo() {
			return nil // while it was read
		}
		if err := s.jet.Unsure(t.since); err != nil {
			return err
		}
		return s.damageErrorf("position %d on %s cannot be read", end, StoredSubject(now.active().number, subject))
	}
	return nil
}

// nextMessage fetches the first message on a subject from a position on;
// events.ErrNotFound when there is none.
func (s *Ledger) nextMessage(ctx context.Context, now *volumes, subject string, from uint64) (events.Stored, error) {
	for _, v := range now.list[now.indexOf(from):] {
		m, err := s.getFromVolume(ctx, v, jet.Request{Seq: max(from, v.first), NextBySubject: StoredSubject(v.number, subject)})
		if !errors.Is(err, events.ErrNotFound) {
			return m, err
		}
	}
	return events.Stored{}, events.ErrNotFound
}

// clockSlack is by how much clocks may differ, of processes and from one day to
// the next, before an event could be in a volume that ended before its subject
// existed.
const clockSlack = 24 * time.Hour

// expectedSeqInActive is what the server is told to expect on an event's subject in the
// active volume, where position is expected over all: the same, or, where that is
// in a sealed volume, none. If it is not the last there, it is events.ErrConflict.
//
// What is on a subject named by an id cannot be older than that, if it tells its
// age: volumes that ended long before are not asked, or a run would cost more
// with every volume there is.
func (s *Ledger) expectedSeqInActive(ctx context.Context, now *volumes, e events.Event, position uint64) (uint64, error) {
	if position >= now.active().first {
		return position, nil
	}
	before := now.sealed()
	if position > 0 {
		before = before[now.indexOf(position):]
	} else if minted, ok := events.MintedAt(e.About()); ok && strings.HasSuffix(e.Subject(), "."+e.About()) {
		i := slices.IndexFunc(before, func(v volume) bool { return v.ended.After(minted.Add(-clockSlack)) })
		if i < 0 {
			i = len(before)
		}
		before = before[i:]
	}
	var last uint64
	switch m, err := s.lastMessageIn(ctx, before, e.Subject()); {
	case err == nil:
		last = m.Seq
	case !errors.Is(err, events.ErrNotFound):
		return 0, fmt.Errorf("look into the sealed volumes: %w", err)
	}
	if last != position {
		return 0, events.ErrConflict
	}
	return 0, nil
}
