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

// scrubTimeoutMillis is how long SQLite waits for readers of the log before scrub gives
// up for now, in milliseconds.
const scrubTimeoutMillis = 2000

// scrub empties the write-ahead log, which holds the previous content of the file:
// SQLite overwrites erased rows in the file (secure_delete), but not in the log. The
// log cannot be emptied while a query reads it. SQLite waits up to scrubTimeoutMillis
// for the query. After that, the next commit, Close or the next Open tries again.
func (s *Store) scrub(ctx context.Context) error {
	if !s.needsScrub {
		s.needsScrub = true
		s.opts.Logger.DebugContext(ctx, "remove erased content from the log", "file", s.opts.Path)
	}
	s.checkpointMu.Lock()
	busy, err := truncateLog(ctx, s.writer)
	s.checkpointMu.Unlock()
	if err != nil {
		return fmt.Errorf("remove erased content from the log: %w", err)
	}
	if s.needsScrub = busy; busy {
		s.opts.Logger.WarnContext(ctx, "erased content remains in the log of the projections while queries read it; retrying with the next event", "file", s.opts.Path+"-wal")
	}
	return nil
}

// TruncateLog moves the content of the write-ahead log to the file and truncates the
// log, which frees disk space. It does nothing if a query reads the log. It is safe for
// concurrent use.
func (s *Store) TruncateLog(ctx context.Context) error {
	s.checkpointMu.Lock()
	defer s.checkpointMu.Unlock()
	if _, err := truncateLog(ctx, s.writer); err != nil {
		return fmt.Errorf("truncate the log of %s: %w", s.opts.Path, err)
	}
	return nil
}

// truncateLog moves the content of the log to the file. It reports whether a reader of
// the log prevented that.
func truncateLog(ctx context.Context, writer *sql.DB) (busy bool, err error) {
	if _, err := writer.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", scrubTimeoutMillis)); err != nil {
		return false, err
	}
	var log, moved int
	err = writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved)
	_, reset := writer.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout=%d", busyTimeoutMillis))
	return busy, errors.Join(err, reset)
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
