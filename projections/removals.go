package projections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// RestsOn is what keeps things of the volumes up to a position alive, in pairs of a
// tenant and an execution's id.
type RestsOn struct {
	// Running have not ended, Later have something on record behind the position,
	// Makers left a heap first that is kept.
	Running, Later, Makers [][2]string
}

// RestsOn looks at executions requested up to a position.
func (s *Store) RestsOn(ctx context.Context, last uint64) (RestsOn, error) {
	var r RestsOn
	for _, part := range []struct {
		into  *[][2]string
		query string
	}{
		{&r.Running, `SELECT tenant, execution_id FROM executions WHERE requested_seq <= ?1 AND status = 'running'`},
		{&r.Later, `SELECT tenant, execution_id FROM executions WHERE requested_seq <= ?1 AND last_seq > ?1
			UNION SELECT tenant, execution_id FROM tag_edits WHERE seq > ?1 AND effective <= ?1 AND execution_id IS NOT NULL`},
		{&r.Makers, `SELECT tenant, execution_id FROM heaps WHERE seq <= ?1 AND collected_seq IS NULL`},
	} {
		rows, err := s.reader.QueryContext(ctx, part.query, last)
		if err != nil {
			return r, fmt.Errorf("find out what rests on position %d: %w", last, err)
		}
		for rows.Next() {
			var pair [2]string
			if err := rows.Scan(&pair[0], &pair[1]); err != nil {
				return r, errors.Join(err, rows.Close())
			}
			*part.into = append(*part.into, pair)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return r, fmt.Errorf("find out what rests on position %d: %w", last, err)
		}
	}
	return r, nil
}

// querier is a database, or a transaction of it.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// noExecution is the error of an execution that is not on record: an
// *events.RemovedError when its id was minted before the end of a volume that was
// removed, else events.ErrNotFound. Ids made of idempotency keys tell no time.
func noExecution(ctx context.Context, q querier, id string) error {
	minted, ok := events.MintedAt(id)
	if !ok {
		return notFound("execution", id)
	}
	gone := events.Removal{LedgerVolumeRemoved: &events.LedgerVolumeRemoved{}}
	var at int64
	err := q.QueryRowContext(ctx, `SELECT volume, last, seq, at, export FROM removals WHERE ended_at >= ? ORDER BY volume LIMIT 1`, minted.UnixMilli()).
		Scan(&gone.Volume, &gone.Last, &gone.Seq, &at, &gone.Export.SHA256)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return notFound("execution", id)
	case err != nil:
		return fmt.Errorf("find out whether execution %s was removed: %w", id, err)
	}
	gone.At = time.UnixMilli(at)
	return gone.Gone(fmt.Sprintf("execution %q is not on record; what was recorded at its time was", id))
}
