package translog

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/proof"
)

// ProvenLeaves are the leaf hashes of lost events that the files of a tree still prove.
type ProvenLeaves struct {
	size   uint64
	reader tlog.HashReader
	// tile is the index of the tile that was read last, and leaves are its leaves.
	tile   uint64
	leaves []proof.Hash
	// compared are the sizes of the newest checkpoints, in order: no range hides them.
	compared []uint64
}

// OpenProvenLeaves opens the files of a tree in an audit directory. They prove a leaf if they match
// the tree hash in the file "durable" or in the newest checkpoint, and no signed checkpoint contradicts
// them: neither one in the directory nor that in the signed file (see SignedPath), which a person who can
// write only the directory cannot replace. Without a signed file only the former are compared. Ranges keeps
// the newest of both comparable.
func OpenProvenLeaves(dir, signedPath string) *ProvenLeaves {
	k := &ProvenLeaves{}
	try := func(size uint64, root proof.Hash) {
		if size <= k.size {
			return
		}
		files := savedTiles{dir: dir, size: size}
		reader := tlog.TileHashReader(tlog.Tree{N: int64(size), Hash: root}, files)
		// The right edge shows whether the files belong to that tree.
		if _, err := reader.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(size)-1)}); err == nil {
			k.size, k.reader = size, reader
		}
	}
	if d, err := readDurable(dir); err == nil && d.size > 0 {
		try(d.size, d.root)
	}
	keys, err := readVKeys(dir)
	if err == nil {
		if c, err := lastCheckpoint(dir, keys); err == nil && c.Size > 0 {
			try(c.Size, c.Root)
			k.compared = append(k.compared, c.Size)
		}
	}
	keys = ofNewestOrigin(keys)
	if raw, err := os.ReadFile(signedPath); err == nil {
		if c, err := proof.ParseCheckpoint(raw); err == nil {
			k.compared = append(k.compared, c.Size)
			slices.Sort(k.compared)
			// A file of another ledger is refused when the Log opens. The keys in the directory do not decide
			// about the signature, because they can be written together with the files of the tree.
			if isOfLedger := len(keys) == 0 || len(ofOrigin(keys, c.Origin)) > 0; isOfLedger && k.differsFrom(c) {
				return &ProvenLeaves{}
			}
		}
	}
	if len(keys) > 0 && k.contradicts(dir, keys) {
		return &ProvenLeaves{} // the files are of another ledger, or were changed
	}
	return k
}

// contradicts reports whether the files differ from what one of the keys signed.
func (k *ProvenLeaves) contradicts(dir string, vkeys []string) bool {
	if k.size == 0 {
		return false
	}
	c, err := newestUpTo(dir, k.size, vkeys, nil, func(proof.Checkpoint) bool { return true })
	return err == nil && c.Note != nil && k.differsFrom(c)
}

// differsFrom reports whether the files have another tree hash than a checkpoint. It reports false if they
// have fewer leaves, or do not prove the hash.
func (k *ProvenLeaves) differsFrom(c proof.Checkpoint) bool {
	if c.Size > k.size || c.Size == 0 {
		return false
	}
	root, err := tlog.TreeHash(int64(c.Size), k.reader)
	return err == nil && root != c.Root
}

// Size returns the highest position whose leaf may be known.
func (k *ProvenLeaves) Size() uint64 { return k.size }

// Leaf returns the leaf hash of a position. It reports false if the hash is not known.
func (k *ProvenLeaves) Leaf(position uint64) (proof.Hash, bool) {
	if position == 0 || position > k.size {
		return proof.Hash{}, false
	}
	tile := (position - 1) / proof.TileWidth
	if k.leaves == nil || k.tile != tile {
		first := tile * proof.TileWidth
		indexes := make([]int64, min(proof.TileWidth, k.size-first))
		for i := range indexes {
			indexes[i] = tlog.StoredHashIndex(0, int64(first)+int64(i))
		}
		leaves, err := k.reader.ReadHashes(indexes)
		if err != nil {
			leaves = []proof.Hash{}
		}
		k.tile, k.leaves = tile, leaves
	}
	i := (position - 1) % proof.TileWidth
	if i >= uint64(len(k.leaves)) {
		return proof.Hash{}, false
	}
	return k.leaves[i], true
}

