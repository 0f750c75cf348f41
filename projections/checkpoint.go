package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

const (
	// checkpointInterval is how often the length of the log is estimated.
	checkpointInterval = 50 * time.Millisecond
	// minCheckpointPages is the number of pages in the log that make a checkpoint worth
	// its syncs: 4 MB. A commit moves the pages itself at eight times that.
	minCheckpointPages = 1000
	// initialPagesPerEvent is the assumed number of pages that an event writes, before
	// the first checkpoint.
	initialPagesPerEvent = 8
)

// checkpoint moves pages from the log to the file until ctx is done. It uses a
// connection of its own: a commit that moves 32 MB takes 50 to 100 ms, and all tenants
// wait for that commit. Commits move pages only if the log grows faster than checkpoint
// moves them. start is the number of applied events at which every page is in the file.
func (s *Store) checkpoint(ctx context.Context, start uint64) {
	mover, err := sql.Open("sqlite3", s.dsn("_busy_timeout=0&_cache_size=-64"))
	if err != nil { // an invalid name; the writer has the same one
		return
	}
	defer mover.Close()
	mover.SetMaxOpenConns(1)
	tick := time.NewTicker(checkpointInterval)
	defer tick.Stop()
	log := logEstimate{emptiedAt: start, movedAt: start, perEvent: initialPagesPerEvent}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.appliedEvents()
		if !log.isDue(now) {
			continue
		}
		pages, left, err := s.moveLog(ctx, mover)
		switch {
		case err == nil && pages < 0: // a commit moves the pages at the moment
		case err == nil:
			log.learn(now, pages, left)
		case ctx.Err() == nil:
			// The next commit fails for the same reason and reports it.
			s.opts.Logger.DebugContext(ctx, "move the log of the projections to the file", "file", s.opts.Path, "err", err)
			log.movedAt = now
		}
	}
}

// logEstimate estimates the number of pages in the log from the number of applied
// events.
type logEstimate struct {
	emptiedAt uint64 // number of events at which every page of the log was in the file
	movedAt   uint64 // number of events whose pages are in the file
	perEvent  float64
	pages     int // in the log at the last checkpoint; 0 if no page was left
}

// isDue reports whether the log is worth a checkpoint after now events.
func (l *logEstimate) isDue(now uint64) bool {
	return float64(now-l.movedAt)*l.perEvent >= minCheckpointPages
}

// learn adds the result of a checkpoint after now events: the pages that the log had,
// and those that were left because a query needs them. The left pages stay due.
func (l *logEstimate) learn(now uint64, pages, left int) {
	since := now - l.emptiedAt
	if pages < l.pages {
		// A commit emptied the log, and it is unknown after how many events.
		since = min(uint64(float64(pages)/l.perEvent), since)
	} else {
		l.perEvent = max(float64(pages)/float64(since), 1)
	}
	l.movedAt = now - min(uint64(float64(left)/l.perEvent), since)
	if l.emptiedAt, l.pages = now-since, pages; left == 0 {
		l.emptiedAt, l.pages = now, 0
	}
}

// moveLog moves the pages of the log that no query needs. It returns the number of
// pages that the log had, or -1 if another connection is moving them, and the number of
// pages that are left. It waits for no lock, and no commit waits for it.
func (s *Store) moveLog(ctx context.Context, mover *sql.DB) (pages, left int, err error) {
	s.checkpointMu.Lock()
	defer s.checkpointMu.Unlock()
	var busy bool
	var done int
	if err := mover.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &done); err != nil {
		return 0, 0, fmt.Errorf("checkpoint: %w", err)
	}
	return pages, pages - done, nil
}

// scrubTimeoutMillis is how long SQLite waits for readers of the log before scrub gives
// up for now, in milliseconds.
const scrubTimeoutMillis = 2000

// scrub empties the write-ahead log, which holds the previous content of the file:
// SQLite overwrites erased rows in the file (secure_delete), but not in the log. The
// log cannot be emptied while a query reads it. SQLite waits up to scrubTimeoutMillis
// for the query. After that, the next commit, Close or the next Open tries again.
func (s *Store) scrub(ctx context.Context) error {
	if !s.needsScrub {
		s.needsScrub = true
		s.opts.Logger.DebugContext(ctx, "remove erased content from the log", "file", s.opts.Path)
	}
	s.stopCopy("content was erased")
	s.checkpointMu.Lock()
	busy, err := truncateLog(ctx, s.writer)
	s.checkpointMu.Unlock()
	if err != nil {
		return fmt.Errorf("remove erased content from the log: %w", err)
	}
	if s.needsScrub = busy; busy {
		s.opts.Logger.WarnContext(ctx, "erased content remains in the log of the projections while queries read it; retrying with the next event", "file", s.opts.Path+"-wal")
	}
	return nil
}

// TruncateLog moves the content of the write-ahead log to the file and truncates the
// log, which frees disk space. It does nothing if a query reads the log. It stops a copy that is
// written. It is safe for concurrent use.
func (s *Store) TruncateLog(ctx context.Context) error {
	s.stopCopy("disk space runs out")
	s.checkpointMu.Lock()
	defer s.checkpointMu.Unlock()
	if _, err := truncateLog(ctx, s.writer); err != nil {
		return fmt.Errorf("truncate the log of %s: %w", s.opts.Path, err)
	}
	return nil
}

// truncateLog moves the content of the log to the file. It reports whether a reader of
// the log prevented that.
func truncateLog(ctx context.Context, writer *sql.DB) (busy bool, err error) {
	if _, err := writer.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", scrubTimeoutMillis)); err != nil {
		return false, err
	}
	var log, moved int
	err = writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved)
	_, reset := writer.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", busyTimeoutMillis))
	return busy, errors.Join(err, reset)
}
