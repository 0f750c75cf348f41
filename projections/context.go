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

// contextSchemaVersion is the version of the JSON form of Context.
const contextSchemaVersion = 1

// Context is a conversation context as clients see it. Its JSON form is documented.
type Context struct {
	SchemaVersion int `json:"schema_version"`
	// SessionID is the id by which clients know the context, 64 hex characters.
	SessionID string `json:"session_id"`
	// CreatedAt is when the context was created or last reset. LastUpdatedAt is when it
	// last changed.
	CreatedAt       string                 `json:"created_at"`
	LastUpdatedAt   string                 `json:"last_updated_at"`
	UserPreferences events.UserPreferences `json:"user_preferences"`
	// RecentToolCalls holds the last calls, oldest first. SummaryBeforeWindow
	// summarizes the earlier ones.
	RecentToolCalls []ToolCallRecord `json:"recent_tool_calls"`
	// FetchedResources holds the last resources read, each once.
	FetchedResources []FetchedResource `json:"fetched_resources"`
	// Custom holds values that the client has set.
	Custom map[string]json.RawMessage `json:"custom"`
	// SummaryBeforeWindow summarizes the calls before RecentToolCalls. WindowStartIndex
	// is their number.
	SummaryBeforeWindow string `json:"summary_before_window,omitempty"`
	WindowStartIndex    int    `json:"window_start_index,omitempty"`
	// Warnings contain the reason why nothing is kept in the context. They are never
	// stored.
	Warnings []string `json:"warnings,omitempty"`
}

// ToolCallRecord is one call, or several consecutive calls with the same arguments.
type ToolCallRecord struct {
	Tool string `json:"tool"`
	// Args holds the arguments; long texts are cut and secrets are omitted.
	Args          map[string]json.RawMessage `json:"args"`
	CalledAt      string                     `json:"called_at"`
	ResultSummary string                     `json:"result_summary"`
	// ExecutionID is the execution that the call submitted; empty for none.
	ExecutionID string `json:"execution_id,omitempty"`
	// Times is the number of consecutive calls if it is more than one, otherwise 0.
	Times int `json:"times,omitempty"`
}

// FetchedResource is a resource that was read.
type FetchedResource struct {
	ResourceID string `json:"resource_id"`
	// ResourceType is "document", "database_row" or "api_response".
	ResourceType string `json:"resource_type"`
	FetchedAt    string `json:"fetched_at"`
	// ContentHash is the SHA-256 of the content.
	ContentHash string `json:"content_hash"`
	Summary     string `json:"summary"`
}

// PriorCall is an earlier call.
type PriorCall struct {
	// ArgsSHA256 identifies the call: for a run the hash of its request, for any other
	// call the hash of tool and arguments.
	ArgsSHA256 string `json:"args_sha256"`
	Tool       string `json:"tool"`
	CalledAt   string `json:"called_at"`
	Times      int    `json:"times"`
	Summary    string `json:"summary"`
	// Results is the number of items in the answer; nil if the answer was no list.
	Results *int64 `json:"results,omitempty"`
	// ResultSHA256 is the hash of the answer.
	ResultSHA256 string `json:"result_sha256,omitempty"`
	// ExecutionID and Status describe the run that the call submitted.
	ExecutionID string        `json:"execution_id,omitempty"`
	Status      events.Status `json:"status,omitempty"`
	// Reusable is true for a run that depended only on its request and changed only its
	// own heap.
	Reusable bool `json:"reusable,omitempty"`
}

// ContextState is a conversation context with its stored details.
type ContextState struct {
	events.ContextRef
	Context Context
	// PriorCalls holds the last calls, each once, the newest last.
	PriorCalls []PriorCall
	// UsedAt is when the context was last used, as far as that is recorded.
	UsedAt time.Time
	// Running is the number of runs of the context that have not ended.
	Running int
	// Empty is true if nothing has happened since the context was created or reset.
	Empty bool
	// Seq is the position of the newest event about the context.
	Seq uint64
	// Bytes is the stored size of the state, in bytes.
	Bytes int
}

const selectContext = `SELECT context_key, session_id, kind, created_at, updated_at, used_at, running, seq, empty, state FROM contexts`

// Context returns a conversation context by its key within the tenant. It returns
// events.ErrNotFound if no event of the context is applied.
func (s *Store) Context(ctx context.Context, tenant, key string) (ContextState, error) {
	c, err := scanContext(s.reader.QueryRowContext(ctx, selectContext+" WHERE tenant = ? AND context_key = ?", tenant, key))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return ContextState{}, notFound("context", key)
	case err != nil:
		return ContextState{}, fmt.Errorf("read context %s: %w", key, err)
	}
	return c.toState(), nil
}

// IdleContext identifies a conversation context that has not been used for some time.
type IdleContext struct {
	Tenant string
	events.ContextRef
	UsedAt time.Time
}

// IdleContexts returns up to limit conversation contexts of all tenants that were not
// used since a time and have no run in progress, the least recently used first. It
// includes empty contexts of transport sessions, because their rows are removed when
// they expire.
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

// NewContext returns a conversation context in which nothing has happened yet.
func NewContext(sessionID, at string) Context {
	return Context{
		SchemaVersion: contextSchemaVersion, SessionID: sessionID, CreatedAt: at, LastUpdatedAt: at,
		RecentToolCalls: []ToolCallRecord{}, FetchedResources: []FetchedResource{}, Custom: map[string]json.RawMessage{},
	}
}
