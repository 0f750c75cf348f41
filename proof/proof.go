package proof

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrHashing is wrapped by errors about a proof if the tree does not contain the event yet. After
// a start, a server computes the tree for some seconds.
var ErrHashing = errors.New("the tree of hashes is being computed after a start; try again in a second")

// ErrBeyond is wrapped by errors about a position or size that no checkpoint covers.
var ErrBeyond = errors.New("no checkpoint covers it yet")

// Prover creates proofs under one checkpoint.
type Prover interface {
	// Root returns the tree hash at a size, which MUST NOT exceed that of the checkpoint.
	Root(size uint64) (Hash, error)
	// Leaf returns the leaf of the event at position seq, which MUST NOT exceed the size of the checkpoint.
	Leaf(seq uint64) (Hash, error)
	// Inclusion proves that the event at position seq is in the tree of the given size, which MUST
	// NOT exceed that of the checkpoint.
	Inclusion(seq, size uint64) (Inclusion, error)
	// Consistency proves that the tree of size to extends the tree of size from. Neither may
	// exceed the size of the checkpoint.
	Consistency(from, to uint64) (Consistency, error)
}

// maxSizeBits bounds the size of a tree in a checkpoint or a proof: it is less than 2^maxSizeBits. Package tlog
// does not return for sizes above 2^62.
const maxSizeBits = 62

var errSize = fmt.Errorf("no tree has 2^%d events or more", maxSizeBits)

// Inclusion is a proof that the event at position Seq is in the tree of size Size.
type Inclusion struct {
	Seq, Size  uint64
	Leaf, Root Hash
	// Hashes are the RFC 6962 audit path, from the leaf up.
	Hashes []Hash
}

// Check verifies the proof. The caller MUST have verified Root, and have computed Leaf from the
// event.
func (p Inclusion) Check() error {
	if max(p.Size, p.Seq)>>maxSizeBits > 0 {
		return errSize
	}
	return tlog.CheckRecord(p.Hashes, int64(p.Size), p.Root, int64(p.Seq)-1, p.Leaf)
}

// Consistency is a proof that the tree of size To extends the tree of size From.
type Consistency struct {
	From, To         uint64
	FromRoot, ToRoot Hash
	Hashes           []Hash
}

// Check verifies the proof. The caller MUST have verified ToRoot or FromRoot.
func (p Consistency) Check() error {
	if p.From == p.To {
		if p.FromRoot != p.ToRoot || len(p.Hashes) != 0 {
			return errors.New("two hashes for one size")
		}
		return nil
	}
	if max(p.From, p.To)>>maxSizeBits > 0 {
		return errSize
	}
	return tlog.CheckTree(p.Hashes, int64(p.To), p.ToRoot, int64(p.From), p.FromRoot)
}
