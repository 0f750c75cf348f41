package projections

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

const (
	// checkpointPause is the time between two checkpoints.
	checkpointPause = 500 * time.Millisecond
	// checkpointEvents is how many events are applied before a checkpoint is worth
	// its syncs.
	checkpointEvents = 128
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
	pause := time.NewTicker(checkpointPause)
	defer pause.Stop()
	for moved := s.Stats().Events; ; {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		now := s.Stats().Events
		if now-moved < checkpointEvents {
			continue
		}
		moved = now
		if err := s.moveLog(ctx, mover); err != nil && ctx.Err() == nil {
			// The next commit fails for the same reason and reports it.
			s.opts.Logger.DebugContext(ctx, "move the log of the projections to the file", "file", s.opts.Path, "err", err)
		}
	}
}

// moveLog moves what no query needs in the log. It waits for nothing, and no commit
// waits for it.
func (s *Store) moveLog(ctx context.Context, mover *sql.DB) error {
	s.moving.Lock()
	defer s.moving.Unlock()
	if _, err := mover.ExecContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)"); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
