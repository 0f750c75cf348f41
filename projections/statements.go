package projections

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
)

// statements are the prepared statements of the applier.
type statements struct {
	position, anomaly, unknown *statement
	removalStatements
	insertExecution, lastID, state, start, touch, handBack, end         *statement
	chunk, extent, truncate, lastChunk, deleteChunk                     *statement
	heap, remake, collect, lose                                         *statement
	migrate, migrateAgain                                               *statement
	edit, inForce, force                                                *statement
	tag, untag, heapKnown, isTagged                                     *statement
	entry, lastEntry                                                    *statement
	seal, sealed, shred, blank, blankOutput                             *statement
	blankIntent, blankWorkspace, blankPrompts, blankAnswers, blankTitle *statement
	isShredded, sealedTags, blankTags, blankEdits                       *statement
	use                                                                 *statement
	logicalOpen, logicalUse, logicalTurn                                *statement
	logicalExpand, logicalBreak, logicalReset                           *statement
	logicalHead, logicalSet, addEntry, clearEntries                     *statement
	sessionReset, sessionRef, nameIntent                                *statement
	sessionStatements
	agentStatements
	contextStatements
	callStatements
	artifactStatements
	replayStatements

	conn driver.ConnPrepareContext // the connection that they belong to
	all  []*statement
}

// agentStatements are the statements about ACP sessions.
type agentStatements struct {
	agentID, agentCreate, agentTouch, agentAttach, agentConfigure *statement
	agentPrompt, agentTitle, agentAnswer, agentClear              *statement
	agentClose, agentDelete                                       *statement
}

// statementDef is a statement to prepare.
type statementDef struct {
	stmt  **statement
	query string
}

