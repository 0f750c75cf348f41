package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// ContextKind is the kind of key that a conversation context belongs to.
type ContextKind string

// The kinds of conversation context, by precedence. A call within a logical session uses
// the context of that session. A call under a session name uses the context of the name.
// Any other call uses the context of its connection.
const (
	ContextLogical   ContextKind = "logical"
	ContextSession   ContextKind = "session"
	ContextTransport ContextKind = "transport"
)

// ContextKey returns the key of a conversation context within its tenant: 256 bits
// derived from tenant, kind and name. Names and ids therefore never appear in a subject,
// and two kinds or tenants never share a key.
func ContextKey(tenant string, kind ContextKind, name string) string {
	sum := sha256.Sum256([]byte("daybook context\x00" + tenant + "\x00" + string(kind) + "\x00" + name))
	return hex.EncodeToString(sum[:])
}

// ContextRef names a conversation context in events about it.
type ContextRef struct {
	// Key is the context's key within its tenant.
	Key string `json:"context_key"`
	// SessionID is the id under which clients know the context: 256 random bits in 64
	// lowercase hex characters. The first event about a key sets it.
	SessionID string `json:"session_id"`
	// Kind is what the context belongs to.
	Kind ContextKind `json:"context_kind"`
}

// ContextUpdated records preferences and values that a client set in a conversation
// context. It holds all of them, so that the last event on its subject is sufficient.
//
// Appended when a client sets a preference or value, with the position of the previous
// edit as the expected position.
type ContextUpdated struct {
	ContextRef
	// Content holds all preferences and values after the edit.
	Content Content[ContextContent] `json:"content"`
	// Actor made the edit.
	Actor Actor `json:"actor"`
}

// ContextContent is the erasable part of ContextUpdated.
type ContextContent struct {
	// UserPreferences are the current preferences.
	UserPreferences UserPreferences `json:"user_preferences"`
	// Custom holds the current values, any JSON by key.
	Custom map[string]json.RawMessage `json:"custom"`
}

// UserPreferences control all later answers to a client.
type UserPreferences struct {
	// OutputFormat is the format of texts in answers: "json", "markdown" or "plain".
	OutputFormat string `json:"output_format,omitempty"`
	// MaxResults is the length of lists for calls without a limit.
	MaxResults int `json:"max_results,omitempty"`
	// Language is a language tag, such as "en" or "pt-BR".
	Language string `json:"language,omitempty"`
}

// ContextCleared records that a client cleared a conversation context. Earlier events
// stay in the ledger.
//
// Appended when a client clears a context.
type ContextCleared struct {
	ContextRef
	// Actor cleared it.
	Actor Actor `json:"actor"`
}

// ContextExpired records that a conversation context was reset after its idle time.
//
// Appended when the expiry is noticed: by a sweep, or by the next call in the context.
type ContextExpired struct {
	ContextRef
	// LastUse is the time of the last use.
	LastUse Instant `json:"last_use"`
	// IdleSecs is the idle time that was in force, in seconds.
	IdleSecs int64 `json:"idle_secs"`
}

// ContextNoted records uses of a conversation context: tool calls without an event of
// their own, and resources read. Executions are not included because their requests name
// the context.
//
// Appended shortly after the calls, several at once, and before the answer to a call
// that changed something.
type ContextNoted struct {
	ContextRef
	// Since is the creation time of the context, in its first event.
	Since Instant `json:"since"`
	// UsedAt is the time of the last use.
	UsedAt Instant `json:"used_at"`
	// Content lists the uses in order.
	Content Content[NotedContent] `json:"content"`
}

// NotedContent is the erasable part of ContextNoted.
type NotedContent struct {
	// Calls are the tool calls.
	Calls []NotedCall `json:"calls,omitempty"`
	// Resources are the resources read.
	Resources []NotedResource `json:"resources,omitempty"`
}

// NotedCall is a tool call, or consecutive calls with the same arguments.
type NotedCall struct {
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Arguments are the arguments of the call; long texts are cut and secrets redacted.
	Arguments map[string]json.RawMessage `json:"args"`
	// ArgumentsSHA256 is the hash of the tool name and the original arguments.
	ArgumentsSHA256 string `json:"args_sha256"`
	// Times is the number of consecutive calls; absent for one.
	Times int `json:"times,omitempty"`
	// CalledAt is the time of the last of these calls.
	CalledAt Instant `json:"called_at"`
	// ResultSummary describes the result in one sentence.
	ResultSummary string `json:"result_summary"`
	// ResultSHA256 is the hash of the complete answer; empty for an error.
	ResultSHA256 string `json:"result_sha256,omitempty"`
	// Results is the number of items in the answer; absent if it is not a list.
	Results *int64 `json:"results,omitempty"`
}

// NotedResource is a resource that was read.
type NotedResource struct {
	// ResourceID is the address of the resource.
	ResourceID string `json:"resource_id"`
	// ResourceType is "document", "database_row" or "api_response".
	ResourceType string `json:"resource_type"`
	// FetchedAt is the time of the read.
	FetchedAt Instant `json:"fetched_at"`
	// ContentSHA256 is the hash of the content that was read.
	ContentSHA256 string `json:"content_hash"`
	// Summary is the beginning of the content.
	Summary string `json:"summary"`
}
