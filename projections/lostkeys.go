package projections

import (
	"context"
	"database/sql"
	"fmt"

	"daybook/events"
)

// LostKeysError tells that a fold would leave out content that is not erased,
// because its keys are not at hand.
type LostKeysError struct {
	// Keys counts the keys, Runs the runs encrypted under them.
	Keys, Runs int
}

// Error tells what to do.
func (e *LostKeysError) Error() string {
	return fmt.Sprintf("the content of %d runs is encrypted under %d keys that are not here, and was not shredded: bring back the keys, or say where they are with --key-dir; "+
		"if they are lost for good, daybook rebuild --without-keys goes on without that content", e.Runs, e.Keys)
}

// LostKeys looks for content that was applied, is not erased, and whose keys are
// not among those given; nil when there is none.
func (s *Store) LostKeys(ctx context.Context, keys events.Keys) (*LostKeysError, error) {
	lost, err := lostKeys(ctx, s.reader, keys)
	if err != nil {
		return nil, fmt.Errorf("look for lost keys: %w", err)
	}
	return lost, nil
}

func lostKeys(ctx context.Context, db *sql.DB, keys events.Keys) (*LostKeysError, error) {
	rows, err := db.QueryContext(ctx, `SELECT r.key_id, count(*) FROM sealed_runs r
		WHERE NOT EXISTS (SELECT 1 FROM shreds s WHERE s.tenant = r.tenant AND s.key_id = r.key_id) GROUP BY r.tenant, r.key_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lost LostKeysError
	for rows.Next() {
		var key string
		var runs int
		if err := rows.Scan(&key, &runs); err != nil {
			return nil, err
		}
		if keys != nil {
			if _, here := keys.SealKey(key); here {
				continue
			}
		}
		lost.Keys++
		lost.Runs += runs
	}
	if err := rows.Err(); err != nil || lost.Keys == 0 {
		return nil, err
	}
	return &lost, nil
}
