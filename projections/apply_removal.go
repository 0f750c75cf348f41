package projections

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"daybook/events"
)

// removalStatements are the statements about removed volumes.
type removalStatements struct {
	skip, removedUpTo, removal                              *statement
	keepNothing, keep, dropOutput, dropCalls, dropArtifacts *statement
	dropReplays                                             *statement
	dropSealed, dropContextRuns, dropEntries                *statement
	dropSessions, dropRuns, dropEdits, dropNotes            *statement
	dropUnknown, reassignedHeaps, dropHeaps, putHeap, tags  *statement
	dropTags, putUsage, recount, dropUsage                  *statement
	dropMigrations, recountNamed, recountLogical            *statement
}

// droppedExecutions is a query for the ids of the executions that a removal drops.
const droppedExecutions = `SELECT id FROM executions WHERE requested_seq <= ?1 AND requested_seq NOT IN (SELECT seq FROM kept_events)`

// lastReset is the position of the last reset of a session n, or 0.
const lastReset = `coalesce((SELECT max(r.seq) FROM session_resets r WHERE r.tenant = n.tenant AND r.session_id = n.session_id), 0)`

func (s *removalStatements) queries() []statementDef {
	return []statementDef{
		{&s.skip, `UPDATE position SET removed = max(removed, ?)`},
		{&s.removedUpTo, `SELECT removed FROM position`},
		{&s.removal, `INSERT OR REPLACE INTO removals VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&s.keepNothing, `DELETE FROM kept_events`},
		{&s.keep, `INSERT INTO kept_events VALUES (?)`},
		{&s.dropOutput, `DELETE FROM output WHERE execution IN (` + droppedExecutions + `)`},
		{&s.dropCalls, `DELETE FROM calls WHERE execution IN (` + droppedExecutions + `)`},
		{&s.dropArtifacts, `DELETE FROM artifacts WHERE execution IN (` + droppedExecutions + `)`},
		{&s.dropReplays, `DELETE FROM replays WHERE execution IN (` + droppedExecutions + `)`},
		{&s.dropSealed, `DELETE FROM sealed_runs WHERE execution IN (` + droppedExecutions + `)`},
		{&s.dropContextRuns, `DELETE FROM context_runs WHERE EXISTS (SELECT 1 FROM executions x WHERE x.tenant = context_runs.tenant AND x.execution_id = context_runs.execution_id AND x.id IN (` + droppedExecutions + `))`},
		{&s.dropEntries, `DELETE FROM entries WHERE EXISTS (SELECT 1 FROM executions x WHERE x.tenant = entries.tenant AND x.execution_id = entries.execution_id AND x.id IN (` + droppedExecutions + `))`},
		{&s.dropSessions, `DELETE FROM sessions WHERE NOT EXISTS (SELECT 1 FROM executions x WHERE x.tenant = sessions.tenant AND x.session_id = sessions.session_id)
			AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.tenant = sessions.tenant AND e.session_id = sessions.session_id)`},
		{&s.recountNamed, `UPDATE sessions AS n SET
			used_seq = max(coalesce((SELECT max(x.requested_seq) FROM executions x WHERE x.tenant = n.tenant AND x.session_id = n.session_id), 0), ` + lastReset + `),
			runs = (SELECT count(*) FROM executions x WHERE x.tenant = n.tenant AND x.session_id = n.session_id),
			head = coalesce(
				(SELECT e.output_heap FROM entries e WHERE e.tenant = n.tenant AND e.session_id = n.session_id AND e.output_heap IS NOT NULL AND e.idx >= coalesce(
					(SELECT r.turn FROM session_resets r WHERE r.tenant = n.tenant AND r.session_id = n.session_id ORDER BY r.seq DESC LIMIT 1), 0) ORDER BY e.idx DESC LIMIT 1),
				(SELECT r.heap FROM session_resets r WHERE r.tenant = n.tenant AND r.session_id = n.session_id ORDER BY r.seq DESC LIMIT 1))`},
		{&s.recountLogical, `UPDATE logical_sessions AS n SET
			used_seq = iif(used_seq IS NULL, NULL, max(opened_seq, ` + lastReset + `,
				coalesce((SELECT a.updated_seq FROM agent_sessions a WHERE a.tenant = n.tenant AND a.session_id = n.session_id), 0),
				coalesce((SELECT max(x.requested_seq) FROM executions x WHERE x.tenant = n.tenant AND x.logical_id = n.session_id), 0))),
			runs = (SELECT count(*) FROM executions x WHERE x.tenant = n.tenant AND x.logical_id = n.session_id)`},
		{&s.dropRuns, `DELETE FROM executions WHERE id IN (` + droppedExecutions + `)`},
		{&s.dropEdits, `DELETE FROM tag_edits WHERE seq <= ? AND seq NOT IN (SELECT seq FROM kept_events)`},
		{&s.dropNotes, `DELETE FROM anomalies WHERE seq <= ? AND seq NOT IN (SELECT seq FROM kept_events)`},
		{&s.dropUnknown, `DELETE FROM unknown_events WHERE seq <= ? AND seq NOT IN (SELECT seq FROM kept_events)`},
		{&s.dropMigrations, `DELETE FROM migrations WHERE seq <= ? AND seq NOT IN (SELECT seq FROM kept_events)`},
		// Heaps whose first producer is dropped and that a remaining run or migration produced too.
		{&s.reassignedHeaps, `WITH dropped AS (SELECT * FROM heaps WHERE seq <= ? AND seq NOT IN (SELECT seq FROM kept_events)),
			producers (tenant, heap, seq, size, engine_id, execution_id, parent, created_at) AS (
				SELECT h.tenant, h.heap, x.last_seq, h.size, h.engine_id, x.execution_id, x.input_heap, x.completed_at FROM dropped h JOIN executions x ON x.tenant = h.tenant AND x.output_heap = h.heap
				UNION ALL SELECT h.tenant, h.heap, m.seq, m.size, m.engine_id, m.execution_id, m.parent, m.created_at FROM dropped h JOIN migrations m ON m.tenant = h.tenant AND m.new_heap = h.heap)
			SELECT h.tenant, h.heap, h.collected_seq, h.collected_at, h.lost_seq, p.size, p.engine_id, p.execution_id, p.parent, p.created_at, min(p.seq)
			FROM producers p JOIN heaps h ON h.tenant = p.tenant AND h.heap = p.heap GROUP BY p.tenant, p.heap ORDER BY p.tenant, p.heap`},
		{&s.dropHeaps, `DELETE FROM heaps WHERE seq <= ? AND seq NOT IN (SELECT seq FROM kept_events)`},
		{&s.putHeap, `INSERT INTO heaps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&s.tags, `SELECT t.tenant, t.heap, t.tags FROM tagged t WHERE t.effective <= ?
			AND NOT EXISTS (SELECT 1 FROM executions x WHERE x.tenant = t.tenant AND x.output_heap = t.heap AND x.tags IS NOT NULL AND x.status = 'completed')
			AND NOT EXISTS (SELECT 1 FROM tag_edits d WHERE d.tenant = t.tenant AND d.heap = t.heap AND d.effective = t.effective)
			ORDER BY t.tenant, t.heap`},
		{&s.dropTags, `DELETE FROM tagged WHERE tenant = ? AND heap = ?`},
		{&s.dropUsage, `DELETE FROM tenant_usage WHERE (runs, output_bytes, heap_bytes, sessions, contexts, tagged_heaps, short_names) = (0, 0, 0, 0, 0, 0, 0)`},
		// recount changes existing rows. It counts tagged heaps without a producer, which can
		// be all that remains of a tenant: each tenant with tags needs a row.
		{&s.putUsage, `INSERT OR IGNORE INTO tenant_usage SELECT DISTINCT tenant, 0, 0, 0, 0, 0, 0, 0 FROM tagged`},
		// Short names stay: a removal keeps their events.
		{&s.recount, `UPDATE tenant_usage SET
			runs = (SELECT count(*) FROM executions x WHERE x.tenant = tenant_usage.tenant AND x.status = 'running'),
			output_bytes = (SELECT coalesce(sum(x.out_byte), 0) FROM executions x WHERE x.tenant = tenant_usage.tenant)
				+ (SELECT coalesce(sum(f.size), 0) FROM executions x JOIN artifacts f ON f.execution = x.id WHERE x.tenant = tenant_usage.tenant),
			heap_bytes = (SELECT coalesce(sum(h.size), 0) FROM heaps h WHERE h.tenant = tenant_usage.tenant AND h.collected_seq IS NULL AND h.lost_seq IS NULL),
			sessions = (SELECT count(*) FROM sessions n WHERE n.tenant = tenant_usage.tenant) + (SELECT count(*) FROM logical_sessions l WHERE l.tenant = tenant_usage.tenant),
			contexts = (SELECT count(*) FROM contexts c WHERE c.tenant = tenant_usage.tenant),
			tagged_heaps = (SELECT count(*) FROM tagged t WHERE t.tenant = tenant_usage.tenant
				AND NOT EXISTS (SELECT 1 FROM heaps h WHERE h.tenant = t.tenant AND h.heap = t.heap))`},
	}
}

