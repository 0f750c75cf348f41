package events

import "time"

// SessionShredded records that the content of a session's runs is erased: source,
// output, results, errors, the tags they gave, the heaps they left. It was
// encrypted under the keys named here, which are destroyed. What is on record
// besides stays, and so do all proofs.
//
// Appended when somebody asks for it and no run of the session is under way,
// before the keys are destroyed; a crash between is made good at the next start.
type SessionShredded struct {
	// SessionID is the session's key; Session the name it goes by.
	SessionID string `json:"session_id"`
	Session   string `json:"session"`
	// KeyIDs are the keys that are destroyed.
	KeyIDs []string `json:"key_ids"`
	// Executions counts the runs whose content is erased.
	Executions int `json:"executions"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// Shredded is the error of content that an event says was erased.
func Shredded(session string, seq uint64, at time.Time) *RemovedError {
	return &RemovedError{What: "the content of session \"" + session + "\" was shredded", Seq: seq, At: at}
}
