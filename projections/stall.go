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

// stallRetryInterval is how long Run waits before it tries to write its file again.
const stallRetryInterval = time.Second

// isUnwritable reports whether a file cannot be written, or a copy not be deleted, now because the
// disk is full or failing or the process has too many files open, as opposed to a fault that would occur again.
func isUnwritable(err error) bool {
	var se sqlite3.Error
	return exhausted.Is(err) || errors.Is(err, errCopiesStay) || errors.As(err, &se) && (se.Code == sqlite3.ErrCantOpen || se.Code == sqlite3.ErrNomem || se.Code == sqlite3.ErrFull || se.Code == sqlite3.ErrIoErr || se.Code == sqlite3.ErrReadonly)
}

// isOutOfSpace reports whether an error reports a full disk.
func isOutOfSpace(err error) bool {
	if se, ok := errors.AsType[sqlite3.Error](err); ok && se.Code == sqlite3.ErrFull {
		return true
	}
	r, ok := exhausted.In(err.Error())
	return ok && r.Disk
}

// stall publishes why no event can be applied now, and logs it the first time.
func (s *Store) stall(ctx context.Context, err error) {
	s.mu.Lock()
	first := s.stallError == nil
	s.stallError = &events.UnwritableError{
		What:   "the read side",
		Reason: "the disk is full or failing (" + sqliteText(err) + "); free disk space or repair the disk, and it resumes automatically",
		Passes: true,
	}
	s.wake()
	s.mu.Unlock()
	if first {
		s.opts.Logger.ErrorContext(ctx, "cannot write the read side; retrying until it can be written", "file", s.opts.Path, "err", err)
	}
}

// sqliteText returns the text of SQLite or the operating system without the operation
// and the path of the file, because clients read it.
func sqliteText(err error) string {
	if se, ok := errors.AsType[sqlite3.Error](err); ok {
		return se.Error()
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno.Error()
	}
	return err.Error()
}
