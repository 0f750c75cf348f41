package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"daybook/events"
)

// LogicalSession is a logical session: its runs take turns, and each turn starts from
// the heap of the turn before.
type LogicalSession struct {
	SessionID string             `json:"session_id"`
	Kind      events.SessionKind `json:"kind"`
	// Intent is the text that the session was opened with; nil for none.
	Intent       *string      `json:"intent"`
	IntentSHA256 *string      `json:"intent_sha256"`
	OpenedAt     string       `json:"opened_at"`
	LastUsedAt   string       `json:"last_used_at"`
	Actor        events.Actor `json:"actor"`
	// Parent is the session that this one was forked from; nil for none.
	Parent *string `json:"parent"`
	// Head is the session head; nil for a fresh isolate.
	Head *string `json:"head"`
	// Turns counts the runs that got a turn. LastExecution is the last of them.
	Turns         int64   `json:"turns"`
	LastExecution *string `json:"last_execution"`
	// DomainRevision counts the expansions of the session.
	DomainRevision int64 `json:"domain_revision"`
	// Primary and CatalogSHA256 identify the source of the declarations.
	Primary       *string `json:"primary"`
	CatalogSHA256 *string `json:"catalog_sha256"`
	// Broken is the reason of the last break of continuity; nil for none.
	Broken *string `json:"broken"`
}

// SessionCatalogEntry is a catalog entry that was declared to a session.
type SessionCatalogEntry struct {
	Symbol string `json:"symbol"`
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
}

// LogicalSessionDetail is a LogicalSession with the catalog entries declared to it.
type LogicalSessionDetail struct {
	LogicalSession
	Entries []SessionCatalogEntry `json:"taught"`
}

// LogicalSessionPage is a page of logical sessions, the last opened first.
type LogicalSessionPage struct {
	Sessions []LogicalSession `json:"sessions"`
	// NextCursor is set only if there are more sessions.
	NextCursor string `json:"next_cursor,omitempty"`
}

// defaultLogicalSessions is the default length of a page of logical sessions.
const defaultLogicalSessions = 100

const logicalColumns = `session_id, kind, intent, intent_sha256, opened_at, used_at, actor, parent, head, turns, last_execution,
	revision, primary_source, catalog_sha256, broken, opened_seq`

func scanLogical(scan func(...any) error) (s LogicalSession, seq uint64, err error) {
	var opened, used int64
	var actor string
	if err := scan(&s.SessionID, &s.Kind, &s.Intent, &s.IntentSHA256, &opened, &used, &actor, &s.Parent, &s.Head, &s.Turns, &s.LastExecution,
		&s.DomainRevision, &s.Primary, &s.CatalogSHA256, &s.Broken, &seq); err != nil {
		return s, 0, err
	}
	s.OpenedAt, s.LastUsedAt = formatMillis(opened), formatMillis(used)
	return s, seq, json.Unmarshal([]byte(actor), &s.Actor)
}

// LogicalSession returns a logical session. It returns events.ErrNotFound for an
// unknown id.
func (s *Store) LogicalSession(ctx context.Context, tenant, id string) (LogicalSessionDetail, error) {
	row := s.reader.QueryRowContext(ctx, `SELECT `+logicalColumns+` FROM logical_sessions WHERE tenant = ? AND session_id = ?`, tenant, id)
	one, _, err := scanLogical(row.Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return LogicalSessionDetail{}, notFound("session", id)
	}
	if err != nil {
		return LogicalSessionDetail{}, fmt.Errorf("read session %s: %w", id, err)
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT symbol, entry, sha256 FROM taught WHERE tenant = ? AND session_id = ? ORDER BY n`, tenant, id)
	if err != nil {
		return LogicalSessionDetail{}, fmt.Errorf("read session %s: %w", id, err)
	}
	defer rows.Close()
	d := LogicalSessionDetail{LogicalSession: one, Entries: []SessionCatalogEntry{}}
	for rows.Next() {
		var t SessionCatalogEntry
		if err := rows.Scan(&t.Symbol, &t.ID, &t.SHA256); err != nil {
			return LogicalSessionDetail{}, fmt.Errorf("read session %s: %w", id, err)
		}
		d.Entries = append(d.Entries, t)
	}
	return d, rows.Err()
}

// LogicalSessions lists logical sessions of any kind, the last opened first. limit is 1
// to MaxListLimit, or 0 for 100. from is the NextCursor of the
// previous page, or empty.
func (s *Store) LogicalSessions(ctx context.Context, tenant string, limit int, from string) (LogicalSessionPage, error) {
	page := LogicalSessionPage{Sessions: []LogicalSession{}}
	switch {
	case limit == 0:
		limit = defaultLogicalSessions
	case limit < 1 || limit > MaxListLimit:
		return page, badQuery("limit must be 1 to %d, not %d", MaxListLimit, limit)
	}
	before, err := parseStart(from, cursorLogical)
	if err != nil {
		return page, err
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT `+logicalColumns+` FROM logical_sessions WHERE tenant = ? AND opened_seq < ? ORDER BY opened_seq DESC LIMIT ?`, tenant, before, limit+1)
	if err != nil {
		return page, fmt.Errorf("list sessions: %w", err)
	}
	if page.Sessions, page.NextCursor, err = readPage(rows, limit, cursorLogical, scanLogical); err != nil {
		return page, fmt.Errorf("list sessions: %w", err)
	}
	return page, nil
}
