package audit

import (
	"fmt"
	"io/fs"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// tiles keep what a tree has written.
type tiles interface {
	put(t Tile, hashes []Hash) error
	// get returns the first hashes of a full tile, 32 bytes each.
	get(t Tile, width int) ([]byte, error)
}

// tree is a Merkle tree that only grows. Full tiles are kept elsewhere; the
// hashes at its right edge are in memory. It is not safe for concurrent use.
type tree struct {
	kept tiles // the tiles that are full
	size uint64
	// edge holds, by tile level, the hashes of the tile that is not full yet.
	edge [][]Hash
}

// add appends a leaf. Full tiles are written before: when one cannot be, the tree
// stays as it was.
func (t *tree) add(leaf Hash) error { return t.addAt(0, leaf) }

// addAt appends the hash of a full subtree at a tile level: 0 is that of leaves.
func (t *tree) addAt(from int, hash Hash) error {
	level := from
	for ; level < len(t.edge) && len(t.edge[level]) == tileWidth-1; level++ {
		full := append(t.edge[level], hash)
		tile := Tile{Level: level, Index: t.size >> (tileHeight * (level + 1)), Width: tileWidth}
		if err := t.kept.put(tile, full); err != nil {
			return err
		}
		hash = perfect(full)
	}
	// Nothing can fail any more.
	for full := from; full < level; full++ {
		t.edge[full] = t.edge[full][:0]
	}
	for len(t.edge) <= level {
		t.edge = append(t.edge, make([]Hash, 0, tileWidth))
	}
	t.edge[level] = append(t.edge[level], hash)
	t.size += 1 << (tileHeight * from)
	return nil
}

// root is the tree hash.
func (t *tree) root() Hash {
	// The tree is the perfect subtrees that the binary digits of its size name,
	// joined from the right.
	var root Hash
	empty := true
	for _, hashes := range t.edge {
		for end := len(hashes); end > 0; {
			width := 1 << bits.TrailingZeros(uint(end))
			sub := perfect(hashes[end-width : end])
			if empty {
				root, empty = sub, false
			} else {
				root = tlog.NodeHash(sub, root)
			}
			end -= width
		}
	}
	if empty {
		root, _ = tlog.TreeHash(0, nil) // the hash of nothing needs no reader
	}
	return root
}

// perfect is the hash over a power of two of subtree hashes.
func perfect(hashes []Hash) Hash {
	if len(hashes) == 1 {
		return hashes[0]
	}
	half := make([]Hash, len(hashes)/2)
	for i := range half {
		half[i] = tlog.NodeHash(hashes[2*i], hashes[2*i+1])
	}
	for n := len(half) / 2; n > 0; n /= 2 {
		for i := range n {
			half[i] = tlog.NodeHash(half[2*i], half[2*i+1])
		}
	}
	return half[0]
}

// read returns the hashes of a tile that the tree has, perhaps as the beginning
// of a wider one.
func (t *tree) read(tile Tile) ([]byte, error) {
	has := t.size >> (tileHeight * tile.Level) // complete subtrees at this level
	begin := tile.Index << tileHeight
	if tile.Level > 7 || tile.Index > has>>tileHeight || begin+uint64(tile.Width) > has {
		return nil, fmt.Errorf("%s: %w", tile.Path(), fs.ErrNotExist)
	}
	if tile.Index == has>>tileHeight {
		return tileBytes(t.edge[tile.Level][:tile.Width]), nil
	}
	full := tile
	full.Width = tileWidth
	return t.kept.get(full, tile.Width)
}

// rootAt is the hash of the tree when it had some size.
func (t *tree) rootAt(size uint64) (Hash, error) {
	switch {
	case size > t.size:
		return Hash{}, fmt.Errorf("the tree has %d leaves, not %d", t.size, size)
	case size == t.size:
		return t.root(), nil
	}
	return tlog.TreeHash(int64(size), t)
}

// ReadHashes implements tlog.HashReader over what the tree has, unconfirmed.
func (t *tree) ReadHashes(indexes []int64) ([]Hash, error) {
	hashes := make([]Hash, len(indexes))
	read := map[tlog.Tile][]byte{}
	for i, index := range indexes {
		tile := tlog.TileForIndex(tileHeight, index)
		raw, ok := read[tile]
		if !ok {
			var err error
			if raw, err = t.read(Tile{Level: tile.L, Index: uint64(tile.N), Width: tile.W}); err != nil {
				return nil, err
			}
			read[tile] = raw
		}
		var err error
		if hashes[i], err = tlog.HashFromTile(tile, raw, index); err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