// reportUnrequested records an anomaly for an event of an unknown execution. Once any volume
// was removed it records none: a runner's events can follow the end of their execution, so
// that a removal can drop the request and leave such an event.
func (a *applier) reportUnrequested(e *events.Event, id string) error {
	var removedUpTo uint64
	if err := a.queryRow(a.s.removedUpTo).Scan(&removedUpTo); err != nil || removedUpTo > 0 {
		return err
	}
	return a.recordAnomaly(e, "%s of execution %s, which was never requested", e.Type, id)
}

// applyVolumeRemoved makes the tables equal to those of a rebuild from the remaining
// events: it drops the rows from events up to d.Last, except those of kept events.
func (a *applier) applyVolumeRemoved(e *events.Event, d *events.LedgerVolumeRemoved) error {
	err := a.exec(a.s.removal, d.Volume, d.First, d.Last, d.Ended.UnixMilli(), e.Seq, e.Time.UnixMilli(), d.Export.SHA256)
	if err != nil || e.Kept() {
		return err // the volume of e was removed too; that removal drops these rows and more
	}
	if err := errors.Join(a.exec(a.s.skip, d.Last), a.storeExecutions(), a.storeUsage()); err != nil {
		return err
	}
	clear(a.states) // the next event reads them again
	a.lastID = 0
	clear(a.usageChanges)
	if err := a.readKept(d); err != nil {
		return err
	}
	for _, stmt := range []*statement{
		a.s.dropOutput, a.s.dropCalls, a.s.dropArtifacts, a.s.dropReplays, a.s.dropSealed, a.s.dropContextRuns, a.s.dropEntries, a.s.dropRuns, a.s.dropEdits, a.s.dropNotes, a.s.dropUnknown, a.s.dropMigrations,
	} {
		if err := a.exec(stmt, d.Last); err != nil {
			return err
		}
	}
	if err := errors.Join(a.exec(a.s.dropSessions), a.exec(a.s.recountNamed), a.exec(a.s.recountLogical), a.dropHeaps(d.Last), a.dropTags(d.Last), a.exec(a.s.putUsage), a.exec(a.s.recount), a.exec(a.s.dropUsage)); err != nil {
		return err
	}
	a.hasRecounted = true
	a.voidsCopies = e.Seq
	a.hasErased = true // dropped rows must leave the write-ahead log too
	return a.exec(a.s.keepNothing)
}

