package events

import "time"

// SessionShredded records that the content of the executions of a session was shredded:
// source, output, results, errors, tags, saved heaps. It was encrypted under the keys
// named here, which are destroyed. All other events and all proofs remain.
//
// Appended when a client shreds a session that has no execution in progress, before the
// keys are destroyed. After a crash between the two, the next start destroys them.
type SessionShredded struct {
	// SessionID is the key of the session; Session its name.
	SessionID string `json:"session_id"`
	Session   string `json:"session"`
	// KeyIDs are the ids of the destroyed keys.
	KeyIDs []string `json:"key_ids"`
	// Executions is the number of executions whose content was shredded.
	Executions int `json:"executions"`
	// Actor shredded the session.
	Actor Actor `json:"actor"`
}

// Shredded returns the error of shredded content. seq and at are those of the event that
// records it.
func Shredded(session string, seq uint64, at time.Time) *RemovedError {
	return &RemovedError{What: "the content of session \"" + session + "\" was shredded", Seq: seq, At: at}
}
