package events

import (
	"fmt"
	"strings"
	"time"
)

// LedgerVolumeRemoved records that a volume of the ledger and all volumes before it were
// removed: their streams are deleted. The hashes of their events and all proofs remain.
//
// Appended when an operator who has an export of the volume removes it, before the
// stream is deleted. After a crash between the two, the next start finishes the removal.
// Events of the removed volumes that later state depends on are kept as recorded.
type LedgerVolumeRemoved struct {
	// Volume is the number of the volume; every volume before it is removed too.
	Volume Volume `json:"volume"`
	// First and Last are the positions of the volume's first and last event.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Ended is when the last event of the volume was stored.
	Ended Instant `json:"ended"`
	// RootHash is the RFC 6962 tree hash over the leaves of positions 1 to Last, in
	// base64.
	RootHash string `json:"root_hash"`
	// Closing is the signed checkpoint from the end of the volume.
	Closing ClosingCheckpoint `json:"closing"`
	// Export describes the file of events in the export of the volume.
	Export VolumeExport `json:"export"`
	// Kept describes the kept events of this and earlier volumes.
	Kept KeptEvents `json:"kept"`
	// Actor removed the volume.
	Actor Actor `json:"actor"`
}

// VolumeExport describes the file with the events of an exported volume.
type VolumeExport struct {
	// SHA256 is the hash of the file, and Bytes its length.
	SHA256 string `json:"sha256"`
	Bytes  uint64 `json:"bytes"`
	// Events is the number of events in the file.
	Events uint64 `json:"events"`
}

// KeptEvents describes the kept events of removed volumes.
type KeptEvents struct {
	// SHA256 is the key of the text that holds them, of the tenant "@ledger"; empty for
	// none.
	SHA256 string `json:"sha256,omitempty"`
	// Events is the number of kept events.
	Events int `json:"events"`
}

// Removal is the newest event that records removed volumes, with its position and time.
// The event is nil if no volume was removed.
type Removal struct {
	*LedgerVolumeRemoved
	Seq uint64
	At  time.Time
}

// UpTo returns the position up to which volumes were removed.
func (r Removal) UpTo() uint64 {
	if r.LedgerVolumeRemoved == nil {
		return 0
	}
	return r.Last
}

// Gone returns the error of data in removed volumes. what names it with a verb: "events
// 1 to 10 were".
func (r Removal) Gone(what string) *RemovedError {
	return &RemovedError{
		What: fmt.Sprintf("%s removed with volume %d of the ledger (positions up to %d; its export has the SHA-256 %s)", what, r.Volume, r.Last, r.Export.SHA256),
		Seq:  r.Seq, At: r.At,
	}
}

// NotRemovableError holds the reasons why a volume cannot be removed.
type NotRemovableError struct {
	Volume Volume
	// Reasons are human-readable sentences, at least one.
	Reasons []string
}

// Error lists the reasons.
func (e *NotRemovableError) Error() string {
	return fmt.Sprintf("volume %d cannot be removed: %s", e.Volume, strings.Join(e.Reasons, "; "))
}

// SessionShredded records that the content of a session was shredded, or all content that
// belongs to no session: source, output, results, errors, tags, saved heaps, prompts and
// their answers, the intent, values of contexts. It was encrypted under the keys named here,
// which are destroyed. All other events and all proofs remain.
//
// Appended when a client shreds a session that has no execution in progress, before the
// keys are destroyed. After a crash between the two, the next start destroys them.
type SessionShredded struct {
	// SessionID is the key of the session; Session the name of a named one.
	SessionID string `json:"session_id"`
	Session   string `json:"session"`
	// Kind is the kind of the session; absent for a named one. It is "none" for content that
	// belongs to no session.
	Kind SessionKind `json:"kind,omitempty"`
	// KeyIDs are the ids of the destroyed keys.
	KeyIDs []string `json:"key_ids"`
	// Executions is the number of executions whose content was shredded.
	Executions int `json:"executions"`
	// Actor shredded the session.
	Actor Actor `json:"actor"`
}

// Label returns a human-readable description of the shredded content.
func (d *SessionShredded) Label() string { return ShredLabel(d.Kind, d.Session, d.SessionID) }

// ShredLabel returns a human-readable description of the content of a session: of a named
// one by its name, of another one by its id, or of none.
func ShredLabel(kind SessionKind, name, id string) string {
	switch kind {
	case SessionNone:
		return "the content without a session"
	case SessionLogical, SessionACP:
		return "the content of session " + id
	default:
		return "the content of session \"" + name + "\""
	}
}

// Shredded returns the error of shredded content. label is that of the event that records
// it, and seq and at are its position and time.
func Shredded(label string, seq uint64, at time.Time) *RemovedError {
	return &RemovedError{What: label + " was shredded", Seq: seq, At: at}
}
