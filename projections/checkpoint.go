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
	mover, err := sql.Open("sqlite3", dsn(s.opts.Path, "_busy_timeout=0&_cache_size=-64"))
	if err != nil { // a wrong name; the writer has the same
		return
	}
	defer mover.Close()
	mover.SetMaxOpenConns(1)
	tick := time.NewTicker(checkpointTick)
	defer tick.Stop()
	moved, perEvent := s.Stats().Events, float64(firstPages)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := s.Stats().Events
		since := float64(now - moved)
		if since*perEvent < checkpointPages {
			continue
		}
		pages, err := s.moveLog(ctx, mover)
		switch {
		case err == nil && pages < 0: // a commit does it at the moment
		case err == nil:
			moved, perEvent = now, max(float64(pages)/since, 1)
		case ctx.Err() == nil:
			// The next commit fails for the same reason and reports it.
			s.opts.Logger.DebugContext(ctx, "move the log of the projections to the file", "file", s.opts.Path, "err", err)
			moved = now
		}
	}
}

// moveLog moves what no query needs in the log, and returns how many pages the log
// had, -1 if another connection moves them. It waits for nothing, and no commit waits
// for it.
func (s *Store) moveLog(ctx context.Context, mover *sql.DB) (pages int, err error) {
	s.moving.Lock()
	defer s.moving.Unlock()
	var busy bool
	var done int
	if err := mover.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &done); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return pages, nil
}
