package stream

import (
	"context"
	"errors"

	"daybook/events"
	"daybook/internal/store/jet"
)

// A NATS server skips a message that it cannot read, for example because one of its
// bits flipped, but still counts it. The functions in this file compare these counts
// with the messages, because readers by subject would not notice. Counts are ignored
// once a loss is accepted, because lost messages stay in the count. They are ignored at
// an outside server: another replica may answer each request, and it may lack the
// newest messages.

// isCountReliable reports whether a message that the server skips is damage.
func (s *Ledger) isCountReliable(stream string) bool {
	_, ledger := events.VolumeOf(stream)
	return ledger && !s.jet.Outside() && len(s.Lost()) == 0
}

// checkNewestReadable returns events.ErrNotFound if a subject has no message in a stream, and damage
// if its newest message cannot be read.
func (s *Ledger) checkNewestReadable(ctx context.Context, stream, subject string) error {
	if !s.isCountReliable(stream) {
		return events.ErrNotFound
	}
	since := s.jet.Writable()
	_, err := s.requestBatch(ctx, stream, jet.Request{MultiLast: []string{subject}, Batch: 1}, func(events.Stored) error { return nil })
	switch {
	case errors.Is(err, jet.ErrHidden):
		if n, _ := events.VolumeOf(stream); s.volumeByNumber(n).segment() != nil {
			return events.ErrNotFound // the server is deleting the stream; the caller reads the archive
		}
		if err := s.jet.CheckReliable(since); err != nil {
			return err
		}
		return s.damageErrorf("the newest message on %s cannot be read", subject)
	case err != nil:
		return err
	}
	return events.ErrNotFound
}

// tally compares the number of messages read from a subject of a stream with the counts
// of the server.
type tally struct {
	since  context.Context //nolint:containedctx // the result of Client.Writable before the reading
	volume events.Volume
	left   uint64 // number of messages after the newest piece, as counted by the server
}

// add counts a piece: the number of its messages, and how many the server counts after
// it. It returns how many messages the server skipped before it. A message that is
// appended during the reading can hide a skipped one until the next reading.
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

// checkTally returns damage if the server skipped messages after the newest piece of a
// tally. position is the last position of that piece.
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
			err = s.addToTally(t, now, v, got, pending, subject, position)
		}
		t.left = 0 // checked
		return err
	}
	return nil
}

// addToTally adds a piece to a tally and returns damage if the server skipped messages
// before it. position is the position before the piece. A volume without a stream is not
// checked: the server counts none of its messages.
func (s *Ledger) addToTally(t *tally, now *volumes, v volume, got int, pending uint64, subject string, position uint64) error {
	hidden := t.add(v.number, got, pending)
	relied := s.jet.CheckReliable(t.since) == nil && s.isCountReliable(v.stream())
	if hidden == 0 || v.segment() != nil || s.volumes() != now || !relied {
		return nil
	}
	return s.damageErrorf("%d messages on %s up to position %d cannot be read", hidden, StoredSubject(v.number, subject), position)
}
