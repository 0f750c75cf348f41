package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"daybook/events"
	"daybook/internal/store/jet"
)

// ErrWrittenMeanwhile is returned by Open with Options.Accept if another process wrote
// to the ledger after the loss was determined. No event is lost by it. The caller
// determines the loss again.
var ErrWrittenMeanwhile = errors.New("the ledger was written to after its loss was determined")

// hasUnreadable reports whether a stream may hold messages at lost positions.
func (s *Ledger) hasUnreadable(stream string) bool {
	_, ledger := events.VolumeOf(stream)
	return ledger && slices.ContainsFunc(s.Lost(), func(r events.LostRange) bool { return r.Unreadable })
}

// isUnreadable reports whether the message at a position of a stream is recorded as lost,
// so that no reader receives it.
func (s *Ledger) isUnreadable(stream string, seq uint64) bool {
	_, ledger := events.VolumeOf(stream)
	return ledger && s.Lost().Unreadable(seq)
}

// lastReadable returns the last message on a subject that is not at a lost position, or
// events.ErrNotFound. It reads all messages on the subject, because the server finds
// only the last one.
func (s *Ledger) lastReadable(ctx context.Context, stream, subject string) (events.Stored, error) {
	var found events.Stored
	for from := uint64(1); ; {
		got := uint64(0)
		_, err := s.getBatch(ctx, stream, jet.Request{Seq: from, NextBySubject: subject, Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}, func(m events.Stored) error {
			got, found = m.Seq, m
			return nil
		})
		if err != nil {
			return events.Stored{}, err
		}
		if got == 0 {
			break
		}
		from = got + 1
	}
	if found.Seq == 0 {
		return events.Stored{}, events.ErrNotFound
	}
	return found, nil
}

// checkNotWritten returns ErrWrittenMeanwhile if a volume reaches the position at which the
// ledger is to continue after a loss.
func checkNotWritten(v volume, a *AcceptedLoss) error {
	if v.last >= a.First {
		return fmt.Errorf("stream %s ends at position %d, and the next volume was to begin at %d: %w", v.stream(), v.last, a.First, ErrWrittenMeanwhile)
	}
	return nil
}
