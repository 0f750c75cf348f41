package projections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"daybook/events"
)

// ContextSchemaVersion is the version of the form of Context.
const ContextSchemaVersion = 1

// Context is what happened in a conversation, as far as it helps to go on with
// it. Its JSON form is the documented one.
type Context struct {
	SchemaVersion int `json:"schema_version"`
	// SessionID is the id clients know the context by, 64 hex characters.
	SessionID string `json:"session_id"`
	// CreatedAt is when the context began, or began anew; LastUpdatedAt when
	// something was added to it.
	CreatedAt       string                 `json:"created_at"`
	LastUpdatedAt   string                 `json:"last_updated_at"`
	UserPreferences events.UserPreferences `json:"user_preferences"`
	// RecentToolCalls are the last calls, oldest first, of which earlier ones are
	// summed up.
	RecentToolCalls []ToolCallRecord `json:"recent_tool_calls"`
	// FetchedResources are the last resources read, each once.
	FetchedResources []FetchedResource `json:"fetched_resources"`
	// Custom are values that the client has set.
	Custom map[string]json.RawMessage `json:"custom"`
	// SummaryBeforeWindow sums up the calls before RecentToolCalls, and
	// WindowStartIndex counts them.
	SummaryBeforeWindow string `json:"summary_before_window,omitempty"`
	WindowStartIndex    int    `json:"window_start_index,omitempty"`
	// Warnings are for the reader, and never stored: why nothing is kept in the context.
	Warnings []string `json:"warnings,omitempty"`
}

// ToolCallRecord is one call, or several in a row with the same arguments.
type ToolCallRecord struct {
	Tool string `json:"tool"`
	// Args are the arguments with long texts cut and secrets left out.
	Args          map[string]json.RawMessage `json:"args"`
	CalledAt      string                     `json:"called_at"`
	ResultSummary string                     `json:"result_summary"`
	// ExecutionID is the run that the call began, if any.
	ExecutionID string `json:"execution_id,omitempty"`
	// Times is how often it was called in a row, where that is more than once.
	Times int `json:"times,omitempty"`
}

// FetchedResource is a resource that was read.
type FetchedResource struct {
	ResourceID string `json:"resource_id"`
	// ResourceType is "document", "database_row" or "api_response".
	ResourceType string `json:"resource_type"`
	FetchedAt    string `json:"fetched_at"`
	// ContentHash is the SHA-256 of what was read.
	ContentHash string `json:"content_hash"`
	Summary     string `json:"summary"`
}

// Tried is a call made before.
type Tried struct {
	// ArgsSHA256 tells what was tried: for a run the hash of its request, for
	// another call that of tool and arguments.
	ArgsSHA256 string `json:"args_sha256"`
	Tool       string `json:"tool"`
	CalledAt   string `json:"called_at"`
	Times      int    `json:"times"`
	Summary    string `json:"summary"`
	// Results is how many things the answer listed; nil where it was no list.
	Results *int64 `json:"results,omitempty"`
	// ResultSHA256 is the hash of the answer.
	ResultSHA256 string `json:"result_sha256,omitempty"`
	// ExecutionID and Status are those of the run that the call began.
	ExecutionID string        `json:"execution_id,omitempty"`
	Status      events.Status `json:"status,omitempty"`
	// Reusable is true for a run that depended on nothing but its request and
	// changed nothing but its own heap.
	Reusable bool `json:"reusable,omitempty"`
}

// ContextState is a context with what is kept beside it.
type ContextState struct {
	events.ContextRef
	Context Context
	// Tried are the last calls, each once, the newest last.
	Tried []Tried
	// UsedAt is when the context was last used, as far as that is on record.
	UsedAt time.Time
	// Running is how many runs of the context have not ended.
	Running int
	// Empty is true while nothing has happened since the context began.
	Empty bool
	// Seq is the position of the newest event about the context.
	Seq uint64
	// Bytes is the size of the state as stored.
	Bytes int
}

const selectContext = `SELECT context_key, session_id, kind, created_at, updated_at, used_at, running, seq, empty, state FROM contexts`

// Context returns a context by the key it has within its tenant, or
// events.ErrNotFound for one that nothing is on record of.
func (s *Store) Context(ctx context.Context, tenant, key string) (ContextState, error) {
	c, err := scanContext(s.reader.QueryRowContext(ctx, selectContext+" WHERE tenant = ? AND context_key = ?", tenant, key))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ContextState{}, notFound("context", key)
	case err != nil:
		return ContextState{}, fmt.Errorf("read context %s: %w", key, err)
	}
	return c.public(), nil
}

// IdleContext names a context that nobody has used for some time.
type IdleContext struct {
	Tenant string
	events.ContextRef
	UsedAt time.Time
}

// IdleContexts returns up to limit contexts of all tenants that were not used since a
// time and have no run in progress, the least recently used first. An empty context is
// returned if it is one of a connection: its row is removed when it expires.
func (s *Store) IdleContexts(ctx context.Context, since time.Time, limit int) ([]IdleContext, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT tenant, context_key, session_id, kind, used_at FROM contexts
		WHERE running = 0 AND (empty = 0 OR kind = 'transport') AND used_at <= ? ORDER BY used_at, tenant, context_key LIMIT ?`, since.UnixMilli(), limit)
	if err != nil {
		return nil, fmt.Errorf("list idle contexts: %w", err)
	}
	defer rows.Close()
	var list []IdleContext
	for rows.Next() {
		var c IdleContext
		var used int64
		if err := rows.Scan(&c.Tenant, &c.Key, &c.SessionID, &c.Kind, &used); err != nil {
			return nil, fmt.Errorf("list idle contexts: %w", err)
		}
		c.UsedAt = time.UnixMilli(used).UTC()
		list = append(list, c)
	}
	return list, rows.Err()
}

// FreshContext is a context in which nothing has happened yet.
func FreshContext(sessionID, at string) Context {
	return Context{
		SchemaVersion: ContextSchemaVersion, SessionID: sessionID, CreatedAt: at, LastUpdatedAt: at,
		RecentToolCalls: []ToolCallRecord{}, FetchedResources: []FetchedResource{}, Custom: map[string]json.RawMessage{},
	}
}
