package proof

import (
	"fmt"
	"io/fs"
	"iter"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// Tiles stores the full tiles of a tree.
type Tiles interface {
	// Put stores a full tile. The hashes are valid until Put returns.
	Put(t Tile, hashes []Hash) error
	// Get returns the first width hashes of a full tile, 32 bytes each.
	Get(t Tile, width int) ([]byte, error)
}

// Tree is an append-only Merkle tree. Tiles stores its full tiles; the hashes at its right edge
// are in memory. It is not safe for concurrent use.
type Tree struct {
	kept Tiles // the tiles that are full
	size uint64
	// edge holds, by tile level, the hashes of the tile that is not full yet.
	edge [][]Hash
}

// NewTree returns an empty tree that stores its full tiles in kept.
func NewTree(kept Tiles) *Tree { return &Tree{kept: kept} }

// LoadTree returns a tree of the given size whose full tiles are in kept. It calls read for each
// tile that is not full. read MUST return the hashes of that tile, 32 bytes each.
func LoadTree(kept Tiles, size uint64, read func(t Tile) ([]byte, error)) (*Tree, error) {
	t := &Tree{kept: kept, size: size}
	for level := 0; size>>(TileHeight*level) > 0; level++ {
		has := size >> (TileHeight * level)
		hashes := make([]Hash, has&(TileWidth-1), TileWidth)
		t.edge = append(t.edge, hashes)
		if len(hashes) == 0 {
			continue
		}
		tile := Tile{Level: level, Index: has >> TileHeight, Width: len(hashes)}
		raw, err := read(tile)
		if err != nil {
			return nil, err
		}
		if len(raw) != len(hashes)*tlog.HashSize {
			return nil, fmt.Errorf("%s has %d bytes, not %d", tile.Path(), len(raw), len(hashes)*tlog.HashSize)
		}
		for i := range hashes {
			copy(hashes[i][:], raw[i*tlog.HashSize:])
		}
	}
	return t, nil
}

// Size returns the number of leaves.
func (t *Tree) Size() uint64 { return t.size }

// PartialTiles yields each tile that is not full, with its hashes. The hashes are valid until the
// tree grows.
func (t *Tree) PartialTiles() iter.Seq2[Tile, []Hash] {
	return func(yield func(Tile, []Hash) bool) {
		for level, hashes := range t.edge {
			tile := Tile{Level: level, Index: t.size >> (TileHeight * (level + 1)), Width: len(hashes)}
			if len(hashes) > 0 && !yield(tile, hashes) {
				return
			}
		}
	}
}

// PartialLeaves returns the leaves after the last full tile of leaves. They are valid until the
// tree grows.
func (t *Tree) PartialLeaves() []Hash {
	if len(t.edge) == 0 {
		return nil
	}
	return t.edge[0]
}

// Add appends a leaf. It stores full tiles first: if that fails, the tree is unchanged and Add can
// be called again.
func (t *Tree) Add(leaf Hash) error { return t.addAt(0, leaf) }

// addAt appends the hash of a full subtree at a tile level. Level 0 is that of leaves.
func (t *Tree) addAt(from int, hash Hash) error {
	level := from
	for ; level < len(t.edge) && len(t.edge[level]) == TileWidth-1; level++ {
		full := append(t.edge[level], hash)
		tile := Tile{Level: level, Index: t.size >> (TileHeight * (level + 1)), Width: TileWidth}
		if err := t.kept.Put(tile, full); err != nil {
			return err
		}
		hash = HashSubtrees(full)
	}
	// From here on nothing can fail.
	for full := from; full < level; full++ {
		t.edge[full] = t.edge[full][:0]
	}
	for len(t.edge) <= level {
		t.edge = append(t.edge, make([]Hash, 0, TileWidth))
	}
	t.edge[level] = append(t.edge[level], hash)
	t.size += 1 << (TileHeight * from)
	return nil
}

// Root returns the tree hash.
func (t *Tree) Root() Hash {
	// The tree consists of one perfect subtree for each binary digit of its size. They are joined
	// from the right.
	var root Hash
	empty := true
	for _, hashes := range t.edge {
		for end := len(hashes); end > 0; {
			width := 1 << bits.TrailingZeros(uint(end))
			sub := HashSubtrees(hashes[end-width : end])
			if empty {
				root, empty = sub, false
			} else {
				root = tlog.NodeHash(sub, root)
			}
			end -= width
		}
	}
	if empty {
		root, _ = tlog.TreeHash(0, nil) // the hash of an empty tree needs no reader
	}
	return root
}

// HashSubtrees returns the hash over the hashes of subtrees of equal size. Their number MUST be a
// power of two.
func HashSubtrees(hashes []Hash) Hash {
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

// Read returns the hashes of a tile, 32 bytes each. The tile may be the beginning of a wider one.
// The error for a tile that the tree does not have is fs.ErrNotExist.
func (t *Tree) Read(tile Tile) ([]byte, error) {
	has := t.size >> (TileHeight * tile.Level) // complete subtrees at this level
	begin := tile.Index << TileHeight
	if tile.Level > 7 || tile.Index > has>>TileHeight || begin+uint64(tile.Width) > has {
		return nil, fmt.Errorf("%s: %w", tile.Path(), fs.ErrNotExist)
	}
	if tile.Index == has>>TileHeight {
		return EncodeTile(t.edge[tile.Level][:tile.Width]), nil
	}
	full := tile
	full.Width = TileWidth
	return t.kept.Get(full, tile.Width)
}

// RootAt returns the tree hash at an earlier size.
func (t *Tree) RootAt(size uint64) (Hash, error) {
	switch {
	case size > t.size:
		return Hash{}, fmt.Errorf("the tree has %d leaves, not %d", t.size, size)
	case size == t.size:
		return t.Root(), nil
	}
	return tlog.TreeHash(int64(size), t)
}

// ReadHashes implements tlog.HashReader. It does not verify the tiles that it reads.
func (t *Tree) ReadHashes(indexes []int64) ([]Hash, error) {
	hashes := make([]Hash, len(indexes))
	read := map[tlog.Tile][]byte{}
	for i, index := range indexes {
		tile := tlog.TileForIndex(TileHeight, index)
		raw, ok := read[tile]
		if !ok {
			var err error
			if raw, err = t.Read(Tile{Level: tile.L, Index: uint64(tile.N), Width: tile.W}); err != nil {
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

// AddTile appends the leaves of a full tile of which only the hash over all of them is known.
func (t *Tree) AddTile(hash Hash) error {
	if t.size%TileWidth != 0 {
		return fmt.Errorf("a tile cannot begin at leaf %d", t.size)
	}
	if len(t.edge) == 0 {
		t.edge = append(t.edge, make([]Hash, 0, TileWidth))
	}
	return t.addAt(1, hash)
}

// EncodeTile returns the content of a tile: its hashes in order.
func EncodeTile(hashes []Hash) []byte {
	raw := make([]byte, 0, len(hashes)*tlog.HashSize)
	for i := range hashes {
		raw = append(raw, hashes[i][:]...)
	}
	return raw
}
