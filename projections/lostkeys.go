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
	// Keys is the number of missing keys. Runs is the number of runs encrypted under them,
	// and Others that of prompts, answers, directories, intents, tags of clients and
	// conversation contexts.
	Keys, Runs, Others int
}

// Error returns the numbers and the ways to continue.
func (e *LostKeysError) Error() string {
	what := fmt.Sprintf("%d runs", e.Runs)
	if e.Others > 0 {
		what += fmt.Sprintf(" and of %d prompts, intents, tags and contexts", e.Others)
	}
	return fmt.Sprintf("the content of %s is encrypted under %d keys that do not exist here, and was not shredded: restore the keys or set --key-dir; "+
		"if they are permanently lost, daybook rebuild --without-keys continues without that content", what, e.Keys)
}

// FindLostKeys counts the missing content keys, and what is encrypted under them. A key is missing
// if applied content is encrypted under it, it was not shredded, and it is not among keys.
// FindLostKeys returns nil if no key is missing.
func (s *Store) FindLostKeys(ctx context.Context, keys events.Keys) (*LostKeysError, error) {
	lost, err := findLostKeys(ctx, s.reader, keys)
	if err != nil {
		return nil, fmt.Errorf("look for lost keys: %w", err)
	}
	return lost, nil
}

// encryptedContent selects the key of each run, and of all else that is encrypted. The tags of
// a run are counted with it.
const encryptedContent = `SELECT tenant, key_id, 1 AS runs, 0 AS others FROM sealed_runs
	UNION ALL SELECT tenant, key_id, 0, execution_id IS NULL FROM tag_edits WHERE key_id IS NOT NULL
	UNION ALL SELECT tenant, key_id, 0, 1 FROM logical_sessions WHERE key_id IS NOT NULL
	UNION ALL SELECT tenant, key_id, 0, 1 FROM agent_sessions WHERE key_id IS NOT NULL
	UNION ALL SELECT s.tenant, p.key_id, 0, 1 FROM agent_prompts p JOIN agent_sessions s ON s.id = p.session WHERE p.key_id IS NOT NULL
	UNION ALL SELECT s.tenant, p.answer_key_id, 0, 1 FROM agent_prompts p JOIN agent_sessions s ON s.id = p.session WHERE p.answer_key_id IS NOT NULL
	UNION ALL SELECT tenant, key_id, 0, 1 FROM (
		SELECT c.tenant, c.context_key, k.value AS key_id FROM contexts c, json_each(c.state, '$.notes_sealed') k
		UNION SELECT tenant, context_key, json_extract(state, '$.values_sealed') FROM contexts WHERE json_extract(state, '$.values_sealed') IS NOT NULL)`

func findLostKeys(ctx context.Context, db *sql.DB, keys events.Keys) (*LostKeysError, error) {
	rows, err := db.QueryContext(ctx, `SELECT r.key_id, sum(r.runs), sum(r.others) FROM (`+encryptedContent+`) r
		WHERE NOT EXISTS (SELECT 1 FROM shreds s WHERE s.tenant = r.tenant AND s.key_id = r.key_id) GROUP BY r.tenant, r.key_id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var lost LostKeysError
	for rows.Next() {
		var key string
		var runs, others int
		if err := rows.Scan(&key, &runs, &others); err != nil {
			return nil, err
		}
		if keys != nil {
			if _, isPresent := keys.ContentKey(key); isPresent {
				continue
			}
		}
		lost.Keys++
		lost.Runs += runs
		lost.Others += others
	}
	if err := rows.Err(); err != nil || lost.Keys == 0 {
		return nil, err
	}
	return &lost, nil
}
