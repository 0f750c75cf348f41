package translog

import (
	"path/filepath"

	"daybook/proof"
)

// Dir is the path of an audit directory. It implements audit.Directory.
type Dir string

// VKeys reads the verification keys, the newest last.
func (d Dir) VKeys() ([]string, error) { return VKeys(string(d)) }

// Checkpoints reads all checkpoints, unverified, oldest first. It skips a note cut short by a
// crash.
func (d Dir) Checkpoints() ([]proof.Checkpoint, error) { return keptCheckpoints(string(d)) }

// DurableSize reads the size of the tree whose files are on disk.
func (d Dir) DurableSize() (uint64, error) {
	safe, err := readDurable(string(d))
	return safe.size, err
}

// TilePath returns the path of the file of a tile.
func (d Dir) TilePath(t proof.Tile) string {
	return filepath.Join(string(d), filepath.FromSlash(t.Path()))
}

// ReadTile reads the hashes of a full tile, 32 bytes each.
func (d Dir) ReadTile(t proof.Tile) ([]byte, error) { return readTile(string(d), t, proof.TileWidth) }

// Leaves returns a function that returns the leaf of a position if the files prove it; see
// OpenProvenLeaves.
func (d Dir) Leaves() func(position uint64) (proof.Hash, bool) {
	return OpenProvenLeaves(string(d)).Leaf
}
