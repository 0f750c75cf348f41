package contextstore

import (
	"daybook/events"
)

// Key is what a context belongs to, as the server knows it. The zero Key belongs
// to nothing: there is no context.
type Key struct {
	Tenant string
	Kind   events.ContextKind
	// ID is the canonical id of a logical session, a session name, or the id of a
	// connection.
	ID string
	// Principal is the user of the token that the context of a session name is used
	// with, or empty. Contexts of other kinds ignore it: their ids are secrets.
	Principal string
}

// IsZero reports whether there is no context.
func (k Key) IsZero() bool { return k.ID == "" }

// String is the recorded key.
func (k Key) String() string {
	if k.Kind != events.ContextSession || k.Principal == "" {
		return events.ContextKey(k.Tenant, k.Kind, k.ID)
	}
	// No session name contains the separator, so no two keys are equal.
	return events.ContextKey(k.Tenant, k.Kind, k.ID+"\x00"+k.Principal)
}

// sessionID is the id clients are to know a new context by. What is random
// itself is its own; a name gets one.
func (k Key) sessionID() string {
	if k.Kind != events.ContextSession && events.ValidHash(k.ID) {
		return k.ID
	}
	return events.NewSessionID()
}
