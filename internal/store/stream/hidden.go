package stream

import (
	"context"
	"errors"

	"daybook/events"
	"daybook/internal/store/jet"
)

// A NATS server passes over a message that it cannot read, for example because a bit of it
// has flipped, and still counts it. The counts show here what readers by subject would not
// notice. Once a loss is accepted nothing is counted: what is lost stays in the count. Nor
// is it at an outside server: each request may be answered by another copy of the stream,
// which may lack the newest messages.

// counts reports whether messages that the server passes over are damage.
func (s *Ledger) counts(stream string) bool {
	_, ledger := events.VolumeOf(stream)
	return ledger && !s.jet.Outside() && len(s.Lost()) == 0
}

// whole returns events.ErrNotFound for a subject that has no message in a stream, and
// damage for one whose newest message cannot be read.
func (s *Ledger) whole(ctx context.Context, stream, subject string) error {
	if !s.counts(stream) {
		return events.ErrNotFound
	}
	since := s.jet.Writable()
	_, err := s.requestBatch(ctx, stream, jet.Request{MultiLast: []string{subject}, Batch: 1}, func(events.Stored) error { return nil })
	switch {
	case errors.Is(err, jet.ErrHidden):
		if err := s.jet.Unsure(since); err != nil {
			return err
		}
		return s.damageErrorf("the newest message on %s cannot be read", subject)
	case err != nil:
		return err
	}
	return events.ErrNotFound
}

// tally counts the messages on a subject of a stream while they are read.
type tally struct {
	since  context.Context //nolint:containedctx // of Client.Writable, from before the reading
	volume events.Volume
	left   uint64 // behind the newest piece, as the server counts
}

// add takes a piece into account: how many messages it has, and how many the server counts
// behind it. It returns how many were passed over before it. Messages that are appended
// meanwhile may hide as many others until the next reading.
func (t *tally) add(v events.Volume, got int, pending uint64) (hidden uint64) {
	before := t.left
	if t.volume != v {
		t.volume, before = v, 0
	}
	t.left = pending
	if now := uint64(got) + pending; before > now {
		return before - now
	}
	return 0
}

// checkTally finds what was passed over behind the newest piece that a tally knows, whose
// last message is at a position.
func (s *Ledger) checkTally(ctx context.Context, t *tally, now *volumes, subject string, position uint64) error {
	if t.left == 0 {
		return nil
	}
	for _, v := range now.list {
		if v.number != t.volume {
			continue
		}
		got := 0
		pending, err := s.getBatchFromVolume(ctx, v, jet.Request{Seq: position + 1, NextBySubject: StoredSubject(v.number, subject), Batch: 1, MaxBytes: 1}, func(events.Stored) error {
			got++
			return nil
		})
		if err == nil {
			err = s.tallied(t, now, v, got, pending, subject, position)
		}
		t.left = 0 // it is known
		return err
	}
	return nil
}

// tallied adds a piece to a tally, and returns damage if messages were passed over before
// it. position is one before the piece. A volume that was removed meanwhile has less.
func (s *Ledger) tallied(t *tally, now *volumes, v volume, got int, pending uint64, subject string, position uint64) error {
	hidden := t.add(v.number, got, pending)
	relied := s.jet.Unsure(t.since) == nil && s.counts(v.stream())
	if hidden == 0 || v.removed != nil || s.volumes() != now || !relied {
		return nil
	}
	return s.damageErrorf("%d messages on %s up to position %d cannot be read", hidden, StoredSubject(v.number, subject), position)
}
