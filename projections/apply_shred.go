package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"daybook/events"
)

// applyShredded erases the readable content under the destroyed keys. The result equals
// that of a rebuild, which no longer has the keys.
func (a *applier) applyShredded(e *events.Event, d *events.SessionShredded) error {
	if err := a.storeExecutions(); err != nil {
		return err
	}
	for _, key := range d.KeyIDs {
		if err := errors.Join(
			a.exec(a.s.shred, e.Tenant, key, d.Label(), e.Seq, e.Time.UnixMilli()),
			a.exec(a.s.blank, e.Tenant, key, asJSON(events.Body{})),
			a.exec(a.s.blankOutput, e.Tenant, key),
			a.exec(a.s.blankCalls, e.Tenant, key),
			a.exec(a.s.blankArtifacts, e.Tenant, key),
			a.blankTags(e.Tenant, key),
			a.exec(a.s.blankIntent, e.Tenant, key),
			a.exec(a.s.blankWorkspace, e.Tenant, key),
			a.exec(a.s.blankPrompts, key, asJSON(events.Body{})),
			a.exec(a.s.blankAnswers, key, asJSON(events.Body{})),
			a.exec(a.s.blankTitle, key),
			a.eraseInContexts(e.Tenant, key),
		); err != nil {
			return err
		}
	}
	// The next event reads them again, without tags.
	maps.DeleteFunc(a.states, func(k executionKey, _ *executionState) bool { return k.tenant == e.Tenant })
	a.hasErased, a.voidsCopies = true, e.Seq
	return nil
}

// withoutShredded returns an event without the readable content if its key was destroyed
// according to an earlier event. The process that destroys a key has it until then, so an
// event that it read before may still be readable.
func (a *applier) withoutShredded(e *events.Event) (*events.Event, error) {
	key := events.ContentKeyID(e.Data)
	if key == "" {
		return e, nil
	}
	var n int
	if err := a.queryRow(a.s.isShredded, e.Tenant, key).Scan(&n); err != nil || n == 0 {
		return e, err
	}
	stripped := *e
	events.StripPlaintext(&stripped)
	return &stripped, nil
}

// blankTags empties the tags that are encrypted under a key: in the history, and as current
// tags.
func (a *applier) blankTags(tenant, key string) error {
	rows, err := a.query(a.s.sealedTags, tenant, key)
	if err != nil {
		return err
	}
	inForce := map[string]string{}
	for rows.Next() {
		var heap, tags string
		if err := rows.Scan(&heap, &tags); err != nil {
			return errors.Join(err, rows.Close())
		}
		inForce[heap] = tags
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, heap := range slices.Sorted(maps.Keys(inForce)) { // equal ledgers give equal files
		tags := map[string]string{}
		if err := json.Unmarshal([]byte(inForce[heap]), &tags); err != nil {
			return err
		}
		if err := a.indexTags(tenant, heap, tags, nil); err != nil {
			return err
		}
	}
	return errors.Join(a.exec(a.s.blankTags, tenant, key), a.exec(a.s.blankEdits, tenant, key))
}

// findShred returns the error for an execution whose content was shredded, or nil.
func findShred(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, tenant, id string) (*events.RemovedError, error) {
	var label string
	var seq uint64
	var at int64
	err := q.QueryRowContext(ctx, `SELECT s.label, s.seq, s.at FROM executions x JOIN sealed_runs r ON r.execution = x.id JOIN shreds s ON s.tenant = r.tenant AND s.key_id = r.key_id
		WHERE x.tenant = ? AND x.execution_id = ?`, tenant, id).Scan(&label, &seq, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("check whether execution %s was shredded: %w", id, err)
	}
	return events.Shredded(label, seq, time.UnixMilli(at)), nil
}
