package events

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Volume is the number of a volume, from 1. A volume is a JetStream stream that holds a
// consecutive range of positions.
type Volume int

// Stream returns the name of the JetStream stream of the volume, for example
// "LEDGER-0001".
func (v Volume) Stream() string { return fmt.Sprintf("LEDGER-%04d", int(v)) }

// VolumeOf returns the volume of a stream, and false for a name that no volume has.
func VolumeOf(stream string) (Volume, bool) {
	digits, ok := strings.CutPrefix(stream, "LEDGER-")
	n, err := strconv.Atoi(digits)
	if v := Volume(n); ok && err == nil && n > 0 && v.Stream() == stream {
		return v, true
	}
	return 0, false
}

// VolumeInfo describes a volume that is not removed.
type VolumeInfo struct {
	Number Volume
	// First and Last are the positions of its first and last event. Last is First-1 if
	// there is none.
	First, Last uint64
	// Bytes is the size of its events on disk.
	Bytes uint64
	// Subjects is the number of subjects of its events, 0 if it is archived. Each takes memory
	// of the NATS server.
	Subjects uint64
	// Sealed reports whether the volume takes no more events. Archived reports whether its
	// events are in an archive and no more in a stream.
	Sealed, Archived bool
	// Began and Ended are the times of its first and last event, zero if there is none.
	Began, Ended time.Time
}

// ErrEmptyVolume is returned for a volume that holds no event, or only its opening.
var ErrEmptyVolume = errors.New("the volume holds no event except its opening")

// LedgerCheckpointed records a signed checkpoint: the first Size events of the ledger
// have the Merkle tree hash RootHash. It covers everything before it, earlier
// checkpoints included.
//
// Appended at most once a second while events are recorded, on demand, and when the
// server stops.
type LedgerCheckpointed struct {
	// LedgerID is the permanent id of the ledger.
	LedgerID string `json:"ledger_id"`
	// Origin is the name under which the checkpoint is signed, its first line.
	Origin string `json:"origin"`
	// Size is the number of events that the checkpoint covers: positions 1 to Size.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
	// Note is the complete signed checkpoint, as a C2SP signed note.
	Note string `json:"note"`
}

// LedgerVolumeSealed records that a volume of the ledger was sealed: no event is
// appended to it afterwards. The next volume takes all later events.
//
// Appended when a volume is sealed, as its last event. If several processes write to one
// ledger, some of their events can follow it; the opening event of the next volume
// states the real end.
type LedgerVolumeSealed struct {
	// Volume is the number of the volume, from 1.
	Volume Volume `json:"volume"`
	// First is the position of the first event of the volume.
	First uint64 `json:"first"`
	// Reason is the cause: "size", "age" or "asked".
	Reason VolumeReason `json:"reason"`
	// Closing is the signed checkpoint of everything before this event; absent if no
	// proofs are stored.
	Closing *ClosingCheckpoint `json:"closing,omitempty"`
	// Actor sealed the volume; it can be the server.
	Actor Actor `json:"actor"`
}

// ClosingCheckpoint is a signed checkpoint in the last event of a volume. Its members
// are those of LedgerCheckpointed.
type ClosingCheckpoint struct {
	// Origin is the name under which the checkpoint is signed.
	Origin string `json:"origin"`
	// Size is the number of events that the checkpoint covers: positions 1 to Size.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
	// Note is the complete signed checkpoint, as a C2SP signed note.
	Note string `json:"note"`
}

// LedgerVolumeOpened records that a volume of the ledger was opened after another.
//
// Appended as the first event of every volume but the first.
type LedgerVolumeOpened struct {
	// Volume is the number of the new volume.
	Volume Volume `json:"volume"`
	// First is the position of this event.
	First uint64 `json:"first"`
	// Predecessor is the previous volume.
	Predecessor Predecessor `json:"predecessor"`
	// Reason is why the previous volume ended: "size", "age", "asked" or "damage".
	Reason VolumeReason `json:"reason"`
	// Hole is the range of positions between the two volumes without an event; only if
	// the reason is "damage".
	Hole *Hole `json:"hole,omitempty"`
	// Lost lists all lost positions of the ledger, of all volumes, including those of
	// earlier openings, with the known hashes; only if the reason is "damage".
	Lost Lost `json:"lost,omitempty"`
	// LostBlobs are the texts of the ledger itself that were found missing, at most 1000.
	// BlobsLost lists the heaps and texts of tenants. Openings of earlier versions list those
	// of all tenants.
	LostBlobs []LostBlob `json:"lost_blobs,omitempty"`
	// Signed is the newest checkpoint known when the loss was accepted.
	Signed *CheckpointRef `json:"signed,omitempty"`
	// Kept is the directory, within the data directory, where the damaged files are kept
	// unchanged.
	Kept string `json:"kept,omitempty"`
	// Note is a human-readable description of the damage; only if that is the reason.
	Note string `json:"note,omitempty"`
	// Actor opened the volume; it can be the server.
	Actor Actor `json:"actor"`
}

// BlobsLost records heaps and texts of a tenant that were found missing when damage was
// accepted. They count as not named by earlier events.
//
// Appended after the opening of the volume in which the ledger continues, as often as
// needed for all lost heaps and texts of the tenant.
type BlobsLost struct {
	// Volume is the number of that volume.
	Volume Volume `json:"volume"`
	// Blobs are the heaps and texts, at most 1000.
	Blobs []LostContent `json:"blobs"`
	// Actor accepted the damage; it can be the server.
	Actor Actor `json:"actor"`
}

// Of returns the lost heaps and texts with their tenant.
func (d *BlobsLost) Of(tenant string) []LostBlob {
	list := make([]LostBlob, len(d.Blobs))
	for i, b := range d.Blobs {
		list[i] = LostBlob{Tenant: tenant, Kind: b.Kind, SHA256: b.SHA256}
	}
	return list
}

// VisibleTo returns an event as a tenant may see it. Openings of earlier versions list lost
// heaps and texts of all tenants, in the note too: VisibleTo removes those of other tenants,
// and the note with them. It changes no other event.
func (e Event) VisibleTo(tenant string) Event {
	d, ok := e.Data.(*LedgerVolumeOpened)
	isOthers := func(l LostBlob) bool { return l.Tenant != tenant && l.Tenant != LedgerTenant }
	if !ok || !slices.ContainsFunc(d.LostBlobs, isOthers) {
		return e
	}
	seen := *d
	seen.LostBlobs, seen.Note = slices.DeleteFunc(slices.Clone(d.LostBlobs), isOthers), ""
	e.Data = &seen
	return e
}

// Predecessor describes the previous volume at the time of the opening.
type Predecessor struct {
	// Volume is its number.
	Volume Volume `json:"volume"`
	// First and Last are the positions of its first and last event.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// LastID is the id of its last event.
	LastID string `json:"last_id"`
}

// Hole is a range of positions without events, ends included.
type Hole struct {
	// From and To are the first and last position.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// VolumeReason is why a volume ended.
type VolumeReason string

// A volume ends because it reached its size, its month ended, an operator sealed it, or
// the operator accepted damage in it.
const (
	VolumeFull    VolumeReason = "size"
	VolumeAged    VolumeReason = "age"
	VolumeAsked   VolumeReason = "asked"
	VolumeDamaged VolumeReason = "damage"
)
