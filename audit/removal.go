package audit

import (
	"fmt"

	"daybook/events"
	"daybook/proof"
)

// RemovedVolume is a volume that an event records as removed.
type RemovedVolume struct {
	Volume int    `json:"volume"`
	First  uint64 `json:"first"`
	Last   uint64 `json:"last"`
	// NamedBy is the position of that event, At its time.
	NamedBy uint64 `json:"named_by"`
	At      string `json:"at"`
	// Signed is the size of the closing checkpoint of the volume. RootHash is the tree hash over
	// all positions up to Last.
	Signed   uint64 `json:"signed"`
	RootHash string `json:"root_hash"`
	// ExportSHA256 is the hash of the file of events in its export.
	ExportSHA256 string `json:"export_sha256"`
}

// removedState is the state of a verification about removed volumes.
type removedState struct {
	// removedUpTo is the last position of the removed volumes, according to the source.
	removedUpTo uint64
	closing     []byte                                   // the closing checkpoint of the newest removal
	leaf        func(position uint64) (proof.Hash, bool) // see Directory.Leaves
}

// expectRemoved records the removed volumes that the source reports. They are verified later.
func (v *verifier) expectRemoved(r events.Removal) {
	if v.removedUpTo = r.UpTo(); v.removedUpTo == 0 {
		return
	}
	v.rules.removedUntil = r.Ended.Time
	c, err := proof.ParseCheckpoint([]byte(r.Closing.Note))
	if err != nil || c.Size != r.Closing.Size || c.Size >= r.Last || c.Size+1 < r.First {
		v.report.addFinding(r.Seq, "its closing checkpoint of volume %d is not valid", r.Volume)
		return
	}
	v.kept[c.Size], v.closing = append(v.kept[c.Size], c), c.Note
}

// addRemoved adds leaves of removed events up to a position from the files of the tree. The next
// checkpoint that covers them shows whether they are the signed leaves.
func (v *verifier) addRemoved(to uint64) error {
	for to = min(to, v.removedUpTo); v.tree.Size() < to; {
		if v.leaf == nil {
			v.leaf = noLeaf
			if v.opts.Dir != nil {
				v.leaf = v.opts.Dir.Leaves()
			}
		}
		leaf, ok := v.leaf(v.tree.Size() + 1)
		if !ok {
			return fmt.Errorf("%w: event %d was removed with its volume, and its hash is not in the files of the tree", events.ErrDamaged, v.tree.Size()+1)
		}
		if err := v.tree.Add(leaf); err != nil {
			return err
		}
		v.keptHere()
	}
	return v.failed()
}

// noLeaf stands for the result of Directory.Leaves if there is no directory.
func noLeaf(uint64) (proof.Hash, bool) { return proof.Hash{}, false }

// sawRemoval compares a removal event with the computed tree.
func (v *verifier) sawRemoval(e *events.Event, d *events.LedgerVolumeRemoved) {
	v.report.Removed = append(v.report.Removed, RemovedVolume{
		Volume: int(d.Volume), First: d.First, Last: d.Last, NamedBy: e.Seq, At: events.FormatTime(e.Time),
		Signed: d.Closing.Size, RootHash: d.RootHash, ExportSHA256: d.Export.SHA256,
	})
	if d.Last >= e.Seq {
		v.report.addFinding(e.Seq, "it records that positions up to %d were removed, but they come later", d.Last)
		return
	}
	if v.proven {
		return
	}
	root, err := v.tree.RootAt(d.Last)
	if err != nil {
		return // the tile is no longer in memory; the checkpoints over it are compared
	}
	if proof.EncodeHash(root) != d.RootHash {
		v.report.addFinding(e.Seq, "it records that the first %d events have the tree hash %s; computed from the hashes it is %s", d.Last, d.RootHash, proof.EncodeHash(root))
	}
}

// checkRemoved reports missing positions unless an event records their removal.
func (v *verifier) checkRemoved() {
	if v.removedUpTo == 0 {
		return
	}
	for _, r := range v.report.Removed {
		if r.Last == v.removedUpTo {
			return
		}
	}
	v.report.addFinding(0, "positions up to %d are missing, and no event records that their volumes were removed", v.removedUpTo)
}

// mayBeInRemovedVolume reports whether an execution may have been requested in a removed volume. It
// compares the time in the id. A derived id has no time, so the result is true if any volume was
// removed.
func (r *rules) mayBeInRemovedVolume(id string) bool {
	minted, ok := events.MintedAt(id)
	return !r.removedUntil.IsZero() && (!ok || !minted.After(r.removedUntil))
}
