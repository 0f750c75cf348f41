package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// ContextKind tells what a conversation context belongs to.
type ContextKind string

// The kinds of context, the strongest claim first: a call within a session that
// keeps state uses that session's context, one under a session name the name's,
// and any other its connection's.
const (
	ContextLogical   ContextKind = "logical"
	ContextSession   ContextKind = "session"
	ContextTransport ContextKind = "transport"
)

// ContextKey is the key of a context within its tenant: 256 bits, derived from
// what it belongs to. Names and ids never reach a subject, and no two kinds or
// tenants share a key.
func ContextKey(tenant string, kind ContextKind, name string) string {
	sum := sha256.Sum256([]byte("daybook context\x00" + tenant + "\x00" + string(kind) + "\x00" + name))
	return hex.EncodeToString(sum[:])
}

// ContextRef names a context in what is recorded of it.
type ContextRef struct {
	// Key is the context's key within its tenant.
	Key string `json:"context_key"`
	// SessionID is the id clients know the context by, 256 random bits in 64
	// lowercase hex characters. The first event about a key decides it.
	SessionID string `json:"session_id"`
	// Kind is what the context belongs to.
	Kind ContextKind `json:"context_kind"`
}

// ContextUpdated records what a client has set in a context. It holds all
// preferences and values in force afterwards, so that the last event on its
// subject tells them.
//
// Appended when a client sets something, under the position of the edit before.
type ContextUpdated struct {
	ContextRef
	// Content is what holds from now on.
	Content Content[ContextContent] `json:"content"`
	// Actor set it.
	Actor Actor `json:"actor"`
}

// ContextContent is the erasable part of ContextUpdated.
type ContextContent struct {
	// UserPreferences are those in force.
	UserPreferences UserPreferences `json:"user_preferences"`
	// Custom are the values in force, any JSON by key.
	Custom map[string]json.RawMessage `json:"custom"`
}

// UserPreferences are what a client wants in all answers to come.
type UserPreferences struct {
	// OutputFormat is how texts of answers are written: "json", "markdown" or
	// "plain".
	OutputFormat string `json:"output_format,omitempty"`
	// MaxResults is the length of lists where a call does not say.
	MaxResults int `json:"max_results,omitempty"`
	// Language is a language tag, such as "en" or "pt-BR".
	Language string `json:"language,omitempty"`
}

// ContextCleared records that a context begins anew. What happened in it before
// stays on record.
//
// Appended when a client asks for it.
type ContextCleared struct {
	ContextRef
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// ContextExpired records that a context begins anew because nobody used it for
// long.
//
// Appended when that is noticed: by a sweep, or by the next to use it.
type ContextExpired struct {
	ContextRef
	// LastUse is when it was used last.
	LastUse Instant `json:"last_use"`
	// IdleSecs is how long a context could go unused then, in seconds.
	IdleSecs int64 `json:"idle_secs"`
}

// ContextNoted records the use of a context: calls that leave no event of their
// own, and resources read. Runs are not among them; their requests name the
// context.
//
// Appended soon after the calls, several at once, and before the answer to a
// call that changed something.
type ContextNoted struct {
	ContextRef
	// Since is when it came to be, for the first event about it.
	Since Instant `json:"since"`
	// UsedAt is when it was used last.
	UsedAt Instant `json:"used_at"`
	// Content is what was done, in order.
	Content Content[NotedContent] `json:"content"`
}

// NotedContent is the erasable part of ContextNoted.
type NotedContent struct {
	// Calls are the tool calls.
	Calls []NotedCall `json:"calls,omitempty"`
	// Resources are the resources read.
	Resources []NotedResource `json:"resources,omitempty"`
}

// NotedCall is one tool call, or several with the same arguments in a row.
type NotedCall struct {
	// Tool is the tool's name.
	Tool string `json:"tool"`
	// Arguments are those of the call, with long texts cut and secrets left out.
	Arguments map[string]json.RawMessage `json:"args"`
	// ArgumentsSHA256 is the hash of tool and arguments as they were.
	ArgumentsSHA256 string `json:"args_sha256"`
	// Times is how often it was called in a row; absent for once.
	Times int `json:"times,omitempty"`
	// CalledAt is when it was called; of several, the last.
	CalledAt Instant `json:"called_at"`
	// ResultSummary says in a sentence what came of it.
	ResultSummary string `json:"result_summary"`
	// ResultSHA256 is the hash of the whole answer; empty for an error.
	ResultSHA256 string `json:"result_sha256,omitempty"`
	// Results is how many things the answer lists; absent where it is no list.
	Results *int64 `json:"results,omitempty"`
}

// NotedResource is one resource that was read.
type NotedResource struct {
	// ResourceID is its address.
	ResourceID string `json:"resource_id"`
	// ResourceType is "document", "database_row" or "api_response".
	ResourceType string `json:"resource_type"`
	// FetchedAt is when it was read.
	FetchedAt Instant `json:"fetched_at"`
	// ContentSHA256 is the hash of what was read.
	ContentSHA256 string `json:"content_hash"`
	// Summary is its beginning.
	Summary string `json:"summary"`
}
