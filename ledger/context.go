package ledger

import (
	"cmp"

	"daybook/events"
)

// RequestSHA256 is the hash of everything a submission asks for, as its requested
// event will carry it on a server that keeps heaps: equal submissions have equal
// ones, whoever makes them and when.
func RequestSHA256(s Submission) string {
	s.FileName = cmp.Or(s.FileName, defaultFileName)
	return fingerprint(s, events.Hash([]byte(s.Code)), true)
}

// checkContext refuses what is no name of a context. Adapters make them, not
// clients.
func checkContext(c *events.ContextRef) error {
	if c != nil && (!events.ValidHash(c.Key) || !events.ValidHash(c.SessionID) || c.Kind == "") {
		return Invalid("context", "the context of a run must have a key, an id and a kind")
	}
	return nil
}
