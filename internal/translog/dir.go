package translog

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"daybook/internal/durable"
	"daybook/proof"
)

// Dir is the path of an audit directory. It implements audit.Directory.
type Dir string

// VKeys reads the verification keys, the newest last.
func (d Dir) VKeys() ([]string, error) { return readVKeys(string(d)) }

// Checkpoints reads all checkpoints, unverified, oldest first: those in the file of checkpoints, and
// the one in a signed file beside a key in the directory. It skips a note cut short by a crash.
func (d Dir) Checkpoints() ([]proof.Checkpoint, error) {
	list, err := keptCheckpoints(string(d))
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(SignedPath(string(d), "", ""))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	c, err := proof.ParseCheckpoint(raw)
	if n := len(list); err == nil && (n == 0 || !bytes.Equal(c.Note, list[n-1].Note)) {
		list = append(list, c)
	}
	return list, nil
}

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

// HighestKnown returns the highest position that existed according to an audit directory and a
// signed file (see SignedPath): the size of the newest checkpoint that a key of the directory
// signed, or that of the tree on disk if it is larger. It returns 0 for an empty directory. It
// ignores a tree whose files are unreadable or damaged, checkpoints that none of these keys signed,
// and a signed file that Open refuses. A file of keys or checkpoints that exists and cannot be read
// is an error.
func HighestKnown(dir, signedPath string) (uint64, error) {
	var reach uint64
	if d, err := readDurable(dir); err == nil {
		if t, err := (&tileFiles{dir: dir}).load(d.size); err == nil && t.Root() == d.root {
			reach = d.size
		}
	}
	keys, err := readVKeys(dir)
	if errors.Is(err, os.ErrNotExist) {
		return reach, nil
	}
	if err != nil {
		return 0, err
	}
	c, err := lastCheckpoint(dir, keys)
	if err != nil {
		return 0, err
	}
	signed, err := readSigned(signedPath, keys)
	if err != nil {
		return max(reach, c.Size), nil //nolint:nilerr // Open reports it
	}
	return max(reach, c.Size, signed.Size), nil
}

// replaceFile replaces a file by rename, so that a reader finds the old or the new content. It
// creates the directory if necessary. With sync set, the new content is durable on return, and so are
// the names of the file and of directories that replaceFile created.
func replaceFile(path string, content []byte, mode os.FileMode, sync bool) error {
	write, makeDir := durable.WriteFileUnsynced, os.MkdirAll
	if sync {
		write, makeDir = durable.WriteFile, durable.MkdirAll
	}
	err := write(path, content, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeDir(filepath.Dir(path), 0o755); err == nil {
			err = write(path, content, mode)
		}
	}
	return err
}

func removeIfThere(dir, name string) error {
	if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
