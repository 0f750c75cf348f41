package events

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
)

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

// LogicalSubject is where the events of a session that keeps state are stored.
// Its last message tells where the next turn continues.
func LogicalSubject(tenant, session string) string {
	return tenant + ".logical." + session
}

// IntentSubject is where it is stored which session an intent stands for.
func IntentSubject(tenant, key string) string {
	return tenant + ".intent." + key
}

// RefSubject is where the short names of sessions are stored that hold for one
// connection.
func RefSubject(tenant, holder string) string {
	return tenant + ".ref." + holder
}
