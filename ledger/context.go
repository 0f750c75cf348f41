package ledger

import (
	"cmp"

	"daybook/events"
)

// RequestSHA256 returns the hash of everything that a submission asks for, as its
// requested event holds it on a server that keeps heaps. Equal submissions have equal
// hashes, regardless of client and time.
func RequestSHA256(s Submission) string {
	s.FileName = cmp.Or(s.FileName, defaultFileName)
	return fingerprint(s, events.Hash([]byte(s.Code)), true)
}

// checkContext refuses an invalid reference to a conversation context. Adapters make
// these references, not clients.
func checkContext(c *events.ContextRef) error {
	if c != nil && (!events.ValidHash(c.Key) || !events.ValidHash(c.SessionID) || c.Kind == "") {
		return Invalid("context", "the context of a run must have a key, an id and a kind")
	}
	return nil
}
