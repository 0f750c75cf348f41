package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

// SessionKind is the kind of a session.
type SessionKind string

// The kinds of session.
const (
	// SessionLogical is a logical session: opened by intent and used with run_js.
	SessionLogical SessionKind = "logical"
	// SessionLog is a named session: a log of executions. No SessionOpened has this
	// kind.
	SessionLog SessionKind = "named"
	// SessionACP is an ACP session.
	SessionACP SessionKind = "acp"
	// SessionNone stands for all content that belongs to no session. Only SessionShredded
	// has this kind.
	SessionNone SessionKind = "none"
)

// NoSessionID returns the key that stands for the content of a tenant that belongs to no
// session: runs without a session, values and notes of conversation contexts, and tags that
// clients set.
func NoSessionID(tenant string) string {
	sum := sha256.Sum256([]byte("daybook no session\x00" + tenant))
	return hex.EncodeToString(sum[:])
}

// IntentIndexID returns the key that stands for the intents of a tenant. Its content key is
// not used for content: keyed hashes of intents under it find the session of an intent.
func IntentIndexID(tenant string) string {
	sum := sha256.Sum256([]byte("daybook intents\x00" + tenant))
	return hex.EncodeToString(sum[:])
}

// SessionID returns the key of a named session: 256 bits derived from tenant and name.
// Names therefore never appear in a subject, and two tenants never share a key.
func SessionID(tenant, name string) string {
	sum := sha256.Sum256([]byte("daybook session\x00" + tenant + "\x00" + name))
	return hex.EncodeToString(sum[:])
}

// NewSessionID returns a new key for a logical or ACP session: 256 random bits in 64
// lowercase hex characters. It cannot be guessed.
func NewSessionID() string {
	var b [32]byte
	// rand.Read never fails: it crashes the program rather than return weak bits.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// IntentKey returns the key of an intent within a tenant. Intents are texts of clients
// and never appear in a subject.
func IntentKey(tenant, intent string) string {
	sum := sha256.Sum256([]byte("daybook intent\x00" + tenant + "\x00" + intent))
	return hex.EncodeToString(sum[:])
}

// SessionNamed records the logical session of an intent. An intent permanently names one
// session of its tenant.
//
// Appended when an intent is used for the first time, before the session is opened. Its
// subject holds nothing else, so that only one of several concurrent appends succeeds.
type SessionNamed struct {
	// IntentKey is the key of the intent within its tenant. If content is encrypted, it is
	// a keyed hash.
	IntentKey string `json:"intent_key"`
	// SessionID is the session of the intent.
	SessionID string `json:"session_id"`
}

// SessionOpened records that a logical or ACP session was opened. Each turn in it starts
// from the heap of the turn before.
//
// Appended when a client opens a session that does not exist. It is the first event on
// the subject of the session.
type SessionOpened struct {
	// SessionID is the id of the session: 256 random bits, 64 lowercase hex characters.
	SessionID string `json:"session_id"`
	// Kind is the kind of the session.
	Kind SessionKind `json:"kind"`
	// Content is the purpose that the client stated.
	Content Content[SessionContent] `json:"content"`
	// IntentSHA256 is the hash of the intent, a keyed one if Content is encrypted; empty
	// without an intent.
	IntentSHA256 string `json:"intent_sha256,omitempty"`
	// Actor opened it.
	Actor Actor `json:"actor"`
	// Parent is the session that this one was forked from.
	Parent string `json:"parent,omitempty"`
	// Head is the heap that the first turn starts from; empty for a fresh isolate.
	Head string `json:"head,omitempty"`
}

// SessionContent is the erasable part of SessionOpened.
type SessionContent struct {
	// Intent is the text that the client chose to distinguish its sessions, byte for
	// byte.
	Intent string `json:"intent"`
}

// SessionExpanded records catalog entries that were added to a session.
//
// Appended when a client opens a session with entries that the session does not have.
type SessionExpanded struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// DomainRevision counts the expansions of the session from 1.
	DomainRevision int64 `json:"domain_revision"`
	// Binding names the sources of the entries.
	Binding SessionBinding `json:"binding"`
	// Added are the new entries, in the order of their symbols.
	Added []TaughtEntry `json:"added"`
	// Next is the start of the next turn, unchanged.
	Next SessionNext `json:"next"`
	// Actor opened the session.
	Actor Actor `json:"actor"`
}

// TaughtEntry is a catalog entry that a session has.
type TaughtEntry struct {
	// ID is the name of the entry in the catalog.
	ID string `json:"id"`
	// SHA256 is the hash of its declaration.
	SHA256 string `json:"sha256"`
	// Symbol is its short name in the session, "t1" and so on. The meaning of a symbol
	// never changes.
	Symbol string `json:"symbol"`
}

// SessionBinding is what the symbols of a session depend on.
type SessionBinding struct {
	// Primary is the first source used, in lexicographic order.
	Primary string `json:"primary"`
	// CatalogSHA256 is the hash of the entries that the used sources offered.
	CatalogSHA256 string `json:"catalog_sha256"`
	// EngineID is the engine that restores the heap of the session.
	EngineID string `json:"engine_id,omitempty"`
	// Principal is the identity under which the sources are used; empty if the sources
	// do not depend on it.
	Principal string `json:"principal,omitempty"`
}