// readKept fills the table of kept positions.
func (a *applier) readKept(d *events.LedgerVolumeRemoved) error {
	if err := a.exec(a.s.keepNothing); err != nil || d.Kept.SHA256 == "" {
		return err
	}
	if a.texts == nil {
		return errors.New("the kept events of removed volumes cannot be read without Options.Texts")
	}
	raw, err := a.texts.Text(a.ctx, events.LedgerTenant, d.Kept.SHA256)
	if err != nil {
		return fmt.Errorf("read the kept events of removed volumes: %w", err)
	}
	list, err := events.DecodeKept(raw, d.Last)
	if err != nil {
		return fmt.Errorf("%w: kept events of removed volumes: %w", events.ErrDamaged, err)
	}
	for _, m := range list {
		if err := a.exec(a.s.keep, m.Seq); err != nil {
			return err
		}
	}
	return nil
}

// dropHeaps drops the heaps whose first producer is dropped. If a remaining run or migration
// produced the same heap, it becomes the first producer.
func (a *applier) dropHeaps(last uint64) error {
	type heap struct {
		tenant, heap, engine, execution string
		size, seq                       int64
		parent                          sql.NullString
		made, collected, collectedAt    sql.NullInt64
		lost                            sql.NullInt64
	}
	rows, err := a.query(a.s.reassignedHeaps, last)
	if err != nil {
		return err
	}
	var list []heap
	for rows.Next() {
		var h heap
		if err := rows.Scan(&h.tenant, &h.heap, &h.collected, &h.collectedAt, &h.lost, &h.size, &h.engine, &h.execution, &h.parent, &h.made, &h.seq); err != nil {
			return errors.Join(err, rows.Close())
		}
		list = append(list, h)
	}
	if err := errors.Join(rows.Err(), rows.Close(), a.exec(a.s.dropHeaps, last)); err != nil {
		return err
	}
	for _, h := range list {
		if err := a.exec(a.s.putHeap, h.tenant, h.heap, h.seq, h.size, h.engine, h.parent, h.execution, h.made.Int64, h.collected, h.collectedAt, h.lost); err != nil {
			return err
		}
	}
	return nil
}

// dropTags drops current tags that only dropped events had set. What remains of a tag is its
// edit, or the end of a run whose edit is not recorded yet.
func (a *applier) dropTags(last uint64) error {
	type tagged struct{ tenant, heap, tags string }
	rows, err := a.query(a.s.tags, last)
	if err != nil {
		return err
	}
	var list []tagged
	for rows.Next() {
		var t tagged
		if err := rows.Scan(&t.tenant, &t.heap, &t.tags); err != nil {
			return errors.Join(err, rows.Close())
		}
		list = append(list, t)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, t := range list {
		oldTags := map[string]string{}
		if err := json.Unmarshal([]byte(t.tags), &oldTags); err != nil {
			return err
		}
		if err := errors.Join(a.indexTags(t.tenant, t.heap, oldTags, nil), a.exec(a.s.dropTags, t.tenant, t.heap)); err != nil {
			return err
		}
	}
	return nil
}
