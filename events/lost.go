package events

import (
	"cmp"
	"encoding/base64"
	"errors"
	"slices"
)

// tileLeaves is the largest number of leaves that one hash of a LostRange covers.
const tileLeaves = 256

// MaxLostHashes limits the hashes of lost events in one event. Further hashes are
// dropped so that the event does not exceed its size limit.
const MaxLostHashes = 6000

// MaxLostBlobs limits the lost blobs that one event names.
const MaxLostBlobs = 1000

// LostRange is a range of positions whose events were lost, after the operator accepted
// the loss. These positions are never used again.
type LostRange struct {
	// From and To are the first and last position.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// NamedAt is the position of the first event that names the range.
	NamedAt uint64 `json:"named_at"`
	// Hashes, in base64, are the known hashes of the events, in the order of positions.
	// Each is the hash of a leaf or, where 256 positions of the range are a full tile of
	// the tree, of all leaves of the tile. With them every earlier checkpoint still
	// verifies. Empty if no hash is known.
	Hashes []string `json:"hashes,omitempty"`
	// Unreadable is true if each of these positions holds a message that is not an
	// intact event. Readers skip it.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Bounds returns From and To.
func (r LostRange) Bounds() (from, to uint64) { return r.From, r.To }

// LostBlob is a lost heap or text.
type LostBlob struct {
	// Tenant is the owner of the blob.
	Tenant string `json:"tenant"`
	// Kind is "heap" or "text".
	Kind string `json:"kind"`
	// SHA256 is the hash of the content, in hex.
	SHA256 string `json:"sha256"`
}

// LostContent is a lost heap or text of the tenant of an event.
type LostContent struct {
	// Kind is "heap" or "text".
	Kind string `json:"kind"`
	// SHA256 is the hash of the content, in hex.
	SHA256 string `json:"sha256"`
}

// CheckpointRef refers to a known checkpoint.
type CheckpointRef struct {
	// Size is the number of positions that it covers.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
}

// Lost is a list of ranges without overlap, in the order of positions.
type Lost []LostRange

// Missing returns the ranges without stored messages.
func (l Lost) Missing() Lost {
	return slices.DeleteFunc(slices.Clone(l), func(r LostRange) bool { return r.Unreadable })
}

// Unreadable reports whether a lost position holds a message.
func (l Lost) Unreadable(position uint64) bool {
	i, _ := slices.BinarySearchFunc(l, position, func(r LostRange, p uint64) int { return cmp.Compare(r.To, p) })
	return i < len(l) && l[i].From <= position && l[i].Unreadable
}

// HashSegments calls fn in order for each part of a range that has one hash: a full tile
// of the tree, or one position. hash is nil if it is not known. HashSegments returns the
// first error of fn.
func (r LostRange) HashSegments(fn func(from, to uint64, hash []byte) error) error {
	next := r.Hashes
	for from := r.From; from <= r.To; {
		to := from
		if len(r.Hashes) > 0 && (from-1)%tileLeaves == 0 && r.To-from >= tileLeaves-1 {
			to = from + tileLeaves - 1
		}
		var hash []byte
		if len(next) > 0 {
			var err error
			if hash, err = base64.StdEncoding.DecodeString(next[0]); err != nil {
				return err
			}
			next = next[1:]
		}
		if err := fn(from, to, hash); err != nil {
			return err
		}
		from = to + 1
	}
	return nil
}

var errNoHash = errors.New("a lost event has no hash")

// Valid reports whether an event at a position can record these ranges: they MUST be in
// order, end before the position and before the event that named them, and have either all
// of their hashes or none.
func (l Lost) Valid(position uint64) bool {
	last := uint64(0)
	for _, r := range l {
		if r.From <= last || r.To < r.From || r.To >= position || r.NamedAt > position || r.NamedAt <= r.To {
			return false
		}
		if n := len(r.Hashes); n > 0 {
			if r.HashSegments(func(_, _ uint64, hash []byte) error {
				if len(hash) != 32 { // ends the loop: a list from anyone may name any number of positions
					return errNoHash
				}
				n--
				return nil
			}) != nil || n != 0 {
				return false
			}
		}
		last = r.To
	}
	return true
}

// Losses returns all lost positions before the event, of all volumes. It is nil unless
// the volume was opened because of damage, and nil for an event that contradicts itself.
func (d *LedgerVolumeOpened) Losses(position uint64) Lost {
	if d.Reason != VolumeDamaged || d.First != position {
		return nil
	}
	list := d.Lost
	if len(list) == 0 && d.Hole != nil {
		list = Lost{{From: d.Hole.From, To: d.Hole.To, NamedAt: position}}
	}
	if !list.Valid(position) {
		return nil
	}
	return list
}

// AccountsForGap reports whether the event records exactly the positions between the previous
// event (at before) and itself as lost, so that the gap is not damage.
func (d *LedgerVolumeOpened) AccountsForGap(before, position uint64) bool {
	return d.Reason == VolumeDamaged && d.First == position && d.Hole != nil && d.Hole.From == before+1 && d.Hole.To == position-1
}
