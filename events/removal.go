package events

import (
	"fmt"
	"time"
)

// LedgerVolumeRemoved records that a volume of the ledger is kept no longer, nor
// are those before it: the stream is removed. The hashes of its events stay, and
// so do all proofs.
//
// Appended when somebody asks for it who has an export of the volume, and before
// the stream goes; a crash between is made good at the next start. What of the
// removed volumes others rest on is kept apart, as it was recorded.
type LedgerVolumeRemoved struct {
	// Volume is the volume's number; every volume before it is removed, too.
	Volume Volume `json:"volume"`
	// First and Last are the positions of the volume's first and last event.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Ended is when its last event was stored.
	Ended Instant `json:"ended"`
	// RootHash is the RFC 6962 tree hash over the leaves of positions 1 to Last, in
	// base64.
	RootHash string `json:"root_hash"`
	// Closing is the signed checkpoint that the volume was sealed with.
	Closing ClosingCheckpoint `json:"closing"`
	// Export is the file of events that an export of the volume has.
	Export VolumeExport `json:"export"`
	// Kept is what is kept of this and earlier volumes.
	Kept KeptEvents `json:"kept"`
	// Actor asked for it.
	Actor Actor `json:"actor"`
}

// VolumeExport describes the file with the events of an exported volume.
type VolumeExport struct {
	// SHA256 is the hash of the file, and Bytes its length.
	SHA256 string `json:"sha256"`
	Bytes  uint64 `json:"bytes"`
	// Events is how many it holds.
	Events uint64 `json:"events"`
}

// KeptEvents describes the events that are kept of removed volumes.
type KeptEvents struct {
	// SHA256 is the key of the text that holds them, of the tenant "@ledger"; empty
	// for none.
	SHA256 string `json:"sha256,omitempty"`
	// Events is how many there are.
	Events int `json:"events"`
}

// Removal is the newest event that says that volumes were removed, at its position
// and time. With a nil event none were.
type Removal struct {
	*LedgerVolumeRemoved
	Seq uint64
	At  time.Time
}

// UpTo is the position up to which volumes were removed.
func (r Removal) UpTo() uint64 {
	if r.LedgerVolumeRemoved == nil {
		return 0
	}
	return r.Last
}

// Gone is the error of what was recorded in the removed volumes. What says which
// that is: "events 1 to 10 were".
func (r Removal) Gone(what string) *RemovedError {
	return &RemovedError{
		What: fmt.Sprintf("%s removed with volume %d of the ledger (positions up to %d; its export has the SHA-256 %s)", what, r.Volume, r.Last, r.Export.SHA256),
		Seq:  r.Seq, At: r.At,
	}
}
