package events

// SessionReset records that a session was set to a heap, or to a fresh isolate. A
// logical or ACP session starts its next turn from that heap. A named session has no
// turns: there the heap is its head until a later execution in it saves one.
//
// Appended when a client resets a session. Executions that already have a turn are not
// affected.
type SessionReset struct {
	// SessionID is the session's key.
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
	// IdempotencySHA256 is the hash of the tenant and the idempotency key.
	IdempotencySHA256 string `json:"idempotency_sha256,omitempty"`
	// Actor reset the session.
	Actor Actor `json:"actor"`
}

func (d *SessionReset) subject(tenant string) string {
	if d.Kind == SessionLog {
		return SessionSubject(tenant, d.SessionID)
	}
	return LogicalSubject(tenant, d.SessionID)
}
