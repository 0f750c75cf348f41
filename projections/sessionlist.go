package projections

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"daybook/events"
)

// Session is a session of any kind.
type Session struct {
	// SessionID is the key of the session.
	SessionID string             `json:"session_id" doc:"Key of the session, 64 lowercase hex characters."`
	Kind      events.SessionKind `json:"kind" enum:"named,logical,acp"`
	// Name is the name of a named session, the intent of a logical session, or the
	// title of an ACP session; nil if there is none.
	Name *string `json:"name" doc:"Name of a named session, intent of a logical session, title of an ACP session."`
	// Refs holds the short names of a logical session, sorted.
	Refs []string `json:"refs,omitempty" doc:"Short names of a logical session."`
	// CreatedAt is when the session was opened. For a named session, it is when its
	// first run was requested.
	CreatedAt      string `json:"created_at"`
	LastActivityAt string `json:"last_activity_at"`
	// Runs counts the recorded runs, including those that have not ended.
	Runs int64 `json:"runs"`
	// Head is the heap that the next turn starts from or, in a named session, the heap
	// that the last run left; nil for a fresh isolate.
	Head *string `json:"head" doc:"Heap that the session continues from; null for a fresh isolate."`
	// ResetAt is when a client last reset the session; nil for never.
	ResetAt *string `json:"reset_at" format:"date-time" doc:"Time of the last reset by a client; null for never."`
	// Parent is the session that an ACP session was forked from; nil for none.
	Parent *string `json:"parent,omitempty"`
}

// label returns a human-readable name of a session: its name, or its id if it has none.
func (s Session) label() string {
	if s.Name != nil && *s.Name != "" {
		return *s.Name
	}
	return s.SessionID
}

// SessionFilter selects sessions. The zero value selects the newest of every kind.
type SessionFilter struct {
	Kind   events.SessionKind // empty: every kind
	Limit  int                // 1 to MaxListLimit; 0: 100
	Cursor string             // from a previous page
}

// defaultSessions is the default length of a page of sessions.
const defaultSessions = 100

// SessionPage is a page of sessions, the last used first.
type SessionPage struct {
	Items []Session `json:"items"`
	// NextCursor is set only if there are more sessions.
	NextCursor string `json:"next_cursor,omitempty"`
}

// sessionArm is a query for the sessions that one table holds. Its conditions name the table n,
// and ?1 is the tenant. Its first columns are those of scanSession.
type sessionArm struct{ columns, from string }

var (
	namedSessions = sessionArm{
		columns: `'named', n.session_id, n.session, NULL,
	coalesce((SELECT x.requested_at FROM executions x WHERE x.tenant = n.tenant AND x.session_id = n.session_id ORDER BY x.requested_seq LIMIT 1), 0),
	max(coalesce((SELECT coalesce(x.completed_at, x.started_at, x.requested_at) FROM executions x WHERE x.tenant = n.tenant AND x.session_id = n.session_id ORDER BY x.requested_seq DESC LIMIT 1), 0),
		coalesce((SELECT r.at FROM session_resets r WHERE r.tenant = n.tenant AND r.session_id = n.session_id ORDER BY r.seq DESC LIMIT 1), 0))`,
		from: `sessions n WHERE n.tenant = ?1`,
	}
	// otherSessions has the logical and the ACP sessions, except ACP sessions that were deleted or
	// never created.
	otherSessions = sessionArm{
		columns: `n.kind, n.session_id, coalesce(n.intent, a.title), n.parent, n.opened_at, max(n.used_at, coalesce(a.updated_at, 0))`,
		from:    `logical_sessions n LEFT JOIN agent_sessions a ON a.tenant = n.tenant AND a.session_id = n.session_id WHERE n.tenant = ?1 AND n.used_seq IS NOT NULL`,
	}
)

// query returns the query for the sessions that meet a condition, the last used first.
func (arm sessionArm) query(condition string) string {
	return `SELECT ` + arm.columns + `, n.used_seq, n.runs, n.head,
	(SELECT group_concat(r.ref, ' ' ORDER BY r.ref) FROM session_refs r WHERE r.tenant = ?1 AND r.session_id = n.session_id),
	(SELECT r.at FROM session_resets r WHERE r.tenant = ?1 AND r.session_id = n.session_id AND r.reason IS NULL ORDER BY r.seq DESC LIMIT 1)
	FROM ` + arm.from + ` AND (` + condition + `) ORDER BY n.used_seq DESC LIMIT ?2`
}

