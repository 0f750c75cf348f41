package contextstore

import (
	"daybook/events"
)

// Key selects a context. The adapters build it; see the package comment. The zero Key
// selects no context.
type Key struct {
	Tenant string
	Kind   events.ContextKind
	// ID is the canonical id of a logical session, a session name, or the id of a
	// connection.
	ID string
	// Principal is the user of the token if Kind is events.ContextSession, or empty.
	// Principal is ignored for other kinds, because their ids are secrets.
	Principal string
}

// IsZero reports whether k selects no context.
func (k Key) IsZero() bool { return k.ID == "" }

// String returns the recorded key.
func (k Key) String() string {
	if k.Kind != events.ContextSession || k.Principal == "" {
		return events.ContextKey(k.Tenant, k.Kind, k.ID)
	}
	// No session name contains the separator, so two different keys never have equal
	// texts.
	return events.ContextKey(k.Tenant, k.Kind, k.ID+"\x00"+k.Principal)
}

// sessionID returns the id under which clients know a new context. A random id in the
// key is used unchanged. For a session name, the context gets a new random id.
func (k Key) sessionID() string {
	if k.Kind != events.ContextSession && events.ValidHash(k.ID) {
		return k.ID
	}
	return events.NewSessionID()
}
