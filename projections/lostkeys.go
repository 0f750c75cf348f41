package projections

import (
	"context"
	"database/sql"
	"fmt"

	"daybook/events"
)

// LostKeysError is returned if a rebuild would omit content that was not shredded,
// because its content keys are missing.
type LostKeysError struct {
	// Keys is the number of missing keys. Runs is the number of runs encrypted under
	// them.
	Keys, Runs int
}

// Error returns the numbers and the ways to continue.
func (e *LostKeysError) Error() string {
	return fmt.Sprintf("the content of %d runs is encrypted under %d keys that do not exist here, and was not shredded: restore the keys or set --key-dir; "+
		"if they are permanently lost, daybook rebuild --without-keys continues without that content", e.Runs, e.Keys)
}

// FindLostKeys counts the missing content keys, and the runs under them. A key is missing
// if applied content is encrypted under it, it was not shredded, and it is not among keys.
// FindLostKeys returns nil if no key is missing.
func (s *Store) FindLostKeys(ctx context.Context, keys events.Keys) (*LostKeysError, error) {
	lost, err := findLostKeys(ctx, s.reader, keys)
	if err != nil {
		return nil, fmt.Errorf("look for lost keys: %w", err)
	}
	return lost, nil
}

func findLostKeys(ctx context.Context, db *sql.DB, keys events.Keys) (*LostKeysError, error) {
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
			if _, isPresent := keys.ContentKey(key); isPresent {
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
