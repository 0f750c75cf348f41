package events

import (
	"cmp"
	"encoding/base64"
	"slices"
)

// TileLeaves is how many leaves one hash of a LostRange may stand for.
const TileLeaves = 256

// MaxLostHashes bounds the hashes that one event keeps of lost events. What is
// known beyond is dropped, so that the event fits its limit.
const MaxLostHashes = 6000

// MaxLostBlobs bounds the blobs that one event names as lost.
const MaxLostBlobs = 1000

// LostRange is positions whose events were lost, and whose loss was accepted.
// Nothing else ever has one of these positions.
type LostRange struct {
	// From and To are its first and its last position.
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	// NamedAt is the position of the event that named the range first.
	NamedAt uint64 `json:"named_at"`
	// Hashes, in base64, are what is known of the events, in the order of the
	// positions: each is the hash of a leaf of the tree or, where 256 positions that
	// are a full tile of it are in the range, of all their leaves. With them every
	// checkpoint of before the loss still verifies. Without any nothing is known.
	Hashes []string `json:"hashes,omitempty"`
	// Unreadable is true where a message is stored at each of these positions that is
	// not an intact event. No reader gets it.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Bounds returns From and To.
func (r LostRange) Bounds() (from, to uint64) { return r.From, r.To }

// LostBlob is content stored apart from its event that was lost.
type LostBlob struct {
	// Tenant is whose it was.
	Tenant string `json:"tenant"`
	// Kind is "heap" or "text".
	Kind string `json:"kind"`
	// SHA256 is the hash of the content, in hex.
	SHA256 string `json:"sha256"`
}

// Covers is a checkpoint that is known of.
type Covers struct {
	// Size is how many positions it covers.
	Size uint64 `json:"size"`
	// RootHash is the RFC 6962 tree hash over their leaves, in base64.
	RootHash string `json:"root_hash"`
}

// Lost are ranges that do not overlap, in the order of their positions.
type Lost []LostRange

// At returns the range that a position is in.
func (l Lost) At(position uint64) (LostRange, bool) {
	i, _ := slices.BinarySearchFunc(l, position, func(r LostRange, p uint64) int { return cmp.Compare(r.To, p) })
	if i == len(l) || l[i].From > position {
		return LostRange{}, false
	}
	return l[i], true
}

// Skip returns the first position from the one given on that is not lost.
func (l Lost) Skip(position uint64) uint64 {
	for {
		r, in := l.At(position)
		if !in {
			return position
		}
		position = r.To + 1
	}
}

// Covers reports whether all positions of a range are lost. An empty one is.
func (l Lost) Covers(from, to uint64) bool { return from > to || l.Skip(from) > to }

// Between counts the lost positions of a range.
func (l Lost) Between(from, to uint64) (n uint64) {
	for _, r := range l {
		if a, b := max(r.From, from), min(r.To, to); a <= b {
			n += b - a + 1
		}
	}
	return n
}

// Missing returns the ranges of which no message is stored.
func (l Lost) Missing() Lost {
	return slices.DeleteFunc(slices.Clone(l), func(r LostRange) bool { return r.Unreadable })
}

// Unreadable reports whether a message is stored at a lost position.
func (l Lost) Unreadable(position uint64) bool {
	r, in := l.At(position)
	return in && r.Unreadable
}

// After returns the first range that ends after a position.
func (l Lost) After(position uint64) (LostRange, bool) {
	for _, r := range l {
		if r.To > position {
			return r, true
		}
	}
	return LostRange{}, false
}

// Pieces calls fn for the parts of a range that one hash is kept for each, in
// order, with the hash if it is known: a full tile of the tree, or one position.
func (r LostRange) Pieces(fn func(from, to uint64, hash []byte) error) error {
	next := r.Hashes
	for from := r.From; from <= r.To; {
		to := from
		if len(r.Hashes) > 0 && (from-1)%TileLeaves == 0 && r.To-from >= TileLeaves-1 {
			to = from + TileLeaves - 1
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

// valid reports whether ranges are those of an event at a position: in order,
// before it, and each with all of its hashes or none.
func (l Lost) valid(position uint64) bool {
	last := uint64(0)
	for _, r := range l {
		if r.From <= last || r.To < r.From || r.To >= position || r.NamedAt > position || r.NamedAt <= r.To {
			return false
		}
		if n := len(r.Hashes); n > 0 {
			whole := true
			if r.Pieces(func(_, _ uint64, hash []byte) error {
				whole = whole && len(hash) == 32
				n--
				return nil
			}) != nil || !whole || n != 0 {
				return false
			}
		}
		last = r.To
	}
	return true
}

// Losses are the positions that the event says were lost, in all volumes before
// its own; nil unless it was opened because of damage, and for an event that
// contradicts itself.
func (d *LedgerVolumeOpened) Losses(position uint64) Lost {
	if d.Reason != VolumeDamaged || d.First != position {
		return nil
	}
	list := d.Lost
	if len(list) == 0 && d.Hole != nil {
		list = Lost{{From: d.Hole.From, To: d.Hole.To, NamedAt: position}}
	}
	if !list.valid(position) {
		return nil
	}
	return list
}
