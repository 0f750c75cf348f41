package events

// LedgerSignersChanged records a signed statement about who signs the checkpoints of the
// ledger: an origin starts, or a key of it is introduced or retired. The statements form a
// list. Verifiers follow it from the keys that they know.
//
// Appended before the first checkpoint of an origin, and when an operator changes its keys.
type LedgerSignersChanged struct {
	// LedgerID is the permanent id of the ledger.
	LedgerID string `json:"ledger_id"`
	// Origin is the name under which checkpoints are signed.
	Origin string `json:"origin"`
	// Number is the index of the statement in the list, from 0.
	Number uint64 `json:"number"`
	// Action is "start", "introduce", "retire" or "root".
	Action string `json:"action"`
	// Key is the verification key that starts the origin, is introduced or retired, or is a
	// root key: an offline key that can introduce and retire others.
	Key string `json:"key"`
	// Ended describes the previous origin; only if this one succeeds it.
	Ended *EndedOrigin `json:"ended,omitempty"`
	// Note is the statement, as a C2SP signed note.
	Note string `json:"note"`
	// Actor made the change; it can be the server.
	Actor Actor `json:"actor"`
}

// EndedOrigin describes an origin that ended because its checkpoints could not be continued.
// The successor confirms the first Size events only.
type EndedOrigin struct {
	// Origin is the name of the origin.
	Origin string `json:"origin"`
	// Size is the number of events that its last checkpoint covers that still holds, or 0.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over them, in base64.
	RootHash string `json:"root_hash"`
	// Reason is why the origin ended, as text.
	Reason string `json:"reason"`
	// Unconfirmed is the newest known checkpoint of the origin, if it does not hold.
	Unconfirmed *CheckpointRef `json:"unconfirmed,omitempty"`
	// Missing are the ranges of lost positions whose hashes are not known.
	Missing []Hole `json:"missing,omitempty"`
}