// prepare prepares the statements of a connection.
func prepare(ctx context.Context, conn driver.ConnPrepareContext) (*statements, error) {
	s := &statements{conn: conn}
	for _, p := range append(slices.Concat(s.contextStatements.queries(), s.callStatements.queries(), s.artifactStatements.queries(), s.replayStatements.queries(), s.removalStatements.queries(), s.sessionStatements.queries()), []statementDef{
		{&s.position, `UPDATE position SET applied = ?`},
		{&s.anomaly, `INSERT OR REPLACE INTO anomalies VALUES (?, ?, ?, ?, ?)`},
		{&s.unknown, `INSERT OR REPLACE INTO unknown_events VALUES (?, ?, ?, ?, ?, ?)`},
		{&s.insertExecution, insertExecution},
		{&s.lastID, `SELECT coalesce(max(id), 0) FROM executions`},
		{&s.state, `SELECT id, status, last_seq, out_line, out_byte, out_open, out_attempt, tags, session_id, logical_id, coalesce(turn, 0), warnings FROM executions WHERE tenant = ? AND execution_id = ?`},
		{&s.start, `UPDATE executions SET last_seq = ?2, started_at = coalesce(started_at, ?3), queued = 0, attempt = ?4, engine_id = ?5, input_heap = ?6, warnings = ?7, out_line = ?8, out_byte = ?9, migrated_from = ?10, out_open = 0, out_attempt = ?4 WHERE id = ?1`},
		{&s.touch, `UPDATE executions SET last_seq = ?2 WHERE id = ?1`},
		{&s.handBack, `UPDATE executions SET last_seq = ?2, queued = 1 WHERE id = ?1`},
		{&s.end, `UPDATE executions SET status = ?2, last_seq = ?3, completed_at = ?4, output_heap = ?5, result = ?6, result_truncated = ?7, error = ?8, reason = ?9, usage = ?10, warnings = ?11,
			cancelled_by = ?12, out_truncated = max(out_truncated, ?13), out_sha256 = ?14, written_lines = ?15, written_bytes = ?16, pristine = ?17, nondeterministic = ?18 WHERE id = ?1`},
		{&s.chunk, `INSERT INTO output VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&s.extent, `UPDATE executions SET last_seq = ?2, out_line = ?3, out_byte = ?4, out_open = ?5 WHERE id = ?1`},
		{&s.truncate, `UPDATE executions SET last_seq = ?2, out_truncated = 1 WHERE id = ?1`},
		{&s.lastChunk, `SELECT seq, first_byte, first_line, text, pieces FROM output WHERE execution = ? ORDER BY first_byte DESC, seq DESC LIMIT 1`},
		{&s.deleteChunk, `DELETE FROM output WHERE seq = ?`},
		{&s.heap, `INSERT OR IGNORE INTO heaps (tenant, heap, seq, size, engine_id, parent, execution_id, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.migrate, `INSERT OR REPLACE INTO migrations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.migrateAgain, `UPDATE heaps SET seq = ?3, size = ?4, engine_id = ?5, parent = ?6, execution_id = ?7, created_at = ?8, collected_seq = NULL, collected_at = NULL, lost_seq = NULL
			WHERE tenant = ?1 AND heap = ?2 AND (collected_seq IS NOT NULL OR lost_seq IS NOT NULL)`},
		{&s.remake, `UPDATE heaps SET collected_seq = NULL, collected_at = NULL, lost_seq = NULL WHERE tenant = ? AND heap = ? AND (collected_seq IS NOT NULL OR lost_seq IS NOT NULL)`},
		{&s.collect, `UPDATE heaps SET collected_seq = ?3, collected_at = ?4 WHERE tenant = ?1 AND heap = ?2 AND collected_seq IS NULL RETURNING iif(lost_seq IS NULL, size, 0)`},
		{&s.lose, `UPDATE heaps SET lost_seq = ?3 WHERE tenant = ?1 AND heap = ?2 AND collected_seq IS NULL AND lost_seq IS NULL RETURNING size`},
		{&s.edit, `INSERT OR IGNORE INTO tag_edits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.heapKnown, `SELECT count(*) FROM heaps WHERE tenant = ? AND heap = ?`},
		{&s.isTagged, `SELECT count(*) FROM tagged WHERE tenant = ? AND heap = ?`},
		{&s.inForce, `SELECT effective, tags FROM tagged WHERE tenant = ? AND heap = ?`},
		{&s.force, `INSERT OR REPLACE INTO tagged VALUES (?, ?, ?, ?, ?)`},
		{&s.tag, `INSERT OR REPLACE INTO heap_tags SELECT unhex(value), ?1, ?2 FROM json_each(?3)`},
		{&s.untag, `DELETE FROM heap_tags WHERE heap = ?1 AND pair IN (SELECT unhex(value) FROM json_each(?2))`},
		{&s.entry, `INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.lastEntry, `SELECT coalesce(max(idx), -1) FROM entries WHERE tenant = ? AND session_id = ?`},
		{&s.sessionReset, `INSERT OR IGNORE INTO session_resets VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.sessionRef, `INSERT OR IGNORE INTO session_refs VALUES (?, ?, ?)`},
		{&s.nameIntent, `INSERT OR IGNORE INTO named_intents VALUES (?, ?, ?)`},
		{&s.agentID, `SELECT id FROM agent_sessions WHERE tenant = ? AND session_id = ?`},
		{&s.agentCreate, `INSERT OR IGNORE INTO agent_sessions (tenant, session_id, created_seq, updated_seq, updated_at, cwd, directories, config, parent, parent_seq, key_id)
			VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)`},
		{&s.agentTouch, `UPDATE agent_sessions SET updated_seq = ?2, updated_at = ?3 WHERE id = ?1`},
		{&s.agentAttach, `UPDATE agent_sessions SET cwd = ?2, directories = ?3, key_id = ?4, closed = 0 WHERE id = ?1`},
		{&s.agentConfigure, `UPDATE agent_sessions SET config = ?2 WHERE id = ?1`},
		{&s.agentPrompt, `INSERT INTO agent_prompts (seq, session, prompt_id, at, blocks, title, execution_id, key_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.agentTitle, `UPDATE agent_sessions SET title = coalesce(title, ?2) WHERE id = ?1`},
		{&s.agentAnswer, `UPDATE agent_prompts SET answer = coalesce(answer, ?3), answer_key_id = iif(answer IS NULL, ?4, answer_key_id) WHERE session = ?1 AND prompt_id = ?2`},
		{&s.agentClear, `UPDATE agent_prompts SET cleared_seq = ?3 WHERE session = ?1 AND prompt_id = ?2`},
		{&s.agentClose, `UPDATE agent_sessions SET closed = 1 WHERE id = ?1`},
		{&s.agentDelete, `UPDATE agent_sessions SET deleted_seq = coalesce(deleted_seq, ?2) WHERE id = ?1`},
		{&s.logicalOpen, `INSERT OR IGNORE INTO logical_sessions (tenant, session_id, kind, intent, intent_sha256, actor, parent, opened_seq, opened_at, used_at, head, key_id, used_seq)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?10, ?11,
			iif(?3 = 'acp', (SELECT max(?8, updated_seq) FROM agent_sessions WHERE tenant = ?1 AND session_id = ?2 AND deleted_seq IS NULL), ?8))`},
		{&s.logicalUse, `UPDATE logical_sessions SET used_at = max(used_at, ?3) WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalTurn, `UPDATE logical_sessions SET turns = ?3, last_execution = ?4 WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalExpand, `UPDATE logical_sessions SET revision = ?3, primary_source = ?4, catalog_sha256 = ?5 WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalBreak, `UPDATE logical_sessions SET broken = ?3 WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalReset, `UPDATE logical_sessions SET broken = ?3, head = ?4, head_turn = ?5, reset_turn = ?5 WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalSet, `UPDATE logical_sessions SET head = ?3, head_turn = ?4, reset_turn = ?4 WHERE tenant = ?1 AND session_id = ?2`},
		{&s.logicalHead, `UPDATE logical_sessions SET head = ?4, head_turn = ?3, used_at = max(used_at, ?5) WHERE tenant = ?1 AND session_id = ?2 AND head_turn < ?3 AND reset_turn < ?3`},
		{&s.addEntry, `INSERT INTO taught SELECT ?1, ?2, coalesce(max(n), 0) + 1, ?3, ?4, ?5 FROM taught WHERE tenant = ?1 AND session_id = ?2`},
		{&s.clearEntries, `DELETE FROM taught WHERE tenant = ? AND session_id = ?`},
		{&s.seal, `INSERT OR IGNORE INTO sealed_runs VALUES (?, ?, ?, ?)`},
		{&s.sealed, `SELECT count(*) FROM sealed_runs WHERE execution = ?`},
		{&s.shred, `INSERT OR IGNORE INTO shreds VALUES (?, ?, ?, ?, ?)`},
		{&s.blank, `UPDATE executions SET source = ?3, file_name = iif((SELECT hides_name FROM sealed_runs WHERE execution = executions.id), '', file_name), tags = NULL, result = NULL, result_truncated = 0, error = NULL WHERE id IN (SELECT execution FROM sealed_runs WHERE tenant = ?1 AND key_id = ?2)`},
		{&s.blankOutput, `DELETE FROM output WHERE execution IN (SELECT execution FROM sealed_runs WHERE tenant = ?1 AND key_id = ?2)`},
		{&s.isShredded, `SELECT count(*) FROM shreds WHERE tenant = ? AND key_id = ?`},
		{&s.sealedTags, `SELECT heap, tags FROM tagged WHERE tenant = ? AND key_id = ?`},
		{&s.blankTags, `UPDATE tagged SET tags = '{}' WHERE tenant = ? AND key_id = ?`},
		{&s.blankEdits, `UPDATE tag_edits SET tags = '{}' WHERE tenant = ? AND key_id = ?`},
		{&s.blankIntent, `UPDATE logical_sessions SET intent = NULL WHERE tenant = ?1 AND key_id = ?2`},
		{&s.blankWorkspace, `UPDATE agent_sessions SET cwd = '', directories = '[]' WHERE tenant = ?1 AND key_id = ?2`},
		{&s.blankPrompts, `UPDATE agent_prompts SET blocks = ?2, title = NULL WHERE key_id = ?1`},
		{&s.blankAnswers, `UPDATE agent_prompts SET answer = ?2 WHERE answer_key_id = ?1`},
		// The title is that of the first prompt that has one.
		{&s.blankTitle, `UPDATE agent_sessions SET title = (SELECT p.title FROM agent_prompts p WHERE p.session = agent_sessions.id AND p.title IS NOT NULL ORDER BY p.seq LIMIT 1)
			WHERE id IN (SELECT session FROM agent_prompts WHERE key_id = ?1)`},
		{&s.use, `INSERT INTO tenant_usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE SET runs = runs + ?2, output_bytes = output_bytes + ?3, heap_bytes = heap_bytes + ?4,
			sessions = sessions + ?5, contexts = contexts + ?6, tagged_heaps = tagged_heaps + ?7, short_names = short_names + ?8`},
	}...) {
		stmt, err := prepareStatement(ctx, conn, p.query)
		if err != nil {
			return s, fmt.Errorf("prepare %q: %w", p.query, err)
		}
		*p.stmt = stmt
		s.all = append(s.all, stmt)
	}
	return s, nil
}

func (s *statements) close() error {
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.stmt.Close())
	}
	return errors.Join(errs...)
}
