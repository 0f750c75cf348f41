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

// AgentSession is an ACP session.
type AgentSession struct {
	SessionID             string             `json:"session_id"`
	Cwd                   string             `json:"cwd"`
	AdditionalDirectories []string           `json:"additional_directories,omitempty"`
	Config                events.AgentConfig `json:"config"`
	// Title is the title from the first prompt; nil before that.
	Title     *string `json:"title"`
	UpdatedAt string  `json:"updated_at"`
	// Parent is the session that this one was forked from; nil for none.
	Parent *string `json:"parent"`
	// Closed is true after a client closed the session, until a client loads or resumes it.
	Closed bool `json:"closed"`
}

// AgentSessionFilter selects ACP sessions. The zero value selects the newest ones.
type AgentSessionFilter struct {
	Cwd    string // empty: any
	Limit  int    // 1 to MaxListLimit; 0: 50
	Cursor string // from a previous page
}

// defaultAgentSessions is the default length of a page of ACP sessions.
const defaultAgentSessions = 50

// AgentSessionPage is a page of ACP sessions, the last used first.
type AgentSessionPage struct {
	Sessions []AgentSession `json:"sessions"`
	// NextCursor is set only if there are more sessions.
	NextCursor string `json:"next_cursor,omitempty"`
}

// AgentPrompt is a prompt of an ACP session. A prompt that is a command also has its
// answer.
type AgentPrompt struct {
	Seq      uint64
	PromptID string
	At       string
	// Blocks is the JSON array of the prompt's content blocks.
	Blocks string
	// Title is the session's title if this prompt set it.
	Title string
	// ExecutionID is the execution of the prompt; empty for a command.
	ExecutionID string
	// Answer is the answer to a command; nil if there is none.
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

// AgentSession returns an ACP session. It returns events.ErrNotFound for an unknown or
// deleted session.
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

// WasAgentSession reports whether an ACP session exists, or existed until it was deleted: its
// content stays in the ledger.
func (s *Store) WasAgentSession(ctx context.Context, tenant, id string) (bool, error) {
	var n int
	if err := s.reader.QueryRowContext(ctx, "SELECT count(*) FROM agent_sessions WHERE tenant = ? AND session_id = ?", tenant, id).Scan(&n); err != nil {
		return false, fmt.Errorf("read session %s: %w", id, err)
	}
	return n > 0, nil
}

// AgentSessions lists ACP sessions that are not deleted, the last used first. It
// returns an ErrBadQuery for an invalid filter.
func (s *Store) AgentSessions(ctx context.Context, tenant string, f AgentSessionFilter) (AgentSessionPage, error) {
	page := AgentSessionPage{Sessions: []AgentSession{}}
	limit := f.Limit
	if limit == 0 {
		limit = defaultAgentSessions
	}
	if limit < 1 || limit > MaxListLimit {
		return page, badQuery("limit %d is out of range: 1 to %d", limit, MaxListLimit)
	}
	w := condition{sql: " FROM agent_sessions WHERE tenant = ? AND deleted_seq IS NULL", args: []any{tenant}}
	if f.Cwd != "" {
		w = w.and("cwd = ?", f.Cwd)
	}
	before, err := parseStart(f.Cursor, cursorAgents)
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

// promptRange is a part of a conversation: the prompts of one session between two
// positions, both exclusive.
type promptRange struct {
	session       int64
	after, before uint64
}

// sessionAncestors returns the parts of a session's conversation, oldest first. A
// forked session starts with the prompts that it shares with its parent.
func (s *Store) sessionAncestors(ctx context.Context, tenant, id string) ([]promptRange, error) {
	var list []promptRange
	for before := uint64(math.MaxInt64); id != ""; {
		p := promptRange{before: before}
		var parent sql.NullString
		var position sql.NullInt64
		err := s.reader.QueryRowContext(ctx, `SELECT id, parent, parent_seq,
				coalesce((SELECT max(cleared_seq) FROM agent_prompts WHERE session = a.id AND cleared_seq < ?3), 0)
			FROM agent_sessions a WHERE tenant = ?1 AND session_id = ?2 AND created_seq < ?3`, tenant, id, before).Scan(&p.session, &parent, &position, &p.after)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			id = "" // the session does not exist, or did not at that position
			continue
		case err != nil:
			return nil, err
		}
		list = append(list, p)
		if id = parent.String; p.after > 0 {
			id = ""
		}
		before = min(before, uint64(position.Int64)+1) // before the fork; positions decrease, so the loop ends
	}
	slices.Reverse(list)
	return list, nil
}

// AgentPrompts returns the conversation of an ACP session, oldest first. It includes
// the prompts of the sessions that the session was forked from, and omits cleared
// prompts. An unknown session has none.
func (s *Store) AgentPrompts(ctx context.Context, tenant, id string) ([]AgentPrompt, error) {
	list, err := s.agentPrompts(ctx, tenant, id)
	if err != nil {
		return nil, fmt.Errorf("read the conversation of session %s: %w", id, err)
	}
	return list, nil
}

func (s *Store) agentPrompts(ctx context.Context, tenant, id string) ([]AgentPrompt, error) {
	line, err := s.sessionAncestors(ctx, tenant, id)
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

func (s *Store) promptsIn(ctx context.Context, tenant string, p promptRange, list []AgentPrompt) ([]AgentPrompt, error) {
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
		text, err := s.resolveText(ctx, tenant, sql.NullString{String: blocks, Valid: true})
		if err != nil {
			return nil, fmt.Errorf("prompt %s: %w", a.PromptID, err)
		}
		a.Blocks = *text
		if a.Answer, err = s.resolveText(ctx, tenant, answer); err != nil {
			return nil, fmt.Errorf("answer to prompt %s: %w", a.PromptID, err)
		}
		list = append(list, a)
	}
	return list, rows.Err()
}
