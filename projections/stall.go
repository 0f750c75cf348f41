package projections

import (
	"context"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"

	"daybook/events"
	"daybook/internal/exhausted"
)

// stallPause is how long Run waits before it tries to write its file again.
const stallPause = time.Second

// noRoom reports whether a file cannot be written now because the disk is full or the
// process has too many files open, as opposed to a fault that would occur again.
func noRoom(err error) bool {
	var se sqlite3.Error
	return exhausted.Is(err) || errors.As(err, &se) && (se.Code == sqlite3.ErrCantOpen || se.Code == sqlite3.ErrNomem || se.Code == sqlite3.ErrFull || se.Code == sqlite3.ErrIoErr || se.Code == sqlite3.ErrReadonly)
}

// stall publishes why nothing can be applied now, and logs it the first time.
func (s *Store) stall(ctx context.Context, err error) {
	s.mu.Lock()
	first := s.stalled == nil
	s.stalled = &events.UnwritableError{
		What:   "the read side",
		Reason: "the disk is full or failing (" + sqliteText(err) + "); free some space or repair the disk, and it continues without a restart",
		Passes: true,
	}
	s.wake()
	s.mu.Unlock()
	if first {
		s.opts.Logger.ErrorContext(ctx, "the read side cannot be written; it is tried again until it can", "file", s.opts.Path, "err", err)
	}
}

// sqliteText is SQLite's own words, without where they came from.
func sqliteText(err error) string {
	if se, ok := errors.AsType[sqlite3.Error](err); ok {
		return se.Error()
	}
	return err.Error()
}
