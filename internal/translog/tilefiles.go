package translog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"daybook/proof"
)

// tileFiles stores a tree in files below dir. It does not wait for the disk: hashes that are lost in
// a power cut are computed again.
type tileFiles struct {
	dir string
	// partial are the tiles that are not full and have a file. Those that current does not hold are
	// removed by removeReplaced.
	partial []proof.Tile
	// current are the tiles that the last save wrote.
	current []proof.Tile
}

// Put writes a full tile to its final place. A tile that a crash cuts short is beyond the durable
// size, and is written again.
func (f *tileFiles) Put(tile proof.Tile, hashes []proof.Hash) error {
	path, raw := filepath.Join(f.dir, filepath.FromSlash(tile.Path())), proof.EncodeTile(hashes)
	err := os.WriteFile(path, raw, 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			err = os.WriteFile(path, raw, 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", tile.Path(), err)
	}
	return nil
}

// replace writes a tile that is not full, by rename.
func (f *tileFiles) replace(tile proof.Tile, hashes []proof.Hash) error {
	return f.restore(tile, proof.EncodeTile(hashes), false)
}

// restore replaces the file of a tile by rename. With sync set, the new file is durable on return.
func (f *tileFiles) restore(tile proof.Tile, raw []byte, sync bool) error {
	if err := replaceFile(filepath.Join(f.dir, filepath.FromSlash(tile.Path())), raw, 0o644, sync); err != nil {
		return fmt.Errorf("write %s: %w", tile.Path(), err)
	}
	return nil
}

func (f *tileFiles) Get(tile proof.Tile, width int) ([]byte, error) {
	return readTile(f.dir, tile, width)
}

// errIncomplete is returned for a file of a tile that has another length.
var errIncomplete = errors.New("the file is not that of a tile")

// readTile reads the first width hashes of the file of a tile.
func readTile(dir string, tile proof.Tile, width int) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(tile.Path())))
	if err != nil {
		return nil, err
	}
	if len(raw) != tile.Width*tlog.HashSize {
		return nil, fmt.Errorf("%s has %d bytes, not %d: %w", tile.Path(), len(raw), tile.Width*tlog.HashSize, errIncomplete)
	}
	return raw[:width*tlog.HashSize], nil
}

// save writes the tiles that are not full, so that load can read the tree. The files of the previous
// size stay until removeReplaced: as long as the file "durable" names that size, load needs their
// hashes, which cannot be computed again if the events were removed.
func (f *tileFiles) save(t *proof.Tree) error {
	var current []proof.Tile
	for tile, hashes := range t.PartialTiles() {
		if err := f.replace(tile, hashes); err != nil {
			return err
		}
		current = append(current, tile)
		if !slices.Contains(f.partial, tile) {
			f.partial = append(f.partial, tile)
		}
	}
	f.current = current
	return nil
}

// removeReplaced removes the files of tiles that the last save replaced. The caller MUST have made
// that save durable.
func (f *tileFiles) removeReplaced() error {
	for _, old := range f.partial {
		if slices.Contains(f.current, old) {
			continue
		}
		path := filepath.Join(f.dir, filepath.FromSlash(old.Path()))
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_ = os.Remove(filepath.Dir(path)) // fails if the directory holds other tiles
	}
	f.partial = slices.Clone(f.current)
	return nil
}

// load reads the right edge of a tree of the given size from the files that save wrote. Full tiles
// are read on demand.
func (f *tileFiles) load(size uint64) (*proof.Tree, error) {
	f.partial, f.current = nil, nil
	t, err := proof.LoadTree(f, size, f.readPartial)
	if err != nil {
		return nil, fmt.Errorf("load the tree: %w", err)
	}
	f.current = slices.Clone(f.partial)
	return t, nil
}

// readPartial reads a tile that is not full, from its file or from that of the same tile with more
// hashes: earlier versions removed the file of a size before a larger size was durable.
func (f *tileFiles) readPartial(tile proof.Tile) ([]byte, error) {
	width := tile.Width
	var missing error
	for ; tile.Width <= proof.TileWidth; tile.Width++ {
		raw, err := readTile(f.dir, tile, width)
		if err == nil {
			if tile.Width < proof.TileWidth {
				f.partial = append(f.partial, tile)
			}
			return raw, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if missing == nil {
			missing = err
		}
	}
	return nil, missing
}
