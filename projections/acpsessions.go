package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"daybook/events"
)

// agentSchema holds the sessions of the Agent Client Protocol. Directories and
// config are JSON as recorded; blocks and answer are bodies.
const agentSchema = `
CREATE TABLE IF NOT EXISTS agent_sessions (
	id INTEGER PRIMARY KEY,
	tenant TEXT NOT NULL, session_id TEXT NOT NULL,
	created_seq INTEGER NOT NULL, updated_seq INTEGER NOT NULL, updated_at INTEGER NOT NULL,
	cwd TEXT NOT NULL, directories TEXT NOT NULL, config TEXT NOT NULL, title TEXT,
	parent TEXT, parent_seq INTEGER,
	closed INTEGER NOT NULL DEFAULT 0, deleted_seq INTEGER,
	UNIQUE (tenant, session_id)
);
CREATE INDEX IF NOT EXISTS agent_sessions_by_use ON agent_sessions (tenant, updated_seq) WHERE deleted_seq IS NULL;
CREATE TABLE IF NOT EXISTS agent_prompts (
	seq INTEGER PRIMARY KEY, session INTEGER NOT NULL, prompt_id TEXT NOT NULL, at INTEGER NOT NULL,
	blocks TEXT NOT NULL, title TEXT, execution_id TEXT, answer TEXT,
	-- the event since which a new client is not told of what came before
	cleared_seq INTEGER
);
CREATE INDEX IF NOT EXISTS agent_prompts_by_session ON agent_prompts (session, seq);
`

// AgentSession is a session of the Agent Client Protocol.
type AgentSession struct {
	SessionID             string             `json:"session_id"`
	Cwd                   string             `json:"cwd"`
	AdditionalDirectories []string           `json:"additional_directories,omitempty"`
	Config                events.AgentConfig `json:"config"`
	// Title is what its first prompt says; nil before that.
	Title     *string `json:"title"`
	UpdatedAt string  `json:"updated_at"`
	// Parent is the session it was split off from; nil without one.
	Parent *string `json:"parent"`
	// Closed is true when its last client put it away.
	Closed bool `json:"closed"`
}

// AgentSessionFilter selects sessions. The zero value selects the newest.
type AgentSessionFilter struct {
	Cwd    string // empty: any
	Limit  int    // 1 to MaxListLimit; 0: DefaultAgentSessions
	Cursor string // from a previous page
}

// DefaultAgentSessions is the length of a page of sessions.
const DefaultAgentSessions = 50

// AgentSessionPage is a page of sessions, the last used first.
type AgentSessionPage struct {
	Sessions []AgentSession `json:"sessions"`
	// NextCursor is set only when there is more.
	NextCursor string `json:"next_cursor,omitempty"`
}

// AgentPrompt is a prompt of a session, and the answer to one that was a command.
type AgentPrompt struct {
	Seq      uint64
	PromptID string
	At       string
	// Blocks is the JSON array of the prompt's content blocks.
	Blocks string
	// Title is set for the prompt that gave the session its title.
	Title string
	// ExecutionID is its run; empty for a command.
	ExecutionID string
	// Answer is that to a command; nil while there is none.
	Answer *string
}

const agentSessionColumns = `id, session_id, updated_seq, updated_at, cwd, directories, config, title, parent, closed`

type agentRow struct {
	AgentSession
	id  int64
	seq uint64
}

func scanAgentSession(scan func(...any) error) (agentRow, error) {
	var r agentRow
	var at int64
	var directories, config string
	if err := scan(&r.id, &r.SessionID, &r.seq, &at, &r.Cwd, &directories, &config, &r.Title, &r.Parent, &r.Closed); err != nil {
		return r, err
	}
	r.UpdatedAt = formatMillis(at)
	return r, errors.Join(json.Unmarshal([]byte(directories), &r.AdditionalDirectories), json.Unmarshal([]byte(config), &r.Config))
}

