package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// Dependents lists the executions that depend on events of the volumes up to a position,
// as pairs of tenant and execution id.
type Dependents struct {
	// Running holds the executions that have not ended, LaterEvents those with an event
	// after the position, and Producers those that were the first to leave a heap that
	// is kept.
	Running, LaterEvents, Producers [][2]string
	// MigratedHeaps holds the tagged heaps that a migration made and that are kept, as pairs
	// of tenant and heap.
	MigratedHeaps [][2]string
}

// Dependents returns the dependents among the executions requested up to a position.
func (s *Store) Dependents(ctx context.Context, last uint64) (Dependents, error) {
	var r Dependents
	for _, part := range []struct {
		into  *[][2]string
		query string
	}{
		{&r.Running, `SELECT tenant, execution_id FROM executions WHERE requested_seq <= ?1 AND status = 'running'`},
		{&r.LaterEvents, `SELECT tenant, execution_id FROM executions WHERE requested_seq <= ?1 AND last_seq > ?1
			UNION SELECT tenant, execution_id FROM tag_edits WHERE seq > ?1 AND effective <= ?1 AND execution_id IS NOT NULL`},
		{&r.Producers, `SELECT tenant, execution_id FROM heaps WHERE seq <= ?1 AND collected_seq IS NULL`},
		{&r.MigratedHeaps, `SELECT DISTINCT m.tenant, m.new_heap FROM migrations m JOIN heaps h ON h.tenant = m.tenant AND h.heap = m.new_heap
			WHERE h.collected_seq IS NULL AND EXISTS (SELECT 1 FROM tag_edits t WHERE t.tenant = m.tenant AND t.heap = m.new_heap AND t.seq <= ?1)`},
	} {
		rows, err := s.reader.QueryContext(ctx, part.query, last)
		if err != nil {
			return r, fmt.Errorf("find the dependents of position %d: %w", last, err)
		}
		for rows.Next() {
			var pair [2]string
			if err := rows.Scan(&pair[0], &pair[1]); err != nil {
				return r, errors.Join(err, rows.Close())
			}
			*part.into = append(*part.into, pair)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return r, fmt.Errorf("find the dependents of position %d: %w", last, err)
		}
	}
	return r, nil
}

// querier is a database or one of its transactions.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// executionNotFound returns the error for an execution without a row: an
// *events.RemovedError if its id was created before the end of a removed volume,
// otherwise events.ErrNotFound. An id derived from an idempotency key holds no time.
func executionNotFound(ctx context.Context, q querier, id string) error {
	minted, ok := events.MintedAt(id)
	if !ok {
		return notFound("execution", id)
	}
	removal := events.Removal{LedgerVolumeRemoved: &events.LedgerVolumeRemoved{}}
	var at int64
	err := q.QueryRowContext(ctx, `SELECT volume, last, seq, at, export FROM removals WHERE ended_at >= ? ORDER BY volume LIMIT 1`, minted.UnixMilli()).
		Scan(&removal.Volume, &removal.Last, &removal.Seq, &at, &removal.Export.SHA256)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return notFound("execution", id)
	case err != nil:
		return fmt.Errorf("check whether execution %s was removed: %w", id, err)
	}
	removal.At = time.UnixMilli(at)
	return removal.Gone(fmt.Sprintf("execution %q does not exist; the events recorded at its time were", id))
}
