package translog

import (
	"bytes"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"daybook/internal/durable"
	"daybook/proof"
)

// Dir is the path of an audit directory. It implements audit.Directory.
type Dir string

// VKeys reads the verification keys, the newest last.
func (d Dir) VKeys() ([]string, error) { return readVKeys(string(d)) }

// Checkpoints returns all checkpoints, unverified, in the order of their sizes: those in the files of
// checkpoints, and the one in a signed file beside a key in the directory. It skips notes cut short by a
// crash. The iteration ends after an error.
func (d Dir) Checkpoints() iter.Seq2[proof.Checkpoint, error] {
	return func(yield func(proof.Checkpoint, error) bool) {
		kept, err := openKept(string(d))
		if err != nil {
			yield(proof.Checkpoint{}, err)
			return
		}
		defer kept.close()
		raw, err := os.ReadFile(SignedPath(string(d), "", ""))
		if ignoreMissing(err) != nil {
			yield(proof.Checkpoint{}, err)
			return
		}
		signed, err := proof.ParseCheckpoint(raw)
		hasSigned := err == nil && !bytes.Equal(signed.Note, kept.last)
		for i := range kept.len() {
			c, err := kept.at(i)
			if hasSigned && err == nil && c.Size > signed.Size {
				if hasSigned = false; !yield(signed, nil) {
					return
				}
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
		if hasSigned {
			yield(signed, nil)
		}
	}
}

// Signers reads the statements about the signers, in the form of proof.Signers.Bytes. Without a file, the
// result is empty.
func (d Dir) Signers() ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(string(d), fileSigners))
	return raw, ignoreMissing(err)
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
	return OpenProvenLeaves(string(d), SignedPath(string(d), "", "")).Leaf
}

// HighestKnown returns the highest position that existed according to an audit directory and a
// signed file (see SignedPath): the size of the newest checkpoint that a key of the directory
// signed, or that of the tree on disk if it is larger. It returns 0 for an empty directory. It
// ignores a tree whose files are unreadable, damaged or contradict what was signed, checkpoints that
// none of these keys signed, and a signed file that Open refuses. A file of keys or checkpoints that
// exists and cannot be read is an error.
func HighestKnown(dir, signedPath string) (uint64, error) {
	var reach uint64
	var tree *proof.Tree
	if d, err := readDurable(dir); err == nil {
		if t, err := (&tileFiles{dir: dir}).load(d.size); err == nil && t.Root() == d.root {
			reach, tree = d.size, t
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
		signed = proof.Checkpoint{} // Open reports it
	}
	for _, c := range []proof.Checkpoint{c, signed} {
		if tree == nil || c.Note == nil || c.Size > reach || len(ofOrigin(ofNewestOrigin(keys), c.Origin)) == 0 {
			continue
		}
		if root, err := tree.RootAt(c.Size); err == nil && root != c.Root {
			reach = 0 // the files are of another ledger, or were changed
		}
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