// AgentSession returns a session of the Agent Client Protocol, or
// events.ErrNotFound: also for one that was deleted.
func (s *Store) AgentSession(ctx context.Context, tenant, id string) (AgentSession, error) {
	r, err := scanAgentSession(s.reader.QueryRowContext(ctx,
		"SELECT "+agentSessionColumns+" FROM agent_sessions WHERE tenant = ? AND session_id = ? AND deleted_seq IS NULL", tenant, id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return AgentSession{}, notFound("session", id)
	}
	if err != nil {
		return AgentSession{}, fmt.Errorf("read session %s: %w", id, err)
	}
	return r.AgentSession, nil
}

// AgentSessions lists sessions of the Agent Client Protocol, the last used
// first, without deleted ones. A bad filter is an ErrBadQuery.
func (s *Store) AgentSessions(ctx context.Context, tenant string, f AgentSessionFilter) (AgentSessionPage, error) {
	page := AgentSessionPage{Sessions: []AgentSession{}}
	limit := f.Limit
	if limit == 0 {
		limit = DefaultAgentSessions
	}
	if limit < 1 || limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", limit, MaxListLimit)
	}
	w := condition{sql: " FROM agent_sessions WHERE tenant = ? AND deleted_seq IS NULL", args: []any{tenant}}
	if f.Cwd != "" {
		w = w.and("cwd = ?", f.Cwd)
	}
	before, err := startOf(f.Cursor, cursorAgents)
	if err != nil {
		return page, err
	}
	w = w.and("updated_seq < ?", before)
	rows, err := s.reader.QueryContext(ctx, "SELECT "+agentSessionColumns+w.sql+" ORDER BY updated_seq DESC LIMIT ?", append(w.args, limit+1)...)
	if err != nil {
		return page, fmt.Errorf("list sessions: %w", err)
	}
	page.Sessions, page.NextCursor, err = readPage(rows, limit, cursorAgents, func(row func(...any) error) (AgentSession, uint64, error) {
		r, err := scanAgentSession(row)
		return r.AgentSession, r.seq, err
	})
	if err != nil {
		return page, fmt.Errorf("list sessions: %w", err)
	}
	return page, nil
}

// stretch is a part of a conversation: the prompts of one session between two
// positions, both exclusive.
type stretch struct {
	session       int64
	after, before uint64
}

// lineage is what a session's conversation is made of, oldest first: a session
// that was split off begins with what it has in common with the other.
func (s *Store) lineage(ctx context.Context, tenant, id string) ([]stretch, error) {
	var list []stretch
	for before := uint64(math.MaxInt64); id != ""; {
		p := stretch{before: before}
		var parent sql.NullString
		var position sql.NullInt64
		err := s.reader.QueryRowContext(ctx, `SELECT id, parent, parent_seq,
				coalesce((SELECT max(cleared_seq) FROM agent_prompts WHERE session = a.id AND cleared_seq < ?3), 0)
			FROM agent_sessions a WHERE tenant = ?1 AND session_id = ?2 AND created_seq < ?3`, tenant, id, before).Scan(&p.session, &parent, &position, &p.after)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			id = "" // it is not there, or was not yet
			continue
		case err != nil:
			return nil, err
		}
		list = append(list, p)
		if id = parent.String; p.after > 0 {
			id = ""
		}
		before = min(before, uint64(position.Int64)+1) // before this one began: older each time, so this ends
	}
	slices.Reverse(list)
	return list, nil
}

// AgentPrompts returns the conversation of a session, oldest first: that of the
// session it was split off from included, what was put aside left out. An
// unknown session has none.
func (s *Store) AgentPrompts(ctx context.Context, tenant, id string) ([]AgentPrompt, error) {
	list, err := s.agentPrompts(ctx, tenant, id)
	if err != nil {
		return nil, fmt.Errorf("read the conversation of session %s: %w", id, err)
	}
	return list, nil
}

func (s *Store) agentPrompts(ctx context.Context, tenant, id string) ([]AgentPrompt, error) {
	line, err := s.lineage(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	var list []AgentPrompt
	for _, p := range line {
		if list, err = s.promptsIn(ctx, tenant, p, list); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (s *Store) promptsIn(ctx context.Context, tenant string, p stretch, list []AgentPrompt) ([]AgentPrompt, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT seq, prompt_id, at, blocks, title, execution_id, answer
		FROM agent_prompts WHERE session = ? AND seq > ? AND seq < ? ORDER BY seq`, p.session, p.after, p.before)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a AgentPrompt
		var at int64
		var blocks string
		var title, execution, answer sql.NullString
		if err := rows.Scan(&a.Seq, &a.PromptID, &at, &blocks, &title, &execution, &answer); err != nil {
			return nil, err
		}
		a.At, a.Title, a.ExecutionID = formatMillis(at), title.String, execution.String
		text, err := s.text(ctx, tenant, sql.NullString{String: blocks, Valid: true})
		if err != nil {
			return nil, fmt.Errorf("prompt %s: %w", a.PromptID, err)
		}
		a.Blocks = *text
		if a.Answer, err = s.text(ctx, tenant, answer); err != nil {
			return nil, fmt.Errorf("answer to prompt %s: %w", a.PromptID, err)
		}
		list = append(list, a)
	}
	return list, rows.Err()
}