// tileHash returns the hash over a full tile of leaves, by the position of its first leaf. It
// reports false if the hash is not known.
func (k *ProvenLeaves) tileHash(first uint64) (proof.Hash, bool) {
	if first+proof.TileWidth-1 > k.size {
		return proof.Hash{}, false
	}
	hashes, err := k.reader.ReadHashes([]int64{tlog.StoredHashIndex(proof.TileHeight, int64((first-1)/proof.TileWidth))})
	if err != nil {
		return proof.Hash{}, false
	}
	return hashes[0], true
}

// Ranges divides lost positions into ranges of which either all leaves or none are known. It uses at
// most budget hashes and reduces budget by their number. A range ends where the newest checkpoint ends: that
// tile is then not in one range, and has a hash for each leaf, with which the checkpoint can be compared.
func (k *ProvenLeaves) Ranges(from, to, namedAt uint64, budget *int) events.Lost {
	var list events.Lost
	for _, size := range k.compared {
		if from <= size && size < to && size%proof.TileWidth != 0 {
			list = append(list, k.ranges(from, size, namedAt, budget)...)
			from = size + 1
		}
	}
	return append(list, k.ranges(from, to, namedAt, budget)...)
}

func (k *ProvenLeaves) ranges(from, to, namedAt uint64, budget *int) events.Lost {
	var list events.Lost
	add := func(from, to uint64, hash string) {
		n := len(list)
		if n == 0 || (len(list[n-1].Hashes) > 0) != (hash != "") {
			list = append(list, events.LostRange{From: from, NamedAt: namedAt})
			n++
		}
		r := &list[n-1]
		r.To = to
		if hash != "" {
			r.Hashes = append(r.Hashes, hash)
			*budget--
		}
	}
	end := min(to, k.size)
	for at := from; at <= end; {
		first := (at-1)/proof.TileWidth*proof.TileWidth + 1
		full := first >= from && first+proof.TileWidth-1 <= end
		var hash proof.Hash
		var known bool
		last := at
		switch {
		case *budget <= 0:
		case full: // one hash for all, or none
			last = first + proof.TileWidth - 1
			hash, known = k.tileHash(first)
		default:
			hash, known = k.Leaf(at)
		}
		if known {
			add(at, last, proof.EncodeHash(hash))
		} else {
			add(at, last, "")
		}
		at = last + 1
	}
	if to > end {
		add(max(from, end+1), to, "")
	}
	return list
}

// savedTiles reads the files of a tree of some size. A tile that is not full may have been stored
// with more hashes.
type savedTiles struct {
	dir  string
	size uint64
}

func (savedTiles) Height() int                     { return proof.TileHeight }
func (savedTiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (s savedTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	list := make([][]byte, len(tiles))
	for i, t := range tiles {
		err := errors.New("no such tile")
		for width := t.W; width <= proof.TileWidth && err != nil; width++ {
			list[i], err = readTile(s.dir, proof.Tile{Level: t.L, Index: uint64(t.N), Width: width}, t.W)
		}
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ResetTree makes the next Log compute its tree again from the events, except for those that are
// recorded as lost when that Log runs. ResetTree keeps the first keep leaves: they belong to removed
// events and cannot be computed again. If they cannot be kept, the next Log reports damage.
func ResetTree(dir string, keep uint64) error {
	d, err := readDurable(dir)
	if keep == 0 || err != nil || d.size < keep {
		return removeIfThere(dir, fileDurable)
	}
	files := &tileFiles{dir: dir}
	whole, err := files.load(d.size)
	if err != nil || whole.Root() != d.root {
		return removeIfThere(dir, fileDurable)
	}
	root, err := whole.RootAt(keep)
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	kept, err := proof.LoadTree(files, keep, func(tile proof.Tile) ([]byte, error) {
		width := tile.Width
		tile.Width = int(min(proof.TileWidth, d.size>>(proof.TileHeight*tile.Level)-tile.Index<<proof.TileHeight))
		return readTile(dir, tile, width)
	})
	if err != nil {
		return fmt.Errorf("read the tree: %w", err)
	}
	if kept.Root() != root {
		return fmt.Errorf("%w: the tree of hashes cannot be cut off at %d leaves", events.ErrDamaged, keep)
	}
	if err := files.save(kept); err != nil {
		return err
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return err
	}
	if err := writeDurable(dir, durableTree{keep, min(d.lastNonCheckpoint, keep), root}, true); err != nil {
		return err
	}
	return files.removeReplaced()
}