// listedSession is a session at its place in a list.
type listedSession struct {
	Session
	seq uint64
}

// sessionSearch is one of the queries for a list of sessions. Its conditions have the arguments
// from ?3 on.
type sessionSearch struct {
	arm       sessionArm
	condition string
	args      []any
}

// findSessions returns the sessions that some searches find, the last used first, and not more
// than limit. Each search reads that many.
func (s *Store) findSessions(ctx context.Context, tenant string, limit int, searches []sessionSearch) (found []listedSession, err error) {
	tx, err := s.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	seen := map[string]bool{} // several searches can find a session
	for _, search := range searches {
		rows, err := tx.QueryContext(ctx, search.arm.query(search.condition), append([]any{tenant, limit}, search.args...)...)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			one, seq, err := scanSession(rows.Scan)
			if err != nil {
				return nil, errors.Join(err, rows.Close())
			}
			if !seen[one.SessionID] {
				seen[one.SessionID] = true
				found = append(found, listedSession{one, seq})
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(found, func(a, b listedSession) int { return cmp.Compare(b.seq, a.seq) })
	return found[:min(len(found), limit)], nil
}

func scanSession(scan func(...any) error) (s Session, seq uint64, err error) {
	var created, used int64
	var refs sql.NullString
	var reset sql.NullInt64
	if err := scan(&s.Kind, &s.SessionID, &s.Name, &s.Parent, &created, &used, &seq, &s.Runs, &s.Head, &refs, &reset); err != nil {
		return s, 0, err
	}
	if reset.Valid {
		at := formatMillis(reset.Int64)
		s.ResetAt = &at
	}
	s.CreatedAt, s.LastActivityAt, s.Refs = formatMillis(created), formatMillis(used), strings.Fields(refs.String)
	return s, seq, nil
}

// SessionList lists sessions of every kind, the last used first. It returns an
// ErrBadQuery for an invalid filter.
func (s *Store) SessionList(ctx context.Context, tenant string, f SessionFilter) (SessionPage, error) {
	page := SessionPage{Items: []Session{}}
	limit := f.Limit
	if limit == 0 {
		limit = defaultSessions
	}
	if limit < 1 || limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", f.Limit, MaxListLimit)
	}
	switch f.Kind {
	case "", events.SessionLog, events.SessionLogical, events.SessionACP:
	default:
		return page, badQuery("kind %.40q is none of named, logical, acp", f.Kind)
	}
	beforeNamed, before, err := parseSessionStart(f.Cursor)
	if err != nil {
		return page, err
	}
	var searches []sessionSearch // named sessions first: see cursorShared
	for _, kind := range []events.SessionKind{events.SessionLog, events.SessionLogical, events.SessionACP} {
		switch {
		case f.Kind != "" && f.Kind != kind:
		case kind == events.SessionLog:
			searches = append(searches, sessionSearch{namedSessions, `n.used_seq < ?3`, []any{beforeNamed}})
		default:
			searches = append(searches, sessionSearch{otherSessions, `n.used_seq < ?3 AND n.kind = ?4`, []any{before, string(kind)}})
		}
	}
	found, err := s.findSessions(ctx, tenant, limit+1, searches)
	if err != nil {
		return page, fmt.Errorf("list sessions: %w", err)
	}
	for i, one := range found {
		if i == limit {
			kind := cursorSessions
			if one.seq == found[i-1].seq { // a run in a named session has a turn in the other one
				kind = cursorShared
			}
			page.NextCursor = cursor{kind, found[i-1].seq}.String()
			break
		}
		page.Items = append(page.Items, one.Session)
	}
	return page, nil
}

// maxSessionCandidates limits the sessions that an AmbiguousError lists.
const maxSessionCandidates = 5

// ResolveSession returns the session that a text identifies. It tries, in this order:
// the name of a named session, the id of any session, an intent or a short name (ref),
// and a unique prefix of a name, an intent, a title or an id. It returns an
// *AmbiguousError if several sessions match and events.ErrNotFound if none does. For a
// named session it waits, like Entries, for the entries of runs that have ended,
// because they determine the head.
func (s *Store) ResolveSession(ctx context.Context, tenant, text string) (Session, error) {
	if text == "" {
		return Session{}, badQuery("session must not be empty")
	}
	// The texts that begin with text are those before end.
	end := text + "\xff"
	isID := utf8.RuneCountInString(text) >= 4
	for _, step := range [][]sessionSearch{
		{{namedSessions, `n.session = ?3`, []any{text}}},
		{{namedSessions, `n.session_id = ?3`, []any{text}}, {otherSessions, `n.session_id = ?3`, []any{text}}},
		{
			{otherSessions, `n.kind = 'logical' AND n.intent = ?3`, []any{text}},
			{otherSessions, `n.session_id IN (SELECT r.session_id FROM session_refs r WHERE r.tenant = ?1 AND r.ref = ?3)`, []any{text}},
		},
		{
			{namedSessions, `n.session >= ?3 AND n.session < ?4`, []any{text, end}},
			{namedSessions, `?5 AND n.session_id >= ?3 AND n.session_id < ?4`, []any{text, end, isID}},
			{otherSessions, `n.intent >= ?3 AND n.intent < ?4`, []any{text, end}},
			{otherSessions, `n.intent IS NULL AND n.session_id IN (SELECT t.session_id FROM agent_sessions t WHERE t.tenant = ?1 AND t.title >= ?3 AND t.title < ?4)`, []any{text, end}},
			{otherSessions, `?5 AND n.session_id >= ?3 AND n.session_id < ?4`, []any{text, end, isID}},
		},
	} {
		found, err := s.findSessions(ctx, tenant, maxSessionCandidates+1, step)
		switch {
		case err != nil:
			return Session{}, fmt.Errorf("find session %q: %w", text, err)
		case len(found) == 1:
			return s.reloadAfterEntries(ctx, tenant, found[0].Session)
		case len(found) > 1:
			return Session{}, ambiguousSession(text, found)
		}
	}
	return Session{}, notFound("session", text)
}

// reloadAfterEntries waits for the pending entries of a session and reads the session
// again.
func (s *Store) reloadAfterEntries(ctx context.Context, tenant string, one Session) (Session, error) {
	key := sessionKey{tenant, one.SessionID}
	s.mu.Lock()
	isPending := s.pendingEntries.remainingWait(key) > 0
	s.mu.Unlock()
	if one.Kind != events.SessionLog || !isPending {
		return one, nil
	}
	if err := s.waitForEntries(ctx, key); err != nil {
		return Session{}, fmt.Errorf("wait for the entries of session %q: %w", *one.Name, err)
	}
	found, err := s.findSessions(ctx, tenant, 1, []sessionSearch{{namedSessions, `n.session = ?3`, []any{*one.Name}}})
	switch {
	case err != nil:
		return Session{}, fmt.Errorf("find session %q: %w", *one.Name, err)
	case len(found) == 0:
		return Session{}, notFound("session", *one.Name)
	}
	return found[0].Session, nil
}

func ambiguousSession(text string, found []listedSession) error {
	e := &AmbiguousError{What: "session", Prefix: text, More: len(found) > maxSessionCandidates}
	for _, s := range found[:min(len(found), maxSessionCandidates)] {
		name := s.SessionID[:12]
		if s.Name != nil {
			name = fmt.Sprintf("%.40q (%s)", *s.Name, name)
		}
		e.Candidates = append(e.Candidates, string(s.Kind)+" "+name)
	}
	return e
}

// SessionReset is a change of a session head that no run made.
type SessionReset struct {
	Seq uint64 `json:"seq" doc:"Position of the event."`
	At  string `json:"at" format:"date-time"`
	// Reason is the reason of a break of continuity; nil for a reset by a client.
	Reason *string `json:"reason" doc:"Reason of a break in continuity, such as heap_lost; null for a reset by a client."`
	Heap   *string `json:"heap" doc:"Heap that the session continues from; null for a fresh isolate."`
}

// AgentCommand is a prompt of an ACP session that was a command, and its answer.
type AgentCommand struct {
	At     string  `json:"at" format:"date-time"`
	Text   string  `json:"text"`
	Answer *string `json:"answer"`
}

// SessionMoment is a run of a session, a reset, or a command. One of ExecutionID, Reset
// and Command is set.
type SessionMoment struct {
	Seq         uint64
	ExecutionID string
	Reset       *SessionReset
	Command     *AgentCommand
}

// SessionMoments returns the last runs of a session, at most limit, and the resets and
// commands since the run before them, in the order of the ledger.
func (s *Store) SessionMoments(ctx context.Context, tenant string, of Session, limit int) ([]SessionMoment, error) {
	list, since, err := s.lastRuns(ctx, tenant, of, limit)
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", of.SessionID, err)
	}
	resets, err := s.sessionResets(ctx, tenant, of.SessionID, since)
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", of.SessionID, err)
	}
	for i := range resets {
		list = append(list, SessionMoment{Seq: resets[i].Seq, Reset: &resets[i]})
	}
	if of.Kind == events.SessionACP {
		if list, err = s.agentCommands(ctx, tenant, of.SessionID, since, list); err != nil {
			return nil, fmt.Errorf("read session %s: %w", of.SessionID, err)
		}
	}
	slices.SortFunc(list, func(a, b SessionMoment) int { return cmp.Compare(a.Seq, b.Seq) })
	return list, nil
}

