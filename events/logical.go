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
	// SessionLogical is opened by intent and used with run_js.
	SessionLogical SessionKind = "logical"
	// SessionLog is a named session: a log of runs. No SessionOpened has this kind.
	SessionLog SessionKind = "named"
	// SessionACP is a session of the Agent Client Protocol.
	SessionACP SessionKind = "acp"
)

// SessionID is the key of a named session: 256 bits, derived from tenant and
// name, so that a name never reaches a subject and two tenants never share
// one.
func SessionID(tenant, name string) string {
	sum := sha256.Sum256([]byte("daybook session\x00" + tenant + "\x00" + name))
	return hex.EncodeToString(sum[:])
}

// NewSessionID mints the key of a session that keeps state: 256 random bits in
// 64 lowercase hex characters. It is derived from nothing, so that nobody can
// guess it who was not told.
func NewSessionID() string {
	var b [32]byte
	// rand.Read never fails: it crashes the program rather than return weak bits.
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// IntentKey is the key of an intent within a tenant: intents are the clients'
// text and never reach a subject.
func IntentKey(tenant, intent string) string {
	sum := sha256.Sum256([]byte("daybook intent\x00" + tenant + "\x00" + intent))
	return hex.EncodeToString(sum[:])
}

// SessionNamed records which session an intent stands for. An intent names one
// session of its tenant, for ever.
//
// Appended when an intent is used for the first time, before the session is
// opened. Its subject holds nothing else, so that of several at once one wins.
type SessionNamed struct {
	// IntentKey is the key of the intent within its tenant.
	IntentKey string `json:"intent_key"`
	// SessionID is the session it stands for.
	SessionID string `json:"session_id"`
}

// SessionOpened records that a session with state of its own was opened: runs
// that take turns in it each start from the heap that the one before left.
//
// Appended when somebody opens a session that is not there yet. It is the first
// event on the session's subject.
type SessionOpened struct {
	// SessionID is the session's key: 256 random bits, 64 lowercase hex characters.
	SessionID string `json:"session_id"`
	// Kind is what the session is used through.
	Kind SessionKind `json:"kind"`
	// Content is what the client said the session is for.
	Content Content[SessionContent] `json:"content"`
	// IntentSHA256 is the hash of the intent; empty without one.
	IntentSHA256 string `json:"intent_sha256,omitempty"`
	// Actor opened it.
	Actor Actor `json:"actor"`
	// Parent is the session this one was split off from.
	Parent string `json:"parent,omitempty"`
	// Head is the heap that the first turn starts from; empty for a fresh isolate.
	Head string `json:"head,omitempty"`
}

// SessionContent is the erasable part of SessionOpened.
type SessionContent struct {
	// Intent is the text the client chose to tell its contexts apart, byte for
	// byte.
	Intent string `json:"intent"`
}

// SessionExpanded records what code in a session was told it may use.
//
// Appended when somebody opens a session with entries that it was not told of
// yet.
type SessionExpanded struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// DomainRevision counts the expansions of the session from 1.
	DomainRevision int64 `json:"domain_revision"`
	// Binding is what the entries were taken from.
	Binding SessionBinding `json:"binding"`
	// Added are the new entries, in the order of their symbols.
	Added []TaughtEntry `json:"added"`
	// Next is where the session's next turn continues, as before.
	Next SessionNext `json:"next"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// TaughtEntry is an entry of the catalogue that a session was told of.
type TaughtEntry struct {
	// ID is the entry's name in the catalogue.
	ID string `json:"id"`
	// SHA256 is the hash of its declaration.
	SHA256 string `json:"sha256"`
	// Symbol is the short name it has in the session, "t1" and so on. A symbol
	// never changes its meaning.
	Symbol string `json:"symbol"`
}

// SessionBinding is what the symbols of a session hold for.
type SessionBinding struct {
	// Primary is the first of the catalogue's sources used, in lexicographic order.
	Primary string `json:"primary"`
	// CatalogSHA256 is the hash of what the sources used had to offer.
	CatalogSHA256 string `json:"catalog_sha256"`
	// EngineID is the engine that the session's heap is restored by.
	EngineID string `json:"engine_id,omitempty"`
	// Principal is who the sources are used as; empty where that makes no
	// difference.
	Principal string `json:"principal,omitempty"`
}

// SessionNext is where the next turn of a session continues. Every event of a
// session repeats it, so that the last one alone tells.
type SessionNext struct {
	// Turn is the number of the last turn, and ExecutionID its run; 0 and empty
	// before the first.
	Turn        int64  `json:"turn"`
	ExecutionID string `json:"execution_id,omitempty"`
	// Reset is true when the next turn starts from Heap, whatever the last one
	// leaves. So does the first turn.
	Reset bool   `json:"reset,omitempty"`
	Heap  string `json:"heap,omitempty"`
}

// SessionTurnQueued records that a run has the next turn in a session.
//
// Appended when a run is asked for in the session, before the run's requested
// event. A turn whose request never followed is passed over.
type SessionTurnQueued struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Number counts the session's turns from 1, without gaps.
	Number int64 `json:"number"`
	// ExecutionID is the run whose turn it is.
	ExecutionID string `json:"execution_id"`
	// After is the run of the turn before; empty for the first.
	After string `json:"after,omitempty"`
	// Reset is true when the turn starts from Heap, whatever the one before
	// leaves. So does the first turn. An empty Heap is a fresh isolate.
	Reset bool   `json:"reset,omitempty"`
	Heap  string `json:"heap,omitempty"`
}

// SessionTurnSkipped records that a turn was given up because its run was not
// requested in time. It counts unless the request is on record before it.
//
// Appended by whoever waits for that turn.
type SessionTurnSkipped struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Number and ExecutionID are those of the turn.
	Number      int64  `json:"number"`
	ExecutionID string `json:"execution_id"`
	// Next is where the session's next turn continues, as before.
	Next SessionNext `json:"next"`
}

// SessionRebound records a break in a session's continuity: symbols given out
// before are void, and perhaps the state is.
//
// Appended when somebody opens a session whose heap cannot be restored any more,
// or whose sources have changed.
type SessionRebound struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Reason is a machine-readable cause: "heap_lost", "engine_changed",
	// "catalog_changed" or "principal_changed".
	Reason string `json:"reason"`
	// PreviousHeap and PreviousExecutionID are the state before the break, and the
	// run that left it.
	PreviousHeap        string `json:"previous_heap,omitempty"`
	PreviousExecutionID string `json:"previous_execution_id,omitempty"`
	// Next is where the session's next turn continues.
	Next SessionNext `json:"next"`
	// Actor opened the session.
	Actor Actor `json:"actor"`
}

// SessionRefAssigned records the short name of a session on one connection.
//
// Appended when a session is opened on a connection that has no name for it yet.
type SessionRefAssigned struct {
	// Holder is the key of what the name holds for: a connection, a session header,
	// or a principal.
	Holder string `json:"holder"`
	// Ref is the name: "s0" for the holder's first, and so on.
	Ref string `json:"ref"`
	// SessionID is the session named.
	SessionID string `json:"session_id"`
}

// Turn is a run's place in a session: see SessionTurnQueued, which it repeats.
type Turn struct {
	// SessionID is the session's key.
	SessionID string `json:"session_id"`
	// Number is that of the turn, from 1.
	Number int64 `json:"number"`
	// After is the run of the turn before; empty for the first.
	After string `json:"after,omitempty"`
	// Reset is true when the turn starts from Heap, whatever the one before
	// leaves; an empty Heap is a fresh isolate.
	Reset bool   `json:"reset,omitempty"`
	Heap  string `json:"heap,omitempty"`
	// QueuedSeq is the position of the turn's SessionTurnQueued.
	QueuedSeq uint64 `json:"queued_seq"`
}
