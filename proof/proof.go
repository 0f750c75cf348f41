package proof

import (
	"errors"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrHashing is wrapped by errors about a proof for which the tree is not computed far
// enough yet, which takes some seconds after a start.
var ErrHashing = errors.New("the tree of hashes is being computed after a start; try again in a second")

// ErrBeyond is wrapped by errors about a position or size that no checkpoint
// covers.
var ErrBeyond = errors.New("no checkpoint covers it yet")

// Prover makes proofs under one checkpoint.
type Prover interface {
	// Root is the hash of the tree when it had some size, at most the checkpoint's.
	Root(size uint64) (Hash, error)
	// Inclusion proves that the event at a position is in the tree of some size, at
	// most the checkpoint's.
	Inclusion(seq, size uint64) (Inclusion, error)
	// Consistency proves that the tree of size from is the beginning of that of size
	// to, at most the checkpoint's.
	Consistency(from, to uint64) (Consistency, error)
}

// Inclusion proves that an event is in the tree of some size.
type Inclusion struct {
	Seq, Size  uint64
	Leaf, Root Hash
	// Hashes are the RFC 6962 audit path, from the leaf up.
	Hashes []Hash
}

// Check verifies the proof against a root that is trusted and a leaf.
func (p Inclusion) Check() error {
	return tlog.CheckRecord(p.Hashes, int64(p.Size), p.Root, int64(p.Seq)-1, p.Leaf)
}

// Consistency proves that the tree of size From is the beginning of that of size
// To.
type Consistency struct {
	From, To         uint64
	FromRoot, ToRoot Hash
	Hashes           []Hash
}

// Check verifies the proof against the two roots.
func (p Consistency) Check() error {
	if p.From == p.To {
		if p.FromRoot != p.ToRoot || len(p.Hashes) != 0 {
			return errors.New("two hashes for one size")
		}
		return nil
	}
	return tlog.CheckTree(p.Hashes, int64(p.To), p.ToRoot, int64(p.From), p.FromRoot)
}