// SessionNext is the start of the next turn of a session. Every event of a session
// repeats it, so that the last one is sufficient.
type SessionNext struct {
	// Turn is the number of the last turn, and ExecutionID its execution; 0 and empty
	// before the first.
	Turn        int64  `json:"turn"`
	ExecutionID string `json:"execution_id,omitempty"`
	// Reset is true when the next turn starts from Heap instead of the output heap of
	// the last turn. The first turn does too.
	Reset bool   `json:"reset,omitempty"`
	Heap  string `json:"heap,omitempty"`
}

// SessionTurnQueued records that an execution has the next turn in a session.
//
// Appended when an execution is submitted in the session, before its requested event. A
// turn whose request never follows is skipped.
type SessionTurnQueued struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Number counts the session's turns from 1, without gaps.
	Number int64 `json:"number"`
	// ExecutionID is the execution of the turn.
	ExecutionID string `json:"execution_id"`
	// After is the execution of the previous turn; empty for the first.
	After string `json:"after,omitempty"`
	// Reset is true when the turn starts from Heap instead of the output heap of the
	// previous turn. The first turn does too. An empty Heap is a fresh isolate.
	Reset bool   `json:"reset,omitempty"`
	Heap  string `json:"heap,omitempty"`
}

// SessionTurnSkipped records that a turn was skipped because its execution was not
// requested in time. It has no effect if the request was recorded before it.
//
// Appended by the process that waits for that turn.
type SessionTurnSkipped struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Number and ExecutionID are those of the turn.
	Number      int64  `json:"number"`
	ExecutionID string `json:"execution_id"`
	// Next is the start of the next turn, unchanged.
	Next SessionNext `json:"next"`
}

// SessionRebound records a break in the continuity of a session: earlier symbols are
// void, and the state can be lost.
//
// Appended when a client opens a session whose heap cannot be restored, or whose sources
// have changed.
type SessionRebound struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Reason is a machine-readable cause: "heap_lost", "engine_changed",
	// "catalog_changed" or "principal_changed".
	Reason string `json:"reason"`
	// PreviousHeap and PreviousExecutionID are the session head before the break and its
	// execution.
	PreviousHeap        string `json:"previous_heap,omitempty"`
	PreviousExecutionID string `json:"previous_execution_id,omitempty"`
	// Next is the start of the next turn.
	Next SessionNext `json:"next"`
	// Actor opened the session.
	Actor Actor `json:"actor"`
}

// SessionRefAssigned records the short name of a session on one connection.
//
// Appended when a session is opened on a connection that has no name for it.
type SessionRefAssigned struct {
	// Holder is the key of the scope of the name: a connection, a session header, or a
	// principal.
	Holder string `json:"holder"`
	// Ref is the name: "s0" for the holder's first, and so on.
	Ref string `json:"ref"`
	// SessionID is the named session.
	SessionID string `json:"session_id"`
}

// Turn is the turn of an execution in a session. It repeats the SessionTurnQueued.
type Turn struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Number is the number of the turn, from 1.
	Number int64 `json:"number"`
	// After is the execution of the previous turn; empty for the first.
	After string `json:"after,omitempty"`
	// Reset is true when the turn starts from Heap instead of the output heap of the
	// previous turn; an empty Heap is a fresh isolate.
	Reset bool   `json:"reset,omitempty"`
	Heap  string `json:"heap,omitempty"`
	// QueuedSeq is the position of the turn's SessionTurnQueued.
	QueuedSeq uint64 `json:"queued_seq"`
}

// SessionReset records that a session was set to a heap, or to a fresh isolate. A
// logical or ACP session starts its next turn from that heap. A named session has no
// turns: there the heap is its head until a later execution in it saves one.
//
// Appended when a client resets a session. Executions that already have a turn are not
// affected.
type SessionReset struct {
	// SessionID is the id of the session.
	SessionID string `json:"session_id"`
	// Kind is the kind of the session.
	Kind SessionKind `json:"kind"`
	// Session is the name of a named session.
	Session string `json:"session,omitempty"`
	// Heap is the new session head; empty for a fresh isolate.
	Heap string `json:"heap,omitempty"`
	// Next is the start of the next turn of a logical or ACP session.
	Next *SessionNext `json:"next,omitempty"`
	// Entries is the number of entries that the log of a named session has.
	Entries int64 `json:"entries,omitempty"`
	// IdempotencySHA256 is the hash of the tenant and the idempotency key, a keyed one if
	// IdempotencyKeyID is set.
	IdempotencySHA256 string `json:"idempotency_sha256,omitempty"`
	// IdempotencyKeyID is the id of the content key of the keyed hash. Once that key is
	// destroyed, a repeated reset is a new one.
	IdempotencyKeyID string `json:"idempotency_key_id,omitempty"`
	// Actor reset the session.
	Actor Actor `json:"actor"`
}

func (d *SessionReset) subject(tenant string) string {
	if d.Kind == SessionLog {
		return SessionSubject(tenant, d.SessionID)
	}
	return LogicalSubject(tenant, d.SessionID)
}
