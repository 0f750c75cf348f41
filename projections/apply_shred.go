package projections

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"daybook/events"
)

// applyShredded erases the readable content of a session's runs. The result equals that
// of a rebuild, which no longer has the content keys.
func (a *applier) applyShredded(e *events.Event, d *events.SessionShredded) error {
	for _, key := range d.KeyIDs {
		if err := errors.Join(
			a.exec(a.s.shred, e.Tenant, key, d.Session, e.Seq, e.Time.UnixMilli()),
			a.exec(a.s.blank, e.Tenant, key, asJSON(events.Body{})),
			a.exec(a.s.blankOutput, e.Tenant, key),
			a.exec(a.s.blankCalls, e.Tenant, key),
			a.blankTags(e, key),
			a.eraseInContexts(e.Tenant, key),
		); err != nil {
			return err
		}
	}
	for k, st := range a.states {
		if k.tenant == e.Tenant && st.session.String == d.SessionID {
			delete(a.states, k) // the next event reads it again, without tags
			if st.isUnstored {
				if err := a.exec(a.s.extent, st.id, st.lastSeq, st.extent.Line, st.extent.Byte, st.extent.Open); err != nil {
					return err
				}
			}
		}
	}
	a.hasErased = true
	return nil
}

// blankTags empties the tags that runs set: in the history, and as current tags where
// no later edit has replaced them.
func (a *applier) blankTags(e *events.Event, key string) error {
	type edit struct {
		heap           string
		seq, effective uint64
	}
	rows, err := a.bind(a.s.sealedEdits).QueryContext(a.ctx, e.Tenant, key)
	if err != nil {
		return err
	}
	var list []edit
	for rows.Next() {
		var t edit
		if err := rows.Scan(&t.heap, &t.seq, &t.effective); err != nil {
			return errors.Join(err, rows.Close())
		}
		list = append(list, t)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b edit) int { return cmp.Compare(a.seq, b.seq) }) // equal ledgers give equal files
	for _, t := range list {
		if err := errors.Join(a.exec(a.s.blankEdit, e.Tenant, t.heap, t.seq), a.setTags(e, t.heap, t.effective, map[string]string{})); err != nil {
			return err
		}
	}
	return nil
}

// findShred returns the error for an execution whose content was shredded, or nil.
func findShred(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, tenant, id string) (*events.RemovedError, error) {
	var session string
	var seq uint64
	var at int64
	err := q.QueryRowContext(ctx, `SELECT s.session, s.seq, s.at FROM executions x JOIN sealed_runs r ON r.execution = x.id JOIN shreds s ON s.tenant = r.tenant AND s.key_id = r.key_id
		WHERE x.tenant = ? AND x.execution_id = ?`, tenant, id).Scan(&session, &seq, &at)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("check whether execution %s was shredded: %w", id, err)
	}
	return events.Shredded(session, seq, time.UnixMilli(at)), nil
}
