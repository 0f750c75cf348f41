package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"

	"golang.org/x/mod/sumdb/tlog"
)

// tree is a Merkle tree that only grows. Full tiles are files; the hashes at its
// right edge, which are not, are in memory. It is not safe for concurrent use.
type tree struct {
	dir  string // holds "tile"; empty keeps no files
	size uint64
	// edge holds, by tile level, the hashes of the tile that is not full yet.
	edge [][]Hash
	// partial are the tiles that save wrote, to be removed when replaced.
	partial []Tile
}

// add appends a leaf. Full tiles are written on the way.
func (t *tree) add(leaf Hash) error {
	hash := leaf
	for level := 0; ; level++ {
		if level == len(t.edge) {
			t.edge = append(t.edge, make([]Hash, 0, tileWidth))
		}
		t.edge[level] = append(t.edge[level], hash)
		if len(t.edge[level]) < tileWidth {
			break
		}
		full := Tile{Level: level, Index: t.size >> (tileHeight * (level + 1)), Width: tileWidth}
		if err := t.write(full, t.edge[level]); err != nil {
			return err
		}
		hash = perfect(t.edge[level])
		t.edge[level] = t.edge[level][:0]
	}
	t.size++
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

// write replaces a tile's file at once. It does not wait for the disk: what a
// power cut takes is computed again.
func (t *tree) write(tile Tile, hashes []Hash) error {
	if t.dir == "" {
		return nil
	}
	path := filepath.Join(t.dir, filepath.FromSlash(tile.Path()))
	raw := make([]byte, 0, len(hashes)*tlog.HashSize)
	for i := range hashes {
		raw = append(raw, hashes[i][:]...)
	}
	if err := replaceFile(path, raw, 0o644, false); err != nil {
		return fmt.Errorf("write %s: %w", tile.Path(), err)
	}
	return nil
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
		raw := make([]byte, 0, tile.Width*tlog.HashSize)
		for _, h := range t.edge[tile.Level][:tile.Width] {
			raw = append(raw, h[:]...)
		}
		return raw, nil
	}
	full := tile
	full.Width = tileWidth
	return readTile(t.dir, full, tile.Width)
}

// readTile reads the first hashes of a tile's file.
func readTile(dir string, tile Tile, width int) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(tile.Path())))
	if err != nil {
		return nil, err
	}
	if len(raw) != tile.Width*tlog.HashSize {
		return nil, fmt.Errorf("%s has %d bytes, not %d", tile.Path(), len(raw), tile.Width*tlog.HashSize)
	}
	return raw[:width*tlog.HashSize], nil
}

// save writes the tiles that are not full, so that load finds the tree as it is.
func (t *tree) save() error {
	var partial []Tile
	for level, hashes := range t.edge {
		if len(hashes) == 0 {
			continue
		}
		tile := Tile{Level: level, Index: t.size >> (tileHeight * (level + 1)), Width: len(hashes)}
		if err := t.write(tile, hashes); err != nil {
			return err
		}
		partial = append(partial, tile)
	}
	kept := map[Tile]bool{}
	for _, tile := range partial {
		kept[tile] = true
	}
	for _, old := range t.partial {
		if kept[old] {
			continue
		}
		path := filepath.Join(t.dir, filepath.FromSlash(old.Path()))
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = os.Remove(filepath.Dir(path)) // its folder, unless something is in it
	}
	t.partial = partial
	return nil
}

// loadTree reads the right edge of a tree of some size from the files that save
// left. Full tiles are read when they are needed.
func loadTree(dir string, size uint64) (*tree, error) {
	t := &tree{dir: dir, size: size}
	for level := 0; size>>(tileHeight*level) > 0; level++ {
		has := size >> (tileHeight * level)
		hashes := make([]Hash, has&(tileWidth-1), tileWidth)
		t.edge = append(t.edge, hashes)
		if len(hashes) == 0 {
			continue
		}
		tile := Tile{Level: level, Index: has >> tileHeight, Width: len(hashes)}
		raw, err := readTile(dir, tile, tile.Width)
		if err != nil {
			return nil, fmt.Errorf("load the tree: %w", err)
		}
		for i := range hashes {
			copy(hashes[i][:], raw[i*tlog.HashSize:])
		}
		t.partial = append(t.partial, tile)
	}
	return t, nil
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
