package projections

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"

	"daybook/events"
	"daybook/internal/resources/exhausted"
)

// stallPause is how long Run waits before it tries to write its file again.
const stallPause = time.Second

// noRoom reports whether a file cannot be written now because the disk is full or the
// process has too many files open, as opposed to a fault that would occur again.
func noRoom(err error) bool {
	var se sqlite3.Error
	return exhausted.Is(err) || errors.As(err, &se) && (se.Code == sqlite3.ErrCantOpen || se.Code == sqlite3.ErrNomem || se.Code == sqlite3.ErrFull || se.Code == sqlite3.ErrIoErr || se.Code == sqlite3.ErrReadonly)
}

// outOfSpace reports whether an error says that there is no space on the disk.
func outOfSpace(err error) bool {
	if se, ok := errors.AsType[sqlite3.Error](err); ok && se.Code == sqlite3.ErrFull {
		return true
	}
	r, ok := exhausted.In(err.Error())
	return ok && r.Disk
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

// sqliteText is the text of SQLite or the operating system, without the operation and the
// path of the file: clients read it.
func sqliteText(err error) string {
	if se, ok := errors.AsType[sqlite3.Error](err); ok {
		return se.Error()
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}
