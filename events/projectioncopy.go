package events

// LedgerProjectionsCopied records a projection copy: a compressed copy of the projections of a
// server as of a position. A rebuild of these projections can begin there. It uses a copy only
// if the hash of its file is recorded.
//
// Appended after the copy is on disk. Each server that shares a ledger has copies of its own.
type LedgerProjectionsCopied struct {
	// Volume is the newest sealed volume whose events are all applied in the copy.
	Volume Volume `json:"volume"`
	// Position is the position of the last event that is applied in the copy.
	Position uint64 `json:"position"`
	// Schema is the version of the tables. Only servers with this version use the copy.
	Schema int `json:"schema"`
	// SHA256 is the hash of the compressed file.
	SHA256 string `json:"sha256"`
}