// lastRuns returns the last runs of a session, at most limit, and the position of the
// run before them, or 0 if there is none.
func (s *Store) lastRuns(ctx context.Context, tenant string, of Session, limit int) (list []SessionMoment, since uint64, err error) {
	column := "logical_id"
	if of.Kind == events.SessionLog {
		column = "session_id"
	}
	rows, err := s.reader.QueryContext(ctx, `SELECT requested_seq, execution_id FROM executions WHERE tenant = ? AND `+column+` = ? ORDER BY requested_seq DESC LIMIT ?`,
		tenant, of.SessionID, limit+1)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var m SessionMoment
		if err := rows.Scan(&m.Seq, &m.ExecutionID); err != nil {
			return nil, 0, err
		}
		list = append(list, m)
	}
	if len(list) > limit {
		since = list[limit].Seq
		list = list[:limit]
	}
	return list, since, rows.Err()
}

// agentCommands appends the commands of an ACP session since a position.
func (s *Store) agentCommands(ctx context.Context, tenant, session string, since uint64, list []SessionMoment) ([]SessionMoment, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT p.seq, p.at, p.blocks, p.answer FROM agent_sessions a JOIN agent_prompts p ON p.session = a.id
		WHERE a.tenant = ? AND a.session_id = ? AND p.seq >= ? AND p.execution_id IS NULL ORDER BY p.seq`, tenant, session, since)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var m SessionMoment
		var at int64
		var blocks, answer sql.NullString
		if err := rows.Scan(&m.Seq, &at, &blocks, &answer); err != nil {
			return nil, err
		}
		c := &AgentCommand{At: formatMillis(at)}
		text, err := s.resolveText(ctx, tenant, blocks)
		if err != nil {
			return nil, err
		}
		if c.Answer, err = s.resolveText(ctx, tenant, answer); err != nil {
			return nil, err
		}
		var parts []struct{ Text string }
		if text != nil && json.Unmarshal([]byte(*text), &parts) == nil {
			for _, p := range parts {
				c.Text += p.Text
			}
		}
		m.Command = c
		list = append(list, m)
	}
	return list, rows.Err()
}

func (s *Store) sessionResets(ctx context.Context, tenant, session string, since uint64) ([]SessionReset, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT seq, at, reason, heap FROM session_resets WHERE tenant = ? AND session_id = ? AND seq >= ? ORDER BY seq`, tenant, session, since)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []SessionReset
	for rows.Next() {
		var r SessionReset
		var at int64
		if err := rows.Scan(&r.Seq, &at, &r.Reason, &r.Heap); err != nil {
			return nil, err
		}
		r.At = formatMillis(at)
		list = append(list, r)
	}
	return list, rows.Err()
}

// SessionsOfExecution returns the sessions of an execution: the name of its named
// session and the id of the session in which it has a turn. An unknown execution has
// none.
func (s *Store) SessionsOfExecution(ctx context.Context, tenant, execution string) ([]string, error) {
	var named, logical sql.NullString
	err := s.reader.QueryRowContext(ctx, `SELECT session, logical_id FROM executions WHERE tenant = ? AND execution_id = ?`, tenant, execution).Scan(&named, &logical)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("find the sessions of execution %s: %w", execution, err)
	}
	var list []string
	for _, one := range []sql.NullString{named, logical} {
		if one.Valid {
			list = append(list, one.String)
		}
	}
	return list, nil
}
