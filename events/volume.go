package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Volume is one stretch of the ledger: a stream that begins past its
// predecessor's last sequence. It counts from 1.
type Volume int

// Stream is the name of the volume's JetStream stream, for example
// "LEDGER-0001".
func (v Volume) Stream() string { return fmt.Sprintf("LEDGER-%04d", int(v)) }

// VolumeOf reads a volume from the name of its stream, with false for the name
// of anything else.
func VolumeOf(stream string) (Volume, bool) {
	digits, ok := strings.CutPrefix(stream, "LEDGER-")
	n, err := strconv.Atoi(digits)
	if v := Volume(n); ok && err == nil && n > 0 && v.Stream() == stream {
		return v, true
	}
	return 0, false
}

// LedgerCheckpointed records a signed statement of what the ledger held: its
// first Size events have the Merkle tree hash RootHash. It binds everything
// before it, earlier checkpoints included.
//
// Appended at most once a second while events are recorded, on demand, and when
// the server stops.
type LedgerCheckpointed struct {
	// LedgerID is the ledger's own id, minted once.
	LedgerID string `json:"ledger_id"`
	// Origin is the name the checkpoint is signed under, its first line.
	Origin string `json:"origin"`
	// Size is how many events the checkpoint covers: those at positions 1 to
	// Size.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
	// Note is the whole signed checkpoint, as a C2SP signed note.
	Note string `json:"note"`
}

// LedgerVolumeSealed records that a volume of the ledger is complete: nothing is
// written to it any more. What follows is in the next volume.
//
// Appended when a volume is sealed, as its last event. Only where several
// processes write to one ledger may some of their events come between it and
// the end; where the volume really ended is what the next one's opening says.
type LedgerVolumeSealed struct {
	// Volume is the volume's number, from 1; it is the stream of that number.
	Volume Volume `json:"volume"`
	// First is the position of the volume's first event.
	First uint64 `json:"first"`
	// Reason tells why: "size", "age" or "asked".
	Reason VolumeReason `json:"reason"`
	// Closing is the signed checkpoint of everything before this event; absent
	// where no proofs are kept.
	Closing *ClosingCheckpoint `json:"closing,omitempty"`
	// Actor asked for it, or is the server itself.
	Actor Actor `json:"actor"`
}

// ClosingCheckpoint is a signed statement of what the ledger held when a volume
// was sealed. Its members are those of LedgerCheckpointed.
type ClosingCheckpoint struct {
	// Origin is the name the checkpoint is signed under.
	Origin string `json:"origin"`
	// Size is how many events the checkpoint covers: those at positions 1 to
	// Size.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
	// Note is the whole signed checkpoint, as a C2SP signed note.
	Note string `json:"note"`
}

// LedgerVolumeOpened records that a volume of the ledger follows another.
//
// Appended as the first event of every volume but the first.
type LedgerVolumeOpened struct {
	// Volume is the new volume's number.
	Volume Volume `json:"volume"`
	// First is the position of this event.
	First uint64 `json:"first"`
	// Predecessor is the volume that it follows.
	Predecessor Predecessor `json:"predecessor"`
	// Reason tells why the volume before it ended: "size", "age", "asked" or
	// "damage".
	Reason VolumeReason `json:"reason"`
	// Hole are the positions between the two volumes that no event has; only
	// where the reason is "damage".
	Hole *Hole `json:"hole,omitempty"`
	// Lost are all positions of the ledger that no event has any more, in whatever
	// volume, also those that an earlier opening named, and what is known of them;
	// only where the reason is "damage".
	Lost Lost `json:"lost,omitempty"`
	// LostBlobs are the heaps and texts that were found missing, at most 1000.
	LostBlobs []LostBlob `json:"lost_blobs,omitempty"`
	// Signed is the newest checkpoint known of when the loss was accepted.
	Signed *Covers `json:"signed,omitempty"`
	// Kept is the directory, in that of the data, that the damaged files were moved
	// to as they were found.
	Kept string `json:"kept,omitempty"`
	// Note tells what was found damaged, for people; only where that is the
	// reason.
	Note string `json:"note,omitempty"`
	// Actor asked for it, or is the server itself.
	Actor Actor `json:"actor"`
}

// Fills reports whether the event names exactly the positions between the last
// event before it and its own as lost, so that their absence is no damage.
func (d *LedgerVolumeOpened) Fills(before, position uint64) bool {
	return d.Reason == VolumeDamaged && d.First == position && d.Hole != nil && d.Hole.From == before+1 && d.Hole.To == position-1
}

// Predecessor is a volume as it was when the next one was opened.
type Predecessor struct {
	// Volume is its number.
	Volume Volume `json:"volume"`
	// First and Last are the positions of its first and last event.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// LastID is the id of its last event.
	LastID string `json:"last_id"`
}

// Hole is a range of positions, both included, that hold no event.
type Hole struct {
	// From and To are its first and its last position.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// VolumeReason tells why a volume ended.
type VolumeReason string

// Why a volume ends: it has grown to its size, its month is over, somebody
// asked, or it is damaged and that was accepted.
const (
	VolumeFull    VolumeReason = "size"
	VolumeAged    VolumeReason = "age"
	VolumeAsked   VolumeReason = "asked"
	VolumeDamaged VolumeReason = "damage"
)
