package translog

import (
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/events"
	"daybook/internal/eventproof"
	"daybook/internal/resources/exhausted"
	"daybook/proof"
)

// Events that are not signed yet are read again at the start, although they are in the tree: no
// signature proves that the files of the tree are those of these events.

// checkUnsigned checks an event that is in the tree and may not be signed yet. The caller must hold mu.
func (l *Log) checkUnsigned(m events.Stored) error {
	if err := errors.Join(l.readStatement(m), l.checkOpening(m), l.checkRemoval(m)); err != nil {
		return err
	}
	if l.signed.Note == nil || m.Seq <= l.signed.Size || !eventproof.HoldsCheckpoint(m) {
		return nil
	}
	return l.checkCheckpoint(m)
}

// confirmStored compares the leaf of an event with that in the tree. The caller must hold mu.
func (l *Log) confirmStored(seq uint64, leaf proof.Hash) error {
	stored, err := l.storedLeaf(seq)
	switch {
	case exhausted.Is(err):
		return err
	case err != nil:
		return wrongFiles("its tree hash", err)
	case stored != leaf:
		return eventChanged(seq)
	}
	return nil
}

// compareStored compares an event that decides how the ledger is read with its leaf, if the tree has it at a
// start: such events are read before the others, at any position. If the files do not prove the leaf, the error
// is a *tileError: the tree is computed again, and compared with what was signed. The caller must hold mu.
func (l *Log) compareStored(m events.Stored) error {
	if l.started || m.Seq > l.tree.Size() {
		return nil
	}
	leaf, err := proof.LeafHash(eventproof.RecordOf(m))
	if err != nil {
		return fmt.Errorf("%w: %w", events.ErrDamaged, err)
	}
	stored, err := l.storedLeaf(m.Seq)
	switch {
	case exhausted.Is(err):
		return fmt.Errorf("read the tree: %w", err)
	case err != nil:
		return &tileError{err}
	case stored != leaf && l.signed.Note == nil && l.latest.Note == nil: // nothing shows whose files these are
		return &tileError{eventChanged(m.Seq)}
	case stored != leaf:
		return eventChanged(m.Seq)
	}
	return nil
}

// storedLeaf returns the leaf of a position in the tree. The caller must hold mu.
func (l *Log) storedLeaf(seq uint64) (proof.Hash, error) {
	if l.stored == nil {
		l.stored = &storedLeaves{size: l.tree.Size(), reader: l.provenReader()}
	}
	return l.stored.leaf(seq)
}

// provenReader reads hashes of the tree, and verifies that its files belong to the tree hash. The caller must
// hold mu.
func (l *Log) provenReader() tlog.HashReader {
	return tlog.TileHashReader(tlog.Tree{N: int64(l.tree.Size()), Hash: l.tree.Root()}, treeTiles{l.tree})
}

// provenRootAt returns the tree hash at an earlier size. Unlike the one of proof.Tree.RootAt, it does not come from
// a wrong file: that is events.ErrDamaged. The caller must hold mu.
func (l *Log) provenRootAt(size uint64) (proof.Hash, error) {
	if size >= l.tree.Size() {
		return l.tree.RootAt(size)
	}
	root, err := tlog.TreeHash(int64(size), l.provenReader())
	switch {
	case exhausted.Is(err):
		return root, fmt.Errorf("read the tree: %w", err)
	case err != nil:
		return root, wrongFiles("its tree hash", err)
	}
	return root, nil
}

func eventChanged(seq uint64) error {
	return breakOf(wasChanged, "event %d does not match the hash that was computed when it was recorded", seq)
}

// storedLeaves reads leaves of a tree. Their files prove them: a leaf is not enough, because the hashes
// above it make the tree hash.
type storedLeaves struct {
	size   uint64
	reader tlog.HashReader
	// leaves are those of the tile of leaves that was read last, and first the position of the first.
	first  uint64
	leaves []proof.Hash
}

func (s *storedLeaves) leaf(seq uint64) (proof.Hash, error) {
	if first := (seq-1)/proof.TileWidth*proof.TileWidth + 1; s.leaves == nil || s.first != first {
		indexes := make([]int64, min(proof.TileWidth, s.size-(first-1)))
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(0, int64(first-1)+int64(i))
		}
		leaves, err := s.reader.ReadHashes(indexes)
		if err != nil {
			return proof.Hash{}, err
		}
		s.first, s.leaves = first, leaves
	}
	return s.leaves[seq-s.first], nil
}

// treeTiles reads the tiles of a tree for package tlog.
type treeTiles struct{ tree *proof.Tree }

// Height implements tlog.TileReader.
func (treeTiles) Height() int { return proof.TileHeight }

// SaveTiles implements tlog.TileReader.
func (treeTiles) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements tlog.TileReader.
func (t treeTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	list := make([][]byte, len(tiles))
	for i, tile := range tiles {
		var err error
		if list[i], err = t.tree.Read(proof.Tile{Level: tile.L, Index: uint64(tile.N), Width: tile.W}); err != nil {
			return nil, err
		}
	}
	return list, nil
}
