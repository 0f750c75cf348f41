package projections

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

const (
	// checkpointTick is how often the length of the log is estimated.
	checkpointTick = 50 * time.Millisecond
	// checkpointPages is how many pages in the log are worth the syncs of a checkpoint:
	// 4 MB. The writer itself moves them at eight times that.
	checkpointPages = 1000
	// firstPages is how many pages an event is taken to write before there was a
	// checkpoint.
	firstPages = 8
)

// checkpoint moves pages from the log to the file until ctx is done. It has a
// connection of its own: a commit that moves 32 MB by itself takes 50 to 100 ms, and
// all tenants wait for what it commits. Commits do so only when the log grows faster
// than this.
func (s *Store) checkpoint(ctx context.Context) {
	mover, err := sql.Open("sqlite3", s.dsn("_busy_timeout=0&_cache_size=-64"))
	if err != nil { // a wrong name; the writer has the same
		return
	}
	defer mover.Close()
	mover.SetMaxOpenConns(1)
	tick := time.NewTicker(checkpointTick)
	defer tick.Stop()
	start := s.Stats().Events
	log := logEstimate{emptied: start, moved: start, perEvent: firstPages}
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.Stats().Events
		if !log.due(now) {
			continue
		}
		pages, left, err := s.moveLog(ctx, mover)
		switch {
		case err == nil && pages < 0: // a commit does it at the moment
		case err == nil:
			log.learn(now, pages, left)
		case ctx.Err() == nil:
			// The next commit fails for the same reason and reports it.
			s.opts.Logger.DebugContext(ctx, "move the log of the projections to the file", "file", s.opts.Path, "err", err)
			log.moved = now
		}
	}
}

// logEstimate estimates how many pages the log has, from the events that were applied.
type logEstimate struct {
	emptied  uint64 // events after which the log had no page that was not in the file
	moved    uint64 // events whose pages are in the file
	perEvent float64
	pages    int // that the log had at the last checkpoint, 0 if none of them was left
}

// due reports whether the log is worth a checkpoint after now events.
func (l *logEstimate) due(now uint64) bool {
	return float64(now-l.moved)*l.perEvent >= checkpointPages
}

// learn takes the result of a checkpoint after now events: pages that the log had, and
// those that were left because a query needs them. These are due as before.
func (l *logEstimate) learn(now uint64, pages, left int) {
	since := now - l.emptied
	if pages < l.pages {
		// A commit emptied the log, and it is unknown after how many events.
		since = min(uint64(float64(pages)/l.perEvent), since)
	} else {
		l.perEvent = max(float64(pages)/float64(since), 1)
	}
	l.moved = now - min(uint64(float64(left)/l.perEvent), since)
	if l.emptied, l.pages = now-since, pages; left == 0 {
		l.emptied, l.pages = now, 0
	}
}

// moveLog moves what no query needs in the log, and returns how many pages the log
// had, -1 if another connection moves them, and how many of them are left. It waits for
// nothing, and no commit waits for it.
func (s *Store) moveLog(ctx context.Context, mover *sql.DB) (pages, left int, err error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	var busy bool
	var done int
	if err := mover.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &done); err != nil {
		return 0, 0, fmt.Errorf("checkpoint: %w", err)
	}
	return pages, pages - done, nil
}
